#include "arguments.hpp"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace pagedkv_shim {
namespace {

// AddressSanitizer's own margins are narrow: an access a whole chunk too far would land in another buffer.
constexpr std::size_t kMargin = 128 * 1024;

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(2);
}

std::vector<char> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (std::size_t to; (to = text.find(':', from)) != std::string::npos; from = to + 1)
        parts.push_back(text.substr(from, to - from));
    parts.push_back(text.substr(from));
    return parts;
}

Argument pointer(const char* address) { return reinterpret_cast<std::uint64_t>(address); }

// Opens the pages that [address, address + bytes) touches.
void open_pages(char* region, std::uint64_t offset, std::size_t bytes) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t first = offset / page * page;
    const std::uint64_t end = (offset + bytes + page - 1) / page * page;
    if (mprotect(region + first, end - first, PROT_READ | PROT_WRITE) != 0) fail("cannot open pages of a sparse region");
}

}  // namespace

void Arguments::add(const std::string& text) {
    const std::size_t equals = text.find('=');
    const std::string kind = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (kind == "int") values_.push_back(static_cast<std::uint64_t>(std::stoll(value)));
    else if (kind == "null") values_.push_back(0);
    else if (kind == "buffer") add_buffer(value);
    else if (kind == "sparse") add_sparse(value);
    else fail("no argument: " + text);
}

void Arguments::add_buffer(const std::string& text) {
    const std::vector<std::string> parts = split(text);
    if (parts.size() != 2) fail("buffer=OFFSET:FILE, not " + text);
    const std::size_t offset = std::stoull(parts[0]);
    const std::vector<char> content = read_file(parts[1]);
    buffers_.push_back(std::make_unique<char[]>(kMargin + offset + content.size() + kMargin));
    char* start = buffers_.back().get();
    char* address = start + kMargin + offset;
    ASAN_POISON_MEMORY_REGION(start, kMargin + offset);
    ASAN_POISON_MEMORY_REGION(address + content.size(), kMargin);
    std::copy(content.begin(), content.end(), address);
    pieces_.push_back({parts[1], address, content.size()});
    values_.push_back(pointer(address));
}

void Arguments::add_sparse(const std::string& text) {
    const std::vector<std::string> parts = split(text);
    if (parts.size() % 2 != 1) fail("sparse=SIZE:OFFSET:FILE..., not " + text);
    void* mapped = mmap(nullptr, std::stoull(parts[0]), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) fail("cannot reserve addresses for " + text);
    char* region = static_cast<char*>(mapped);
    for (std::size_t i = 1; i < parts.size(); i += 2) {
        const std::uint64_t offset = std::stoull(parts[i]);
        const std::vector<char> content = read_file(parts[i + 1]);
        open_pages(region, offset, content.size());
        std::copy(content.begin(), content.end(), region + offset);
        pieces_.push_back({parts[i + 1], region + offset, content.size()});
    }
    values_.push_back(pointer(region));
}

void Arguments::write_back() const {
    for (const Piece& piece : pieces_) {
        std::ofstream file(piece.file, std::ios::binary);
        file.write(piece.address, static_cast<std::streamsize>(piece.bytes));
        if (!file) fail("cannot write " + piece.file);
    }
}

}  // namespace pagedkv_shim
