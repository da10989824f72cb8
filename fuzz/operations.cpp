// libFuzzer's entry: bytes -> a small store and a program of operations on it (README.md says how to run it).
#include "program.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ByteReader in({data, size});
    pagedkv::StoreOptions options;
    options.num_blocks = 1 + in.below(16);
    options.block_size = 1 + in.below(5);
    const std::uint8_t limits = in.byte();
    if (limits % 4 == 1) options.max_tokens = 1 + limits % 31;
    if (limits % 3 == 1) options.watermark = limits % options.num_blocks;
    options.scratch_blocks = limits % 2;
    const std::uint8_t reuse = in.byte();
    options.prefix_caching = reuse % 4 > 0;
    options.constant_hash = reuse % 4 == 3;
    Program program(in, options);
    while (!in.empty()) program.step();
    return 0;
}
