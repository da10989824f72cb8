// Runs the operations fuzzer without libFuzzer, so that any compiler can: the files named on the command line, and
// `-random N` programs of arbitrary bytes.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::vector<char>& bytes) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

void run_random(long programs) {
    std::mt19937_64 random(1);
    for (long i = 0; i < programs; ++i) {
        std::vector<char> bytes(random() % 400);
        for (char& byte : bytes) byte = static_cast<char>(random());
        run(bytes);
    }
    std::cout << programs << " random programs\n";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return std::cerr << "usage: replay [-random N] [FILE...]\n", EXIT_FAILURE;
    for (int i = 1; i < argc; ++i) {
        if (argv[i] == std::string("-random") && i + 1 < argc) {
            run_random(std::atol(argv[++i]));
            continue;
        }
        std::ifstream file(argv[i], std::ios::binary);
        if (!file) return std::cerr << argv[i] << " cannot be read\n", EXIT_FAILURE;
        run({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
    }
}
