// PrefixIndex finds blocks by content: by all tokens from the first of a sequence on, its salt, and the digests that
// cover them. It compares, it does not trust: a hash only says where to look.
//
// A node is one content: a block's tokens below a chain of parents. Nodes lie in runs, up to kRun of a chain in a row:
//
//   salt ""  --->  [A B C D E]  --->  [F G]          a prompt ABCDE, continued by FG and by XY;
//                               --->  [X Y]          children hang below the last node of a run only
//
// A chain that leaves a run in its middle splits it there. All blocks with one content form a ring of copies; the run
// names one of them. A node without a copy goes, and with it everything below, which nobody could reach any more.
//
// Invariants: every block of a ring is published, full, and holds exactly the tokens kept for it; a run has 1 .. kRun
// nodes; runs below one parent differ in their first node; a node's serial is never given to another content.
// Thread rule: the caller locks. Cost: a match is one comparison of block_size tokens a block and one look-up a run of
// which a parent has several; publish, and the loss of a block, are O(1) amortized. Nothing is allocated after
// construction, so nothing here fails: memory is set aside for one run a block and touched when used.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "pagedkv/block_allocator.hpp"
#include "pagedkv/interner.hpp"
#include "pagedkv/types.hpp"

namespace pagedkv {

class CacheEvents;

// What a sequence of tokens is looked up by. `extras` are ascending columns with what covers them beyond tokens.
struct Extra {
    std::int32_t column;
    std::int32_t number;  // of the interned digests; Interner::kUnknown matches nothing
};
struct PrefixKey {
    std::int32_t salt = 0;  // number of the interned salt; Interner::kUnknown matches nothing
    std::span<const std::int32_t> tokens;
    std::span<const Extra> extras;
};

class PrefixIndex final : public ContentOwner {
public:
    static constexpr std::int32_t kRun = 12;
    static constexpr std::int32_t kNoExtra = 0;

    PrefixIndex(BlockAllocator& blocks, std::int32_t block_size, bool constant_hash);

    // The blocks of the longest known prefix, at most `most` of them, into `out` (room must be there). No order changes.
    std::int64_t match(const PrefixKey& key, std::int64_t most, BlockId* out) const;

    // `b`, full and written, holds `tokens` behind `parent` (-1: first block under that salt), which is published.
    void publish(BlockId parent, std::int32_t salt, BlockId b, const std::int32_t* tokens, std::int32_t extra);
    void lost(BlockId b) override;
    void clear();

    const std::int32_t* tokens_of(BlockId b) const { return &tokens_[static_cast<std::size_t>(b) * size_]; }
    Interner& salts() { return salts_; }
    Interner& digests() { return digests_; }
    const Interner& salts() const { return salts_; }
    const Interner& digests() const { return digests_; }
    void set_events(CacheEvents* events) { events_ = events; }
    void report_all();  // every node, parents first, to the events

    // Recounts everything; throws Error naming what is broken. The counts come with what sequences hold, by number.
    void check(std::vector<std::int64_t> salt_holders, std::vector<std::int64_t> digest_holders) const;

private:
    using RunId = std::int32_t;
    struct Run {
        RunId parent;             // or salt_parent(salt)
        RunId bucket_next;        // runs of one bucket of children
        RunId child, next, prev;  // first child; neighbors below one parent
        std::uint32_t hash;
        std::int32_t length;
        std::int32_t limit;    // a run that lost nodes does not grow again: their serials stay theirs
        std::uint64_t serial;  // of node 0; the others follow
        BlockId blocks[kRun];
        std::int32_t salt;
        std::int32_t special;  // whether digests cover any node, or once did
    };
    struct Place {  // where a published block is
        RunId run;
        BlockId next, prev;         // ring of copies
        std::int32_t column_extra;  // column in the run, number of the interned digests
    };
    struct Node {
        RunId run = -1;
        std::int32_t column = 0;
    };

    static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
    static RunId salt_parent(std::int32_t salt) { return -2 - salt; }
    Run& run(RunId r) { return runs_[at(r)]; }
    const Run& run(RunId r) const { return runs_[at(r)]; }
    Place& place(BlockId b) { return places_[at(b)]; }
    const Place& place(BlockId b) const { return places_[at(b)]; }
    std::int32_t column(BlockId b) const { return place(b).column_extra & 15; }
    std::int32_t extra(BlockId b) const { return place(b).column_extra >> 4; }

    bool holds(BlockId b, const std::int32_t* tokens, std::int32_t extra) const;
    std::uint32_t hash(RunId parent, const std::int32_t* tokens, std::int32_t extra) const;
    RunId& bucket(std::uint32_t hash) { return buckets_[hash & bucket_mask_]; }
    RunId find_child(RunId parent, const std::int32_t* tokens, std::int32_t extra) const;
    void prefetch_run(RunId r) const;

    Node node_for(RunId parent, const std::int32_t* tokens, std::int32_t extra, Node after, bool& found);
    RunId new_run(RunId parent, std::int32_t salt, std::uint64_t serial, std::uint32_t hash);
    void link(RunId r);
    void unlink(RunId r);
    void split(RunId r, std::int32_t column);
    void put(BlockId b, Node node, std::int32_t extra);
    void remove_nodes(RunId r, std::int32_t from);
    void remove_below(RunId r);
    void withdraw_gone();
    void drop_run(RunId r);
    std::uint64_t parent_serial(RunId r, std::int32_t column) const;
    void report_stored(Node node) const;
    void check_run(RunId r, std::int64_t& nodes, std::int64_t& copies, std::vector<std::int64_t>& digest_holders) const;

    BlockAllocator& blocks_;
    std::size_t size_;
    bool constant_hash_;
    std::uint64_t keys_[4];
    std::size_t bucket_mask_;
    std::unique_ptr<std::int32_t[]> tokens_;  // by block
    std::unique_ptr<Place[]> places_;         // by block
    std::unique_ptr<Run[]> runs_;
    std::unique_ptr<RunId[]> buckets_;
    std::unique_ptr<RunId[]> free_runs_;
    std::unique_ptr<BlockId[]> gone_;  // blocks of the nodes that one loss takes with it
    std::int32_t fresh_runs_ = 0, num_free_runs_ = 0, num_gone_ = 0;
    std::int64_t nodes_ = 0, copies_ = 0;
    std::uint64_t next_uid_ = 1;
    RunId roots_ = -1;  // first of the runs without a parent, all salts
    Interner salts_, digests_;
    CacheEvents* events_ = nullptr;
};

}  // namespace pagedkv
