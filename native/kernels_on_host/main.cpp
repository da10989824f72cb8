// Launches the kernel that this program was compiled with: GRID_X GRID_Y THREADS forward|reversed ARGUMENT...
// (arguments.hpp says how arguments are written).
#include <cstdio>
#include <cstring>
#include <string>

#include "arguments.hpp"
#include "cta_runner.hpp"

int main(int count, char** words) {
    if (count < 5) {
        std::fprintf(stderr, "%s GRID_X GRID_Y THREADS forward|reversed ARGUMENT...\n", words[0]);
        return 2;
    }
    const auto number = [&](int i) { return static_cast<std::uint32_t>(std::stoul(words[i])); };
    const pagedkv_shim::Launch launch{{number(1), number(2), 1}, number(3), std::strcmp(words[4], "reversed") == 0};
    pagedkv_shim::Arguments arguments;
    for (int i = 5; i < count; ++i) arguments.add(words[i]);
    pagedkv_shim::run(launch, [&] { pagedkv_shim::call_kernel(arguments.values().data(), arguments.values().size()); });
    arguments.write_back();
    return 0;
}
