// SequenceStore owns the sequences and their page tables, and drives the allocator in whole batches.
//
// Every batch operation works in two passes. Pass 1 resolves ids, validates, counts exactly what is needed and makes
// room (the only step that allocates, and so the only one that can fail); it touches nothing that a caller can see.
// Pass 2 carries out and cannot fail. A call that throws has changed nothing.
//
// Invariants: types.hpp. Besides: a row names at most one live sequence; `emitted` is the number of leading table
// entries that a plan has already reported; `known` is the number of leading tokens whose ids were given; `group` names
// the sequences that share leading entries (fork_groups.hpp).
// Thread rule: none here; KVCacheManager (manager.hpp) locks. Stream rule: ids only; plans are applied in step order.
// Cost: O(1) a sequence and a block touched; independent of pool size, sequence length and number of sequences. A fork
// touches the parent's blocks once; a reorder only what the group does not have in common.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pagedkv/block_allocator.hpp"
#include "pagedkv/cache_events.hpp"
#include "pagedkv/cache_stats.hpp"
#include "pagedkv/content.hpp"
#include "pagedkv/fork_groups.hpp"
#include "pagedkv/page_table.hpp"
#include "pagedkv/row_set.hpp"
#include "pagedkv/sequence_map.hpp"
#include "pagedkv/step_plan.hpp"

namespace pagedkv {

struct StoreOptions {
    std::int64_t num_blocks = 0, block_size = 0;
    std::optional<std::int64_t> max_tokens;
    std::int64_t watermark = 0, scratch_blocks = 0;
    bool prefix_caching = false;
    bool constant_hash = false;  // for tests: every look-up meets every run
};

struct alignas(64) Sequence {  // one cache line: a decode step touches each sequence once
    SeqId id = 0;
    PageTable table;  // table.tokens() is the length
    std::int32_t committed = 0;
    std::int32_t known = 0;
    std::int32_t emitted = 0;
    std::int32_t group = ForkGroups::kNone;
    bool live = false;
    std::uint32_t batch = 0;  // the last batch that named it: finds repeated ids in O(1)
};

struct Admission {
    SeqId seq_id = 0;
    Row row = 0;
    std::int64_t cached_tokens = 0;
};

class SequenceStore {
public:
    using Ids = std::span<const std::int64_t>;
    enum class Fit { whole, partial };

    explicit SequenceStore(const StoreOptions& options);
    SequenceStore(const SequenceStore&) = delete;  // the index knows where the allocator is
    SequenceStore& operator=(const SequenceStore&) = delete;

    // Token ids that came with a call; without an index only their number matters.
    struct TokenIds {
        std::int64_t count = 0;
        const std::int32_t* ids = nullptr;
    };
    struct Admit {
        std::optional<std::int64_t> reserve, max_hit_tokens;
    };

    // Admission and prefix reuse (admit.cpp, contents.cpp).
    void admit(SeqId id, const Prompt& prompt, const Admit& how, Admission& out);
    std::int64_t lookup(const Prompt& prompt, std::optional<std::int64_t> max_hit_tokens);
    bool reset_prefix_cache();
    EventBatch drain_events();
    void give_events_up() { events_.give_up(); }
    bool prefix_caching() const { return index_ != nullptr; }

    // Growth (grow.cpp).
    void append(Ids ids, Ids counts, const std::optional<TokenIds>& tokens, Fit fit, StepPlan& plan);
    void reserve(Ids ids, Ids upto, StepPlan& plan);

    // Sharing (fork.cpp, reorder.cpp).
    void fork(SeqId parent, Ids children);
    void reorder(Ids ids, Ids parents, StepPlan& plan);

    // Cursors and release (cursors.cpp, release.cpp).
    void commit(Ids ids, Ids lengths, const std::optional<TokenIds>& tokens);
    void truncate(Ids ids, Ids lengths, bool keep_blocks);
    void free(Ids ids, std::optional<Step> after);
    void retire(Step step);

    // Exports (exports.cpp): read-only. Sizes first, then fill a buffer of at least that size.
    std::int64_t table_width(Ids ids);
    void block_table(Ids ids, std::span<std::int32_t> out, std::int64_t width, std::int32_t pad);
    std::int64_t slot_count(Ids ids, std::optional<Ids> starts, std::optional<Ids> stops);
    void slot_mapping(std::span<std::int64_t> out);  // of the batch that slot_count just checked
    std::int64_t csr_pages(Ids ids);
    void csr(std::span<std::int32_t> indptr, std::span<std::int32_t> indices, std::span<std::int32_t> last_page_len);
    void seq_lens(Ids ids, std::span<std::int32_t> out);
    std::vector<SeqId> seq_ids() const;
    std::int32_t pad_block(std::optional<std::int64_t> pad) const;

    const Sequence& sequence(SeqId id) const;  // throws SequenceState if unknown
    Row row_of(SeqId id) const { return map_.find(id); }
    CacheStats stats() const;
    void check() const;  // throws Error naming the broken invariant

