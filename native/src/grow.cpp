// Growth: append (reserve + length + slots) and reserve. The hot path of a decode step is here.
#include <algorithm>

#include "pagedkv/errors.hpp"
#include "pagedkv/sequence_store.hpp"

namespace pagedkv {

// While a batch is counted, each writer of a shared block hands its reference back, so that the last of r writers
// sees a block of its own: exactly min(writers, refs - 1) copies. The destructor restores every count.
class SequenceStore::Loan {
public:
    Loan(BlockAllocator& blocks, std::vector<BlockId>& lent) : blocks_(blocks), lent_(lent) { lent_.clear(); }
    ~Loan() { undo_to(0); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    std::size_t mark() const { return lent_.size(); }
    void lend(BlockId b) {
        lent_.push_back(b);  // may throw, before anything is lent
        blocks_.lend_ref(b);
    }
    void undo_to(std::size_t mark) {
        for (; lent_.size() > mark; lent_.pop_back()) blocks_.return_ref(lent_.back());
    }

private:
    BlockAllocator& blocks_;
    std::vector<BlockId>& lent_;
};

// Nearly every sequence of a decode step only fills its last block further. That block, or -1 if there is more to do:
// a block to take or to copy, content to un-publish, table entries to report.
inline BlockId SequenceStore::simple_tail(const Sequence& s, std::int64_t upto) const {
    const std::int64_t i = math_.index(s.table.tokens());
    if (i >= s.table.size() || upto > math_.start(i + 1) || upto <= s.table.tokens() || s.emitted != s.table.size()) return -1;
    const BlockId b = s.table[i];
    return blocks_.plainly_writable(b) ? b : -1;
}

// Tokens that the sequence has in block i of its table, which its next token or one behind it goes to.
std::int32_t SequenceStore::own_tokens(const Sequence& s, std::int64_t i) const {
    return static_cast<std::int32_t>(std::max<std::int64_t>(0, s.table.tokens() - math_.start(i)));
}

// What the sequence needs so that its positions from length to `upto` can be written.
SequenceStore::Need SequenceStore::count(const Sequence& s, std::int64_t upto, Loan& loan) const {
    Need need;
    const std::int64_t have = s.table.size();
    const std::int64_t wanted = std::max(have, math_.blocks(upto));
    need.blocks = wanted - have;
    if (upto > s.table.tokens()) {
        const std::int64_t end = std::min(have, math_.blocks(upto));
        for (std::int64_t i = math_.index(s.table.tokens()); i < end; ++i) {
            if (blocks_.writable_in_place(s.table[i], own_tokens(s, i))) continue;
            loan.lend(s.table[i]);
            ++need.copies;
            if (i < s.emitted) ++need.changed_entries;
        }
    }
    need.changed_entries += wanted - s.emitted;
    return need;
}

// Counts the batch (item.count = target), makes room in the tables, returns how many leading sequences fit.
std::size_t SequenceStore::count_batch(Fit fit, StepPlan::Counts& counts) {
    Loan loan(blocks_, lent_);
    std::int64_t needed = 0;
    std::size_t served = 0;
    for (; served < items_.size(); ++served) {
        Sequence& s = at(items_[served].row);
        items_[served].tail = simple_tail(s, items_[served].count);
        if (items_[served].tail >= 0) continue;
        const std::size_t mark = loan.mark();
        const Need need = count(s, items_[served].count, loan);
        needed += need.blocks + need.copies;
        if (fit == Fit::partial && needed > blocks_.available()) {
            loan.undo_to(mark);
            break;
        }
        if (need.blocks > 0 && needed <= blocks_.available()) s.table.make_room(s.table.size() + need.blocks);
        counts.copies += need.copies;
        counts.updates += need.changed_entries;
    }
    if (fit == Fit::whole && needed > blocks_.available()) out_of_blocks(needed, blocks_.available(), "this batch");
    counts.served = static_cast<std::int64_t>(served);
    return served;
}

// Pass 2 for one sequence: private blocks under every position from length to `upto`, and the changed table entries.
void SequenceStore::grow(Item& item, std::int64_t upto, StepPlan& plan, std::size_t& copies, std::size_t& updates) {
    Sequence& s = at(item.row);
    const std::span<std::int32_t> copy = plan.copies();
    const Reporter report{plan.updates(), updates};
    const std::int64_t length = s.table.tokens();
    if (upto > length) {
        const std::int64_t end = std::min(s.table.size(), math_.blocks(upto));
        for (std::int64_t i = math_.index(length); i < end; ++i) {
            const BlockId b = s.table[i];
            const std::int32_t own = own_tokens(s, i);
            if (blocks_.writable_in_place(b, own)) {
                blocks_.unpublish_for_write(b, own);
                continue;
            }
            s.table[i] = blocks_.take();
            blocks_.raise_fill(s.table[i], own);
            blocks_.release(b, 0);
            groups_.shrink(s.group, i);
            copy[copies++] = b;
            copy[copies++] = s.table[i];
            ++cow_copies_;
            if (i < s.emitted) report(item.row, i, s.table[i]);
        }
    }
    for (const std::int64_t wanted = math_.blocks(upto); s.table.size() < wanted; ++logical_blocks_)
        s.table.push(blocks_.take());
    report_rest(item.row, report);
}

// A plan that names a sequence brings its row of the device-resident tables up to date.
void SequenceStore::report_rest(Row row, const Reporter& report) {
    Sequence& s = at(row);
    for (std::int64_t i = s.emitted; i < s.table.size(); ++i) report(row, i, s.table[i]);
    s.emitted = static_cast<std::int32_t>(s.table.size());
}

void SequenceStore::write_slots(const Sequence& s, std::int64_t from, std::int64_t to, std::int64_t*& out) const {
    for (std::int64_t i = math_.index(from); from < to; ++i) {
        const std::int64_t end = std::min(to, math_.start(i + 1));
        const std::int64_t base = math_.start(s.table[i]) - math_.start(i);
        for (; from < end; ++from) *out++ = base + from;
    }
}

void SequenceStore::fill_range(Sequence& s, std::int64_t from, std::int64_t to) {
    if (to <= from) return;
    for (std::int64_t i = math_.index(from); i < math_.blocks(to); ++i)
        blocks_.raise_fill(s.table[i], static_cast<std::int32_t>(std::min<std::int64_t>(math_.size(), to - math_.start(i))));
}

void SequenceStore::set_length(Sequence& s, std::int64_t length) {
    logical_tokens_ += length - s.table.tokens();
    s.table.set_tokens(length);
}

void SequenceStore::finish_plan(StepPlan& plan) {
    plan.step = ++last_step_;
    blocks_.note_peak();
}

// Ids given with append must continue the ids known so far; otherwise they could not be placed.
void SequenceStore::check_known(const std::optional<TokenIds>& tokens) const {
    if (!tokens) return;
    std::int64_t sum = 0;
    for (const Item& item : items_) {
        const Sequence& s = at(item.row);
        // More than any array holds; capped so that the sum cannot overflow.
        sum = std::min(sum + std::min(item.count, std::int64_t{1} << 61), std::int64_t{1} << 61);
        if (item.count == 0 || s.known == s.table.tokens()) continue;
        throw InvalidArgument(join("token ids given for sequence ", s.id, " from position ", s.table.tokens(),
                                   ", but the ids of ", s.known,
                                   " tokens are known; append a prompt by count, give late ids with commit"));
    }
    if (sum != tokens->count)
        throw InvalidArgument(join(tokens->count, " token ids given for ", sum, " appended tokens; give one id a token"));
}

inline void SequenceStore::append_simple(const Item& item, std::int64_t*& slot) {
    const std::int64_t offset = item.from - math_.start(math_.index(item.from));
    const std::int64_t count = item.count - item.from;
    const std::int64_t first = math_.start(item.tail) + offset;
    for (std::int64_t i = 0; i < count; ++i) *slot++ = first + i;
    blocks_.raise_fill(item.tail, static_cast<std::int32_t>(offset + count));
    set_length(at(item.row), item.count);
}

void SequenceStore::append_general(Item& item, StepPlan& plan, std::size_t& copies, std::size_t& updates, std::int64_t*& slot) {
    Sequence& s = at(item.row);
    grow(item, item.count, plan, copies, updates);
    write_slots(s, item.from, item.count, slot);
    fill_range(s, item.from, item.count);
    set_length(s, item.count);
}

// Room is there. Takes the ids from the front of those left; without an index there may be none, only their number.
void SequenceStore::add_ids(Row row, const std::int32_t*& ids, std::int64_t count) {
    if (!index_) return;
    std::vector<std::int32_t>& known = content(row).ids;
    known.insert(known.end(), ids, ids + count);
    ids += count;
}

void SequenceStore::append(Ids ids, Ids counts, const std::optional<TokenIds>& tokens, Fit fit, StepPlan& plan) {
    resolve(ids, counts, "counts");
    check_known(tokens);
    for (Item& item : items_) {
        const std::int64_t added = std::min(item.count, std::int64_t{1} << 62);  // no overflow below
        item.count = item.from + added;
        if (added > 0 && item.count > always_fits_) check_target(at(item.row), item.count);
    }
    StepPlan::Counts sizes;
    const std::size_t served = count_batch(fit, sizes);
    for (std::size_t i = 0; i < served; ++i) sizes.slots += items_[i].count - items_[i].from;
    if (tokens && index_)
        for (std::size_t i = 0; i < served; ++i) make_room_for_ids(items_[i].row, items_[i].count - items_[i].from);
    plan.allocate(sizes);

    std::size_t copies = 0, updates = 0;
    const std::int32_t* next_id = tokens ? tokens->ids : nullptr;
    std::int64_t* slot = plan.slots().data();
    std::int32_t* row = plan.rows().data();
    std::int32_t* length = plan.lengths().data();
    for (std::size_t i = 0; i < served; ++i) {
        Item& item = items_[i];
        if (item.tail >= 0) append_simple(item, slot);
        else append_general(item, plan, copies, updates, slot);
        if (tokens && item.count > item.from) {
            add_ids(item.row, next_id, item.count - item.from);
            at(item.row).known = static_cast<std::int32_t>(item.count);
        }
        *row++ = item.row;
        *length++ = static_cast<std::int32_t>(item.count);
    }
    finish_plan(plan);
}

void SequenceStore::reserve(Ids ids, Ids upto, StepPlan& plan) {
    resolve(ids, upto, "upto");
    for (const Item& item : items_)
        if (item.count > 0) check_target(at(item.row), item.count);
    StepPlan::Counts sizes;
    const std::size_t served = count_batch(Fit::whole, sizes);
    plan.allocate(sizes);
    std::size_t copies = 0, updates = 0;
    for (std::size_t i = 0; i < served; ++i) {
        grow(items_[i], items_[i].count, plan, copies, updates);
        plan.rows()[i] = items_[i].row;
        plan.lengths()[i] = items_[i].from;
    }
    finish_plan(plan);
}

}  // namespace pagedkv
