#include <algorithm>

#include "program.hpp"

using pagedkv::BlockId;
using pagedkv::BlockState;

void Program::allocate() {
    const std::int64_t count = in_.amount();
    Expectation expected = for_batch({});
    expected.invalid = count < 0;
    expected.never = count > model_.total;
    if (!expected.refused()) expected.needed = count;
    std::vector<BlockId> out;
    const auto call = [&] {
        store_.allocator().require(count);
        out.resize(static_cast<std::size_t>(count));
        store_.allocator().allocate(count, out);
    };
    if (!run(expected, call)) return;
    for (const BlockId b : out) {
        demand(b == model_.take(), "not the next free block");
        model_.pin(b);
    }
}

void Program::pin() {
    const Ids ids = in_.blocks(model_.total);
    Expectation expected;
    for (const std::int64_t b : ids) {
        if (b < 0 || b >= model_.total) expected.invalid = true;
        else if (model_.state(static_cast<BlockId>(b)) != BlockState::in_use && !model_.block(b).published)
            expected.state = true;
    }
    if (!run(expected, [&] { store_.allocator().increment_ref(ids); })) return;
    for (const std::int64_t b : ids) model_.pin(static_cast<BlockId>(b));
}

void Program::unpin() {
    Ids ids = in_.blocks(model_.total);
    if (in_.flag()) {  // mostly something that can be dropped
        ids.clear();
        for (std::int64_t b = 0; b < model_.total; ++b)
            if (model_.block(b).pins > 0 && in_.flag()) ids.push_back(b);
    }
    Expectation expected;
    for (const std::int64_t b : ids) {
        if (b < 0 || b >= model_.total) expected.invalid = true;
        else if (std::count(ids.begin(), ids.end(), b) > model_.block(b).pins) expected.state = true;
    }
    if (!run(expected, [&] { store_.allocator().free(ids); })) return;
    for (std::size_t i = ids.size(); i-- > 0;) {
        --model_.block(ids[i]).pins;
        model_.dropped(static_cast<BlockId>(ids[i]), 0);
    }
}

void Program::publish() {
    const Ids ids = in_.blocks(model_.total);
    Expectation expected;
    expected.state = options_.prefix_caching;  // that publishes by itself
    for (const std::int64_t b : ids) {
        if (b < 0 || b >= model_.total) expected.invalid = true;
        else if (model_.state(static_cast<BlockId>(b)) != BlockState::in_use) expected.state = true;
    }
    if (!run(expected, [&] { store_.allocator().publish(ids); })) return;
    for (const std::int64_t b : ids) model_.publish(static_cast<BlockId>(b));
}

void Program::unpublish() {
    const Ids ids = in_.blocks(model_.total);
    Expectation expected;
    for (const std::int64_t b : ids) {
        if (b < 0 || b >= model_.total) expected.invalid = true;
        else if (model_.state(static_cast<BlockId>(b)) == BlockState::clean) expected.state = true;
    }
    if (!run(expected, [&] { store_.allocator().unpublish(ids); })) return;
    for (const std::int64_t b : ids) model_.unpublish(static_cast<BlockId>(b));
}
