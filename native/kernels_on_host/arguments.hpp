// A kernel's arguments, read from the command line, and the memory behind its pointers.
//
//   int=N, null
//   buffer=OFFSET:FILE          the file's bytes, OFFSET bytes behind a 16-byte boundary, between wide margins that nobody
//                               may touch: one byte beyond the last is an error of AddressSanitizer's
//   sparse=SIZE:OFFSET:FILE...  SIZE bytes of addresses of which only the pages of the named pieces may be touched: an
//                               offset cut to 32 bits lands where nothing is, without anybody having 4 GiB of memory
// What the kernel leaves in buffers and pieces is written back to the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pagedkv_shim {

// An integer, or a pointer.
using Argument = std::uint64_t;

// A file's bytes in memory.
struct Piece {
    std::string file;
    char* address;
    std::size_t bytes;
};

class Arguments {
public:
    // Exits with a message when `text` is malformed.
    void add(const std::string& text);
    void write_back() const;
    const std::vector<Argument>& values() const { return values_; }

private:
    void add_buffer(const std::string& text);
    void add_sparse(const std::string& text);

    std::vector<Argument> values_;
    std::vector<Piece> pieces_;
    std::vector<std::unique_ptr<char[]>> buffers_;
};

// Runs the kernel that this program was compiled with, in the calling CUDA thread (kernel_unit.cpp).
void call_kernel(const Argument* arguments, std::size_t count);

}  // namespace pagedkv_shim
