// The prefix index: how nodes go, what it tells about it, and its own check.
#include <algorithm>
#include <vector>

#include "pagedkv/cache_events.hpp"
#include "pagedkv/errors.hpp"
#include "pagedkv/prefix_index.hpp"

namespace pagedkv {

void PrefixIndex::unlink(RunId r) {
    Run& self = run(r);
    RunId* in_bucket = &bucket(self.hash);
    while (*in_bucket != r) in_bucket = &run(*in_bucket).bucket_next;
    *in_bucket = self.bucket_next;
    if (self.next >= 0) run(self.next).prev = self.prev;
    if (self.prev >= 0) run(self.prev).next = self.next;
    else (self.parent >= 0 ? run(self.parent).child : roots_) = self.next;
    if (self.parent < 0) salts_.release(self.salt);
}

void PrefixIndex::drop_run(RunId r) {
    unlink(r);
    free_runs_[at(num_free_runs_++)] = r;
}

void PrefixIndex::lost(BlockId b) {
    const Place was = place(b);
    const std::int32_t column = was.column_extra & 15;
    if (const std::int32_t with = was.column_extra >> 4; with != kNoExtra) digests_.release(with);
    --copies_;
    Run& of = run(was.run);
    if (was.next != b) {
        place(was.next).prev = was.prev;
        place(was.prev).next = was.next;
        if (of.blocks[column] == b) of.blocks[column] = was.next;
        return;
    }
    remove_below(was.run);
    remove_nodes(was.run, column + 1);
    if (events_ != nullptr) events_->removed(b, of.serial + static_cast<std::uint64_t>(column));
    --nodes_;
    of.length = of.limit = column;
    if (column == 0) drop_run(was.run);
    withdraw_gone();
}

// The lowest id is handed out first, whatever shape the tree had.
void PrefixIndex::withdraw_gone() {
    std::sort(gone_.get(), gone_.get() + num_gone_);
    while (num_gone_ > 0) blocks_.withdraw(gone_[at(--num_gone_)]);
}

// The nodes of a run from `from` on, all copies of them.
void PrefixIndex::remove_nodes(RunId r, std::int32_t from) {
    for (std::int32_t i = run(r).length; i-- > from;) {
        const BlockId first = run(r).blocks[i];
        if (events_ != nullptr) events_->removed(first, run(r).serial + static_cast<std::uint64_t>(i));
        BlockId b = first;
        do {
            if (extra(b) != kNoExtra) digests_.release(extra(b));
            gone_[at(num_gone_++)] = b;
            --copies_;
            b = place(b).next;
        } while (b != first);
        --nodes_;
    }
    run(r).length = run(r).limit = std::min(from, run(r).length);
}

void PrefixIndex::remove_below(RunId r) {
    for (RunId at_run = r;;) {
        if (run(at_run).child >= 0) {
            at_run = run(at_run).child;
        } else if (at_run == r) {
            return;
        } else {
            const RunId parent = run(at_run).parent;
            remove_nodes(at_run, 0);
            drop_run(at_run);
            at_run = parent;
        }
    }
}

void PrefixIndex::clear() {
    CacheEvents* const events = std::exchange(events_, nullptr);
    while (roots_ >= 0) {
        const RunId r = roots_;
        remove_below(r);
        remove_nodes(r, 0);
        drop_run(r);
    }
    withdraw_gone();
    events_ = events;
    if (events_ != nullptr) events_->cleared();
}

std::uint64_t PrefixIndex::parent_serial(RunId r, std::int32_t column) const {
    if (column > 0) return run(r).serial + static_cast<std::uint64_t>(column) - 1;
    const RunId parent = run(r).parent;
    return parent >= 0 ? run(parent).serial + static_cast<std::uint64_t>(run(parent).length) - 1 : 0;
}

void PrefixIndex::report_stored(Node node) const {
    if (events_ == nullptr || !events_->following()) return;
    const Run& of = run(node.run);
    const BlockId b = of.blocks[node.column];
    events_->stored(b, of.serial + static_cast<std::uint64_t>(node.column), parent_serial(node.run, node.column),
                    {tokens_of(b), size_}, salts_.bytes(of.salt));
}

void PrefixIndex::report_all() {
    for (RunId root = roots_; root >= 0; root = run(root).next) {
        for (RunId r = root;;) {
            for (std::int32_t i = 0; i < run(r).length; ++i) report_stored(Node{r, i});
            if (run(r).child >= 0) {
                r = run(r).child;
                continue;
            }
            while (r != root && run(r).next < 0) r = run(r).parent;
            if (r == root) break;
            r = run(r).next;
        }
    }
}

}  // namespace pagedkv
