// Which errors a call may raise in the state that the model describes, and the run that holds the store to it.
#pragma once

#include <cstdint>
#include <utility>

#include "pagedkv/errors.hpp"
#include "store_model.hpp"

struct Expectation {
    bool state = false, invalid = false, never = false;
    std::int64_t needed = 0, watermark = 0, available = 0, pending = 0;  // OutOfBlocks if needed is more than available
    std::int64_t revived = 0;  // free blocks that come back with their content, so that nobody can take them

    bool refused() const { return state || invalid || never; }
    bool short_of_blocks() const { return needed + revived > 0 && needed + watermark > available - revived; }
};

// True: the call succeeded, as it had to. A refusal that the model did not expect, or another one, is a fault.
template <class Call>
bool run(const Expectation& expected, Call&& call) {
    try {
        std::forward<Call>(call)();
    } catch (const pagedkv::OutOfBlocks& error) {
        demand(!expected.refused() && expected.short_of_blocks(), "OutOfBlocks, but there were enough, or it never fits");
        demand(error.needed == expected.needed, "OutOfBlocks names another need");
        demand(error.available == expected.available - expected.revived && error.pending == expected.pending,
               "OutOfBlocks names another pool");
        return false;
    } catch (const pagedkv::NeverFits&) {
        demand(expected.never, "NeverFits, but it can");
        return false;
    } catch (const pagedkv::InvalidArgument&) {
        demand(expected.invalid, "InvalidArgument, but the arguments are valid");
        return false;
    } catch (const pagedkv::SequenceState&) {
        demand(expected.state, "SequenceState, but the state allows it");
        return false;
    }
    demand(!expected.refused(), "a call succeeded that had to be refused");
    demand(!expected.short_of_blocks(), "a call succeeded without enough blocks");
    return true;
}
