// Turns a fuzzer's bytes into small numbers, ids and hostile values. Reading past the end gives zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

class ByteReader {
public:
    explicit ByteReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

    bool empty() const { return next_ >= bytes_.size(); }
    std::uint8_t byte() { return empty() ? std::uint8_t{0} : bytes_[next_++]; }
    std::int64_t below(std::int64_t bound) { return byte() % bound; }
    bool flag() { return (byte() & 1) != 0; }

    // Mostly a few tokens, sometimes a value that overflows something.
    std::int64_t amount() {
        constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
        constexpr std::int64_t hostile[] = {-1,
                                            std::int64_t{1} << 31,
                                            (std::int64_t{1} << 31) - 1,
                                            std::int64_t{1} << 32,
                                            std::int64_t{1} << 62,
                                            most,
                                            -most - 1,
                                            most - 1};
        const std::uint8_t b = byte();
        return b < 244 ? b % 23 : hostile[b % 8];
    }

    // A batch out of six ids, each once; rarely one of them twice.
    std::vector<std::int64_t> ids() {
        constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
        constexpr std::int64_t all[] = {0, 1, -1, most, -most - 1, std::int64_t{1} << 32};
        const std::uint8_t mask = byte(), order = byte();
        std::vector<std::int64_t> chosen;
        for (unsigned i = 0; i < 6; ++i)
            if (const unsigned k = (i + order) % 6; mask & (1U << k)) chosen.push_back(all[k]);
        if (order >= 250 && !chosen.empty()) chosen.push_back(chosen[0]);
        return chosen;
    }

    std::vector<std::int64_t> amounts(std::size_t count) {
        std::vector<std::int64_t> all;
        for (std::size_t i = 0; i < count; ++i) all.push_back(amount());
        return all;
    }

    // Up to three blocks, repetitions included; rarely one that does not exist.
    std::vector<std::int64_t> blocks(std::int64_t num_blocks) {
        std::vector<std::int64_t> all;
        for (std::int64_t n = below(4); n > 0; --n) {
            const std::uint8_t b = byte();
            all.push_back(b == 255 ? -1 : b == 254 ? num_blocks : b % num_blocks);
        }
        return all;
    }

private:
    std::span<const std::uint8_t> bytes_;
    std::size_t next_ = 0;
};
