// Everything that a store shows, as text: two stores with the same text cannot be told apart.
#pragma once

#include <string>

#include "pagedkv/sequence_store.hpp"

namespace observed {

// Statistics, steps, sequences with their cursors and tables, blocks. Changes nothing.
std::string state(const pagedkv::SequenceStore& store, const pagedkv::BlockAllocator& blocks);

// What shows only in what comes next: the rows that are free, the order in which blocks are handed out and evicted,
// which step each pending block waits for, what can be found and by which serial. Uses the store up.
std::string future(pagedkv::SequenceStore& store);

}  // namespace observed
