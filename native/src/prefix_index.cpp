// The prefix index: construction, match, publish.
#include "pagedkv/prefix_index.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "pagedkv/cache_events.hpp"

namespace pagedkv {

namespace {
template <class T>
std::unique_ptr<T[]> room(std::int32_t n) {
    return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(n));
}

// Buckets for runs: one for every four blocks, since a run holds several and chains of a few cost nothing.
std::size_t bucket_count(std::int32_t blocks) {
    std::size_t count = 16;
    while (count * 4 < static_cast<std::size_t>(blocks)) count *= 2;
    return count;
}

inline void prefetch_for_read([[maybe_unused]] const void* address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address, 0);
#endif
}

// Blocks of 16 tokens are the usual ones; a comparison of known length needs no call and no branch a word.
inline bool equal_tokens(const std::int32_t* a, const std::int32_t* b, std::size_t n) {
    if (n != 16) return std::memcmp(a, b, n * sizeof *a) == 0;
    std::int32_t differ = 0;
    for (std::size_t i = 0; i < 16; ++i) differ |= a[i] ^ b[i];
    return differ == 0;
}
}  // namespace

PrefixIndex::PrefixIndex(BlockAllocator& blocks, std::int32_t block_size, bool constant_hash)
    : blocks_(blocks),
      size_(static_cast<std::size_t>(block_size)),
      constant_hash_(constant_hash),
      bucket_mask_(bucket_count(blocks.total()) - 1),
      tokens_(std::make_unique_for_overwrite<std::int32_t[]>(static_cast<std::size_t>(blocks.total()) * size_)),
      places_(room<Place>(blocks.total())),
      runs_(room<Run>(blocks.total())),
      buckets_(room<RunId>(static_cast<std::int32_t>(bucket_mask_ + 1))),
      free_runs_(room<RunId>(blocks.total())),
      gone_(room<BlockId>(blocks.total())) {
    // Nobody who only sends prompts may choose which ones share a bucket.
    std::random_device random;
    for (std::uint64_t& key : keys_) key = (std::uint64_t{random()} << 32) | random() | 1U;
    for (std::size_t i = 0; i <= bucket_mask_; ++i) buckets_[i] = -1;
    // Number 0 means the usual case: no salt, no digest. It is never given back.
    salts_.intern("");
    digests_.intern("");
    blocks_.set_content_owner(this);
}

bool PrefixIndex::holds(BlockId b, const std::int32_t* tokens, std::int32_t with) const {
    return equal_tokens(tokens_of(b), tokens, size_) && (blocks_.special(b) ? extra(b) : kNoExtra) == with;
}

std::uint32_t PrefixIndex::hash(RunId parent, const std::int32_t* tokens, std::int32_t with) const {
    if (constant_hash_) return 0;
    std::uint64_t h =
        keys_[0] ^ ((static_cast<std::uint64_t>(static_cast<std::uint32_t>(parent)) << 32) | static_cast<std::uint32_t>(with));
    h *= keys_[1];
    for (std::size_t i = 0; i < size_; ++i) {
        h = (h ^ (h >> 29) ^ static_cast<std::uint32_t>(tokens[i])) * keys_[2];
    }
    h = (h ^ (h >> 32)) * keys_[3];
    return static_cast<std::uint32_t>(h >> 32);
}

PrefixIndex::RunId PrefixIndex::find_child(RunId parent, const std::int32_t* tokens, std::int32_t with) const {
    const std::uint32_t wanted = hash(parent, tokens, with);
    for (RunId r = buckets_[wanted & bucket_mask_]; r >= 0; r = run(r).bucket_next)
        if (run(r).hash == wanted && run(r).parent == parent && holds(run(r).blocks[0], tokens, with)) return r;
    return -1;
}

// What comparing this run will read: the tokens, and the states of its blocks.
void PrefixIndex::prefetch_run(RunId r) const {
    for (std::int32_t i = 0; i < run(r).length; ++i) {
        const BlockId b = run(r).blocks[i];
        prefetch_for_read(tokens_of(b));
        blocks_.prefetch_findable(b);
    }
}

std::int64_t PrefixIndex::match(const PrefixKey& key, std::int64_t most, BlockId* out) const {
    if (most <= 0 || key.salt == Interner::kUnknown) return 0;
    const std::int32_t* tokens = key.tokens.data();
    const Extra* covers = key.extras.data();
    const Extra* const last_cover = covers + key.extras.size();
    const auto extra_at = [&](std::int64_t column) {
        while (covers != last_cover && covers->column < column) ++covers;
        return covers != last_cover && covers->column == column ? covers->number : kNoExtra;
    };
    std::int64_t found = 0;
    RunId r = find_child(salt_parent(key.salt), tokens, extra_at(0));
    while (r >= 0) {
        // While this run is compared, the next one comes in: its line was asked for a run ago.
        const RunId child = run(r).child;
        if (child >= 0) prefetch_run(child);
        if (child >= 0 && run(child).child >= 0) prefetch_for_read(&run(run(child).child));
        const Run& here = run(r);
        const bool plain = here.special == 0 && key.extras.empty();
        const auto nodes = static_cast<std::int32_t>(std::min<std::int64_t>(here.length, most - found));
        for (std::int32_t i = 0; i < nodes; ++i) {
            const BlockId b = here.blocks[i];
            if (plain ? !equal_tokens(tokens_of(b), tokens, size_) : !holds(b, tokens, extra_at(found))) return found;
            out[found++] = b;
            tokens += size_;
        }
        if (found == most) return found;
        // An only child is compared as it is.
        r = child >= 0 && run(child).next >= 0 ? find_child(r, tokens, extra_at(found)) : child;
    }
    return found;
}

