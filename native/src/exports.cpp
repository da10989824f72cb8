// Block tables in the forms that attention kernels read. Nothing here modifies a sequence.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

// The readable id that fills unused table entries: the scratch block if there is one, else block 0.
std::int32_t SequenceStore::pad_block(std::optional<std::int64_t> pad) const {
    const std::int64_t ids = options_.num_blocks + options_.scratch_blocks;
    if (!pad) return options_.scratch_blocks > 0 ? static_cast<std::int32_t>(options_.num_blocks) : 0;
    if (*pad < -1 || *pad >= ids)
        throw InvalidArgument(join("pad is ", *pad, "; give a block id from 0 to ", ids - 1, ", or -1 for kernels that check"));
    return static_cast<std::int32_t>(*pad);
}

std::int64_t SequenceStore::table_width(Ids ids) {
    resolve(ids);
    std::int64_t width = 0;
    for (const Item& item : items_) width = std::max(width, at(item.row).table.size());
    return width;
}

void SequenceStore::block_table(Ids ids, std::span<std::int32_t> out, std::int64_t width, std::int32_t pad) {
    const std::int64_t needed = table_width(ids);
    if (needed > width)
        throw InvalidArgument(join("a table of ", width, " columns was asked, a sequence has ", needed,
                                   " blocks; give width=", needed, " or more"));
    if (static_cast<std::int64_t>(out.size()) < width * static_cast<std::int64_t>(items_.size()))
        throw InvalidArgument(join("out has ", out.size(), " entries for ", items_.size(), " rows of ", width));
    auto cell = out.begin();
    for (const Item& item : items_) {
        const std::span<const BlockId> entries = at(item.row).table.entries();
        const auto end = cell + static_cast<std::ptrdiff_t>(width);
        std::fill(std::copy(entries.begin(), entries.end(), cell), end, pad);
        cell = end;
    }
    std::fill(cell, out.end(), pad);
}

std::int64_t SequenceStore::slot_count(Ids ids, std::optional<Ids> starts, std::optional<Ids> stops) {
    resolve(ids);
    if ((starts && starts->size() != ids.size()) || (stops && stops->size() != ids.size()))
        throw InvalidArgument(join("starts and stops need one entry for each of the ", ids.size(), " sequences"));
    std::int64_t total = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
        const Sequence& s = at(items_[i].row);
        const std::int64_t start = starts ? (*starts)[i] : 0;
        const std::int64_t stop = stops ? (*stops)[i] : s.table.tokens();
        if (start < 0 || stop < start || stop > capacity(s))
            throw InvalidArgument(join("slots of positions ", start, " to ", stop, " of sequence ", s.id,
                                       ", which has room for ", capacity(s), "; ask within 0 to ", capacity(s)));
        items_[i].from = static_cast<std::int32_t>(start);
        items_[i].count = stop;
        total += stop - start;
    }
    return total;
}

void SequenceStore::slot_mapping(std::span<std::int64_t> out) {
    std::int64_t* slot = out.data();
    for (const Item& item : items_) write_slots(at(item.row), item.from, item.count, slot);
    std::fill(slot, out.data() + out.size(), std::int64_t{-1});
}

std::int64_t SequenceStore::csr_pages(Ids ids) {
    resolve(ids);
    std::int64_t pages = 0;
    for (const Item& item : items_) pages += math_.blocks(item.from);
    if (pages > kMaxTokens)
        throw InvalidArgument(join("these sequences have ", pages, " block table entries; int32 indptr holds ", kMaxTokens));
    return pages;
}

void SequenceStore::csr(std::span<std::int32_t> indptr, std::span<std::int32_t> indices,
                        std::span<std::int32_t> last_page_len) {
    std::size_t page = 0;
    indptr[0] = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
        const std::span<const BlockId> entries = at(items_[i].row).table.entries();
        const std::int64_t tokens = items_[i].from;
        const auto pages = static_cast<std::size_t>(math_.blocks(tokens));
        std::copy_n(entries.begin(), pages, indices.begin() + static_cast<std::ptrdiff_t>(page));
        page += pages;
        indptr[i + 1] = static_cast<std::int32_t>(page);
        last_page_len[i] = tokens > 0 ? static_cast<std::int32_t>(tokens - math_.start(math_.index(tokens - 1))) : 0;
    }
    // A caller's larger buffers describe a padded batch: empty sequences and a readable block id.
    std::fill(indptr.begin() + static_cast<std::ptrdiff_t>(items_.size()) + 1, indptr.end(), static_cast<std::int32_t>(page));
    std::fill(indices.begin() + static_cast<std::ptrdiff_t>(page), indices.end(), pad_block(std::nullopt));
    std::fill(last_page_len.begin() + static_cast<std::ptrdiff_t>(items_.size()), last_page_len.end(), 0);
}

void SequenceStore::seq_lens(Ids ids, std::span<std::int32_t> out) {
    resolve(ids);
    std::size_t i = 0;
    for (const Item& item : items_) out[i++] = item.from;
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(i), out.end(), 0);
}

}  // namespace pagedkv
