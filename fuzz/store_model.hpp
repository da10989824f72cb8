// What a store must show after each operation, kept as plainly as possible, together with the memory that plans are
// about: every token written is a new number, so a wrong slot, a missing copy or a block handed out too early is seen as a
// wrong number in somebody's sequence, pin or findable block.
//
// The model predicts whether a call succeeds and which errors it may raise, which blocks are taken, shared, copied and
// reported, the state and fill of each block, and what can be found by which content.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "content_model.hpp"
#include "event_picture.hpp"
#include "free_lists.hpp"
#include "pagedkv/sequence_store.hpp"

struct ModelSequence {
    pagedkv::Row row = 0;
    std::int64_t length = 0, committed = 0;
    std::int64_t emitted = 0;  // leading table entries that plans have reported
    std::vector<pagedkv::BlockId> table;
    std::vector<std::int64_t> tokens;  // what was written at each position
    std::vector<std::int32_t> ids;     // of the leading tokens whose ids were given
    std::string salt;
    std::map<std::int64_t, std::string> covers;  // by column
    std::int64_t published = 0;                  // leading columns that are done
    std::int64_t stop = std::int64_t{1} << 40;   // no column from here on is published

    std::int64_t known() const { return static_cast<std::int64_t>(ids.size()); }
};

// A sequence that was freed after a step: until that retires, work in flight may read its tokens.
struct EndedSequence {
    ModelSequence last;
    pagedkv::Step after = 0;
};

struct ModelBlock {
    std::int64_t pins = 0;
    pagedkv::Step busy_until = 0;  // the last step that may still touch it
    bool published = false;
    std::int64_t fill = 0;
    std::vector<std::int64_t> kept;  // its content when it was pinned or published
};

// What a plan must hold, in the plan's own order.
struct ExpectedPlan {
    std::vector<std::int32_t> copies, updates;
};

// What the leading sequences of a batch need; a writer that copies a shared block leaves it to the others.
struct BatchNeed {
    std::map<pagedkv::BlockId, std::int64_t> left;
    std::int64_t blocks = 0;
};

class StoreModel {
public:
    using Ids = std::vector<std::int64_t>;

    explicit StoreModel(pagedkv::SequenceStore& store);

    // The store changed nothing (a refusal, an export), or changed what the model was told.
    void check_all();
    void end(pagedkv::SeqId id, pagedkv::Step after);
    pagedkv::Row lowest_free_row() const;

    std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + size - 1) / size; }
    std::int64_t capacity(const ModelSequence& s) const { return static_cast<std::int64_t>(s.table.size()) * size; }
    ModelBlock& block(std::int64_t b) { return blocks[static_cast<std::size_t>(b)]; }
    const ModelBlock& block(std::int64_t b) const { return blocks[static_cast<std::size_t>(b)]; }

    // store_model_blocks.cpp: who holds a block, and where it goes when nobody does.
    std::int64_t refs(pagedkv::BlockId b) const;
    pagedkv::BlockState state(pagedkv::BlockId b) const;
    std::int64_t available() const { return static_cast<std::int64_t>(lists.clean.size() + lists.cached.size()); }
    bool shared_between(const ModelSequence& s, std::int64_t from, std::int64_t to) const;
    bool writable_in_place(const ModelSequence& s, std::int64_t i, std::int64_t left) const;
    pagedkv::BlockId take();
    void dropped(pagedkv::BlockId b, pagedkv::Step after);  // somebody's reference is gone
    void drop_blocks(ModelSequence& s, std::int64_t keep, pagedkv::Step after);
    void cut_fill(const ModelSequence& s, std::int64_t length);
    void retire(pagedkv::Step step);
    void pin(pagedkv::BlockId b);
    void publish(pagedkv::BlockId b);
    void unpublish(pagedkv::BlockId b);
    void write_over(ModelSequence& s, std::int64_t i);  // the sole holder is about to, behind its own tokens

    // store_model_contents.cpp: prefix reuse.
    ModelContent content_of(const ModelSequence& s, std::int64_t columns) const;
    std::map<std::int64_t, std::string> cover_columns(const std::vector<pagedkv::Cover>& covers) const;
    std::vector<pagedkv::BlockId> find_prefix(const ModelSequence& prompt, std::optional<std::int64_t> most) const;
    void take_hits(ModelSequence& s, const std::vector<pagedkv::BlockId>& hits);
    void publish_columns(ModelSequence& s);
    void cut_content(ModelSequence& s, std::int64_t length) const;
    bool forget_contents();
    std::int32_t new_id(std::int64_t position) const;

    // store_model_plans.cpp: what a batch needs, what it does to the tables, and the engine's part of it.
    void need(BatchNeed& batch, const ModelSequence& s, std::int64_t upto) const;
    void grow(ModelSequence& s, std::span<const pagedkv::BlockId> now, std::int64_t upto, ExpectedPlan& plan);
    void fork(pagedkv::SeqId parent, const Ids& children);
    void reorder(const Ids& ids, const Ids& parents, ExpectedPlan& plan);
    void apply(const pagedkv::StepPlan& plan, const ExpectedPlan& expected);
    void write(ModelSequence& s, std::int64_t from, std::int64_t to);

    pagedkv::SequenceStore& store;
    std::int64_t size, total;
    bool caching;
    std::map<pagedkv::SeqId, ModelSequence> live;
    std::vector<ModelBlock> blocks;
    FreeLists lists;
    ContentModel contents;
    EventPicture picture;
    std::vector<std::int32_t> token_ids = {0};  // by token number
    std::uint8_t pattern = 0;                   // of the ids that come next
    std::int64_t failed_admissions = 0, copies = 0, evictions = 0, queried = 0, hit = 0;
    pagedkv::Step last_step = 0, retired = 0;

private:
    void check_sequences();
    void check_tokens(const ModelSequence& s, const char* fault) const;
    void check_blocks();
    void check_stats();
    void check_device_tables(const pagedkv::StepPlan& plan);
    void lose(pagedkv::BlockId b);
    void withdraw(pagedkv::BlockId b);
    void to_free_list(pagedkv::BlockId b);
    void release_moved(const std::vector<ModelSequence>& old, const std::vector<ModelSequence>& now);
    ModelSequence copy_of(const ModelSequence& parent) const;
    std::vector<std::int64_t> content(pagedkv::BlockId b) const;

    std::vector<std::int64_t> memory_;
    std::vector<EndedSequence> ended_;
    std::map<pagedkv::Row, std::map<std::int32_t, pagedkv::BlockId>> device_tables_;
    std::int64_t peak_ = 0;
};

// Stops the program with the reason: that is how a fuzzer learns of a fault.
[[noreturn]] void fault(const std::string& what);
inline void demand(bool holds, const char* what) {
    if (!holds) fault(what);
}