void PrefixIndex::publish(BlockId parent, std::int32_t salt, BlockId b, const std::int32_t* tokens, std::int32_t with) {
    std::memcpy(&tokens_[static_cast<std::size_t>(b) * size_], tokens, size_ * sizeof *tokens);
    blocks_.mark_published(b, with != kNoExtra);
    if (with != kNoExtra) digests_.hold(with);
    ++copies_;
    RunId above = salt_parent(salt);
    if (parent >= 0) {
        above = place(parent).run;
        const std::int32_t next = column(parent) + 1;
        if (next < run(above).length) {
            if (holds(run(above).blocks[next], tokens, with)) return put(b, Node{above, next}, with);
            split(above, next);
            above = place(parent).run;
        } else if (run(above).child < 0 && next < run(above).limit) {
            run(above).blocks[next] = b;
            ++run(above).length;
            return put(b, Node{above, next}, with);
        }
    }
    RunId r = parent >= 0 && run(above).child < 0 ? -1 : find_child(above, tokens, with);
    if (r < 0) {
        r = new_run(above, salt, next_uid_++ * 16, hash(above, tokens, with));
        run(r).blocks[0] = b;
        link(r);
    }
    put(b, Node{r, 0}, with);
}

// Into the ring of its node; the first one is the node.
void PrefixIndex::put(BlockId b, Node node, std::int32_t with) {
    const BlockId first = run(node.run).blocks[node.column];
    place(b) = Place{node.run, b, b, (with << 4) | node.column};
    if (with != kNoExtra) run(node.run).special = 1;
    if (first == b) {
        ++nodes_;
        report_stored(node);
        return;
    }
    place(b).next = place(first).next;
    place(b).prev = first;
    place(place(b).next).prev = b;
    place(first).next = b;
}

PrefixIndex::RunId PrefixIndex::new_run(RunId parent, std::int32_t salt, std::uint64_t serial, std::uint32_t hash) {
    const RunId r = num_free_runs_ > 0 ? free_runs_[at(--num_free_runs_)] : fresh_runs_++;
    run(r) = Run{parent, -1, -1, -1, -1, hash, 1, kRun, serial, {}, salt, 0};
    return r;
}

void PrefixIndex::link(RunId r) {
    Run& self = run(r);
    RunId& first = self.parent >= 0 ? run(self.parent).child : roots_;
    self.prev = -1;
    self.next = first;
    if (first >= 0) run(first).prev = r;
    first = r;
    self.bucket_next = bucket(self.hash);
    bucket(self.hash) = r;
    if (self.parent < 0) salts_.hold(self.salt);
}

// The nodes from `column` on move into a run below. They keep the run's id, so that its children stay where they are;
// what is in front gets a new one in its place.
void PrefixIndex::split(RunId r, std::int32_t column) {
    const RunId head = new_run(-1, 0, 0, 0);
    run(head) = run(r);
    run(head).length = run(head).limit = column;
    run(head).child = -1;
    RunId* in_bucket = &bucket(run(r).hash);
    while (*in_bucket != r) in_bucket = &run(*in_bucket).bucket_next;
    *in_bucket = head;
    if (run(r).next >= 0) run(run(r).next).prev = head;
    if (run(r).prev >= 0) run(run(r).prev).next = head;
    else (run(r).parent >= 0 ? run(run(r).parent).child : roots_) = head;

    Run& tail = run(r);
    tail.length -= column;
    tail.limit -= column;
    tail.serial += static_cast<std::uint64_t>(column);
    std::memmove(tail.blocks, tail.blocks + column, static_cast<std::size_t>(tail.length) * sizeof(BlockId));
    tail.parent = head;
    const auto each_copy = [this](BlockId first, const auto& change) {
        BlockId b = first;
        do {
            change(place(b));
            b = place(b).next;
        } while (b != first);
    };
    for (std::int32_t i = 0; i < column; ++i) each_copy(run(head).blocks[i], [head](Place& p) { p.run = head; });
    for (std::int32_t i = 0; i < tail.length; ++i) each_copy(tail.blocks[i], [column](Place& p) { p.column_extra -= column; });
    const BlockId first = tail.blocks[0];
    tail.hash = hash(head, tokens_of(first), extra(first));
    link(r);
}

}  // namespace pagedkv
