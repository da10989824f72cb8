// The prefix index counted again from scratch.
#include "pagedkv/errors.hpp"
#include "pagedkv/prefix_index.hpp"

namespace pagedkv {

namespace {
[[noreturn]] void broken(const std::string& what) { throw Error("invariant broken: the prefix index: " + what); }

void compare(const Interner& interned, const std::vector<std::int64_t>& holders, const char* what) {
    for (std::size_t i = 0; i < interned.slots(); ++i)
        if (interned.holders(i) != holders[i])
            broken(join(what, " ", static_cast<std::int64_t>(i), " has ", interned.holders(i), " holders, recounted ",
                        holders[i]));
}
}  // namespace

void PrefixIndex::check_run(RunId r, std::int64_t& nodes, std::int64_t& copies,
                            std::vector<std::int64_t>& digest_holders) const {
    const Run& of = run(r);
    if (of.length < 1 || of.length > of.limit || of.limit > kRun) broken(join("run ", r, " has ", of.length, " nodes"));
    const BlockId head = of.blocks[0];
    if (find_child(of.parent, tokens_of(head), extra(head)) != r) broken(join("run ", r, " is not found by its content"));
    for (std::int32_t i = 0; i < of.length; ++i) {
        ++nodes;
        BlockId b = of.blocks[i];
        do {
            ++copies;
            if (place(b).run != r || column(b) != i) broken(join("block ", b, " is not where it says"));
            if (!blocks_.published(b) || blocks_.fill(b) != static_cast<std::int32_t>(size_))
                broken(join("block ", b, " is named, but is not full and published"));
            if (!holds(b, tokens_of(of.blocks[i]), extra(of.blocks[i]))) broken(join("block ", b, " holds another content"));
            if (blocks_.special(b) && of.special == 0) broken(join("run ", r, " does not know that digests cover it"));
            if (place(place(b).next).prev != b) broken(join("the ring of block ", b));
            if (extra(b) != kNoExtra) ++digest_holders[at(extra(b))];
            b = place(b).next;
        } while (b != of.blocks[i] && copies <= blocks_.total());
    }
}

void PrefixIndex::check(std::vector<std::int64_t> salt_holders, std::vector<std::int64_t> digest_holders) const {
    std::int64_t nodes = 0, copies = 0, runs = 0, published = 0;
    ++salt_holders[0];  // "no salt" and "no digest" are held by the index itself
    ++digest_holders[0];
    std::vector<RunId> open;
    for (RunId r = roots_; r >= 0; r = run(r).next) {
        open.push_back(r);
        ++salt_holders[at(run(r).salt)];
    }
    while (!open.empty()) {
        const RunId r = open.back();
        open.pop_back();
        ++runs;
        check_run(r, nodes, copies, digest_holders);
        for (RunId c = run(r).child; c >= 0; c = run(c).next) {
            if (run(c).parent != r || run(c).salt != run(r).salt) broken(join("run ", c, " does not know its parent"));
            open.push_back(c);
        }
    }
    for (BlockId b = 0; b < blocks_.total(); ++b) published += blocks_.published(b) ? 1 : 0;
    if (nodes != nodes_ || copies != copies_ || copies != published)
        broken(join(copies, " copies of ", nodes, " contents, counted ", copies_, " of ", nodes_, ", published ", published));
    if (runs != fresh_runs_ - num_free_runs_) broken(join(runs, " runs are reachable of ", fresh_runs_ - num_free_runs_));
    compare(salts_, salt_holders, "salt");
    compare(digests_, digest_holders, "digest");
}

}  // namespace pagedkv