    BlockAllocator& allocator() { return blocks_; }
    const BlockMath& math() const { return math_; }
    const StoreOptions& options() const { return options_; }
    Step last_step() const { return last_step_; }
    Step retired_step() const { return retired_step_; }

private:
    struct Item {  // one sequence of the batch in work
        Row row;
        std::int32_t from;   // first position of the range
        std::int64_t count;  // tokens or target, as the operation says
        BlockId tail;        // the block that takes all its tokens as it is, or -1
    };
    struct Need {  // what one sequence takes out of the pool and puts into the plan
        std::int64_t blocks = 0, copies = 0, changed_entries = 0;
    };
    class Loan;    // undoes the lent references of a counting pass
    struct Move {  // what a reordered sequence becomes: entries moved_[begin..end) from column `first` on
        std::int64_t first = 0;
        std::size_t begin = 0, end = 0;
        std::int32_t tokens = 0, committed = 0, known = 0, group = ForkGroups::kNone;
    };
    struct Reporter {  // writes table updates into a plan
        std::span<std::int32_t> updates;
        std::size_t& next;
        void operator()(Row row, std::int64_t column, BlockId b) const {
            updates[next++] = row;
            updates[next++] = static_cast<std::int32_t>(column);
            updates[next++] = b;
        }
    };

    Sequence& at(Row row) { return sequences_[static_cast<std::size_t>(row)]; }
    const Sequence& at(Row row) const { return sequences_[static_cast<std::size_t>(row)]; }
    void start_batch();
    void resolve(Ids ids);
    void resolve(Ids ids, Ids values, const char* what);
    void check_target(const Sequence& s, std::int64_t tokens) const;
    std::int64_t capacity(const Sequence& s) const { return math_.start(s.table.size()); }
    [[noreturn]] void unknown(SeqId id) const;
    [[noreturn]] void out_of_blocks(std::int64_t needed, std::int64_t available, const char* what) const;
    void refuse_live(SeqId id) const;
    void check_new(Ids ids);
    void make_room_for_sequences(std::size_t more);

    BlockId simple_tail(const Sequence& s, std::int64_t upto) const;
    std::int32_t own_tokens(const Sequence& s, std::int64_t i) const;
    Need count(const Sequence& s, std::int64_t upto, Loan& loan) const;
    std::size_t count_batch(Fit fit, StepPlan::Counts& counts);
    void grow(Item& item, std::int64_t upto, StepPlan& plan, std::size_t& copies, std::size_t& updates);
    void append_simple(const Item& item, std::int64_t*& slot);
    void append_general(Item& item, StepPlan& plan, std::size_t& copies, std::size_t& updates, std::int64_t*& slot);
    void write_slots(const Sequence& s, std::int64_t from, std::int64_t to, std::int64_t*& out) const;
    void fill_range(Sequence& s, std::int64_t from, std::int64_t to);
    void set_length(Sequence& s, std::int64_t length);
    void check_known(const std::optional<TokenIds>& tokens) const;
    void finish_plan(StepPlan& plan);
    void report_rest(Row row, const Reporter& report);
    void release_entries(const Sequence& s, std::int64_t from, std::int64_t to, Step after, std::int32_t holders);
    void release_tail(Sequence& s, std::int64_t keep, Step after);  // after 0: at once
    void release_all(Sequence& s, Step after);

    std::int32_t group_for_copies(Sequence& s, std::int64_t entries);
    void resolve_parents(Ids ids, Ids parents);
    Move move_to(std::size_t i);
    void plan_moves(StepPlan::Counts& counts);
    void take_new_references(std::size_t i);
    void drop_old_references(const Sequence& s, const Move& move);
    void become(std::size_t i, const Reporter& report);
    void check_groups() const;
    void check_content(Row row) const;

    void check_covers(const Prompt& prompt) const;
    std::vector<std::pair<std::int32_t, std::string>> cover_keys(const Prompt& prompt) const;
    void identify(const Prompt& prompt, Content& content);
    void hold(const Content& content);
    void forget(Content& content);
    std::int64_t most_hit_blocks(const Prompt& prompt, std::optional<std::int64_t> max_hit_tokens) const;
    std::int64_t find_prefix(const Prompt& prompt, const Content& who, std::int64_t most);
    void check_fits(SeqId id, std::int64_t target) const;
    std::int64_t blocks_to_admit(std::int64_t hits, std::int64_t wanted);
    void publish(Row row);
    void cut_content(Row row, std::int64_t length);
    void make_room_for_ids(Row row, std::int64_t count);
    void add_ids(Row row, const std::int32_t*& ids, std::int64_t count);
    Content& content(Row row) { return contents_[static_cast<std::size_t>(row)]; }
    void check_sequence(Row row, std::vector<std::int32_t>& table_refs) const;

    StoreOptions options_;
    BlockMath math_;
    BlockAllocator blocks_;
    SequenceMap map_;
    RowSet rows_;
    ForkGroups groups_;
    std::vector<Sequence> sequences_;  // by row
    std::vector<Item> items_;          // the batch in work
    std::vector<BlockId> lent_;
    std::vector<SeqId> names_;
    std::vector<Move> moves_;
    std::vector<BlockId> moved_;
    std::unique_ptr<PrefixIndex> index_;  // null: no prefix caching
    CacheEvents events_;
    std::vector<Content> contents_;  // by row, where there is an index
    std::vector<Content> moved_contents_;
    std::vector<BlockId> matched_;
    std::uint32_t batch_ = 0;
    std::int64_t always_fits_;  // targets up to here pass check_target
    Step last_step_ = 0, retired_step_ = 0;
    std::int64_t logical_tokens_ = 0, logical_blocks_ = 0, cow_copies_ = 0, failed_admissions_ = 0;
    std::int64_t queried_tokens_ = 0, hit_tokens_ = 0;
};

}  // namespace pagedkv
