// Members of a group that end in one batch drop what they have in common once. Nobody may see that: the batch must end
// as one free a sequence does, whatever was pinned, findable, or still in flight.
#include <algorithm>

#include "harness.hpp"
#include "observed.hpp"
#include "store_calls.hpp"

using namespace calls;
using harness::below;

namespace {

constexpr std::int64_t kBlocks = 40, kSequences = 8;

Ids some(const Ids& all, harness::Random& random) {
    Ids chosen;
    for (const SeqId id : all)
        if (below(random, 3) > 0) chosen.push_back(id);
    for (std::size_t i = chosen.size(); i > 1; --i)
        std::swap(chosen[i - 1], chosen[static_cast<std::size_t>(below(random, static_cast<std::int64_t>(i)))]);
    return chosen;
}

void fork_one(SequenceStore& store, harness::Random& random) {
    const Ids live = store.seq_ids();
    const SeqId id = below(random, kSequences);
    if (store.row_of(id) >= 0) return;
    if (live.empty() || below(random, 4) == 0) admit(store, id, 4);
    else fork(store, live[static_cast<std::size_t>(below(random, static_cast<std::int64_t>(live.size())))], {id});
}

void pin_or_publish(SequenceStore& store, harness::Random& random) {
    const BlockId b = static_cast<BlockId>(below(random, kBlocks));
    if (store.allocator().refs(b) == 0) return;
    if (below(random, 2) == 0) store.allocator().increment_ref(Ids{b});
    else store.allocator().publish(Ids{b});
}

void shuffle_beams(SequenceStore& store, harness::Random& random) {
    const Ids ids = some(store.seq_ids(), random);
    Ids parents;
    for (std::size_t i = 0; i < ids.size(); ++i) parents.push_back(below(random, static_cast<std::int64_t>(ids.size())));
    reorder(store, ids, parents);
}

// The same store for the same seed: groups at every stage of growing apart.
void grow_apart(SequenceStore& store, harness::Random& random) {
    for (int step = 0; step < 30; ++step) try {
            switch (below(random, 8)) {
                case 0: pin_or_publish(store, random); break;
                case 1: shuffle_beams(store, random); break;
                case 2: {
                    const Ids ids = some(store.seq_ids(), random);
                    Ids lengths;
                    for (const SeqId id : ids) lengths.push_back(store.sequence(id).table.tokens() * 2 / 3);
                    store.truncate(ids, lengths, below(random, 2) == 0);
                    break;
                }
                case 3:
                case 4: {
                    const Ids ids = some(store.seq_ids(), random);
                    append(store, ids, Ids(ids.size(), 1 + below(random, 2)));
                    break;
                }
                case 5:
                    if (const Ids ids = some(store.seq_ids(), random); !ids.empty()) store.free(Ids{ids[0]}, store.last_step());
                    break;
                default: fork_one(store, random);
            }
        } catch (const pagedkv::OutOfBlocks&) {
            continue;  // nothing changed
        }
}

struct Grown {
    explicit Grown(std::uint64_t seed) : random(seed), store(options(kBlocks, 2)) {
        grow_apart(store, random);
        for (int i = 0; i < 8; ++i) pin_or_publish(store, random);
    }
    harness::Random random;
    SequenceStore store;
};

}  // namespace

TEST(a_batch_ends_as_its_sequences_one_by_one) {
    std::int64_t shared = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        Grown batch(seed), singles(seed);
        const Ids ids = some(batch.store.seq_ids(), batch.random);
        const auto after = seed % 2 == 0 ? std::optional(batch.store.last_step()) : std::nullopt;
        shared += batch.store.stats().saved_blocks();
        batch.store.free(ids, after);
        batch.store.check();
        for (const SeqId id : ids) singles.store.free(Ids{id}, after);
        CHECK_EQ(observed::state(batch.store, batch.store.allocator()),
                 observed::state(singles.store, singles.store.allocator()));
        for (Grown* grown : {&batch, &singles})  // who stayed gives up blocks that wait for the batch's step
            if (seed % 3 == 0) grown->store.free(grown->store.seq_ids(), std::nullopt);
        CHECK_EQ(observed::future(batch.store), observed::future(singles.store));
    }
    CHECK(shared > 400);  // otherwise nothing was tried
}
