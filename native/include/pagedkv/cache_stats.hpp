// CacheStats: a snapshot in O(1). Every field is kept up to date by the operations; nothing is walked.
// Percentages are 0 to 100 and 0 where there is nothing to divide by.
#pragma once

#include "pagedkv/types.hpp"

namespace pagedkv {

struct CacheStats {
    std::int64_t total_blocks = 0, clean_blocks = 0, cached_blocks = 0, in_use_blocks = 0, pending_blocks = 0;
    std::int64_t active_sequences = 0;
    std::int64_t logical_tokens = 0;  // sum of lengths: shared tokens count once a sequence
    std::int64_t stored_tokens = 0;   // sum of fill over in-use blocks: shared tokens count once
    std::int64_t logical_blocks = 0;  // page-table entries
    std::int64_t table_blocks = 0;    // distinct blocks that page tables hold
    std::int64_t cow_copies = 0, evictions = 0, peak_allocated_blocks = 0;
    std::int64_t queried_tokens = 0, hit_tokens = 0, failed_admissions = 0;
    std::int64_t block_size = 0;

    std::int64_t free_blocks() const { return clean_blocks + cached_blocks; }
    std::int64_t allocated_blocks() const { return in_use_blocks + pending_blocks; }
    std::int64_t saved_blocks() const { return logical_blocks - table_blocks; }
    double utilization_percent() const { return percent(allocated_blocks(), total_blocks); }
    double token_utilization_percent() const { return percent(stored_tokens, total_blocks * block_size); }
    double internal_frag_percent() const {
        const std::int64_t slots = in_use_blocks * block_size;
        return percent(slots - stored_tokens, slots);
    }
    // Any free block serves any request, so no free memory is ever unusable for its place.
    double external_frag_percent() const { return 0.0; }

private:
    static double percent(std::int64_t part, std::int64_t whole) {
        return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
    }
};

}  // namespace pagedkv
