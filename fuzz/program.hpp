// A program of store operations, decoded from bytes and run against the model.
#pragma once

#include <optional>

#include "byte_reader.hpp"
#include "expectation.hpp"

constexpr std::int64_t kFar = std::int64_t{1} << 40;  // beyond any pool here; keeps the model's sums from overflowing

class Program {
public:
    Program(ByteReader& bytes, const pagedkv::StoreOptions& options)
        : in_(bytes), options_(options), store_(options), model_(store_) {}

    void step();

private:
    using Ids = StoreModel::Ids;
    using Tokens = std::optional<std::int64_t>;
    using Fit = pagedkv::SequenceStore::Fit;
    using Covers = std::vector<pagedkv::Cover>;

    // program_prefix.cpp
    void admit();
    void admit(std::int64_t id, std::int64_t count, ModelSequence s, const Covers& covers, Tokens reserved, Tokens most);
    void serve();
    void lookup();
    void drain();
    void reset();
    ModelSequence prompt(std::int64_t& count, Covers& covers);
    Tokens most_hit_tokens();
    void check_covers(Expectation& expected, const Covers& covers, std::int64_t count) const;
    // program_growth.cpp
    void append();
    void append(const Ids& ids, const Ids& counts, Fit fit, bool tokens, std::int64_t too_many);
    void reserve();
    std::size_t served_prefix(const Ids& ids, const Ids& upto) const;
    std::int64_t needed_by(const Ids& ids, const Ids& upto) const;
    void carry_out(const Ids& ids, const Ids& upto, const pagedkv::StepPlan& plan);
    // program_sharing.cpp
    void fork();
    void reorder();
    Ids mostly_live(const Ids& ids);
    Expectation in_order(const Ids& ids) const;
    // program_cursors.cpp
    void commit();
    void commit(const Ids& ids, const Ids& lengths, bool tokens, std::int64_t too_many);
    std::int32_t late_id(const ModelSequence& s, std::int64_t p) const;
    void truncate();
    void free();
    void free(const Ids& ids, std::optional<pagedkv::Step> after);
    void retire();
    // program_allocator.cpp
    void allocate();
    void pin();
    void unpin();
    void publish();
    void unpublish();
    // program_exports.cpp
    void exports();
    void plan_bytes();

    Expectation for_batch(const Ids& ids) const;                      // unknown and repeated ids
    void may_hold(Expectation& expected, std::int64_t tokens) const;  // max_tokens, pool size
    std::vector<std::int64_t> sums(const Ids& ids, const Ids& counts) const;
    ModelSequence& at(std::int64_t id) { return model_.live.at(id); }
    const ModelSequence& at(std::int64_t id) const { return model_.live.at(id); }

    ByteReader& in_;
    pagedkv::StoreOptions options_;
    pagedkv::SequenceStore store_;
    StoreModel model_;
    pagedkv::StepPlan last_plan_;
};
