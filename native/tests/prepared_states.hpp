// Stores in the states that the allocation-fault test starts from. Each call builds the same store again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pagedkv/sequence_store.hpp"

struct PreparedState {
    std::string name;
    std::function<std::unique_ptr<pagedkv::SequenceStore>()> make;
};

const std::vector<PreparedState>& prepared_states();  // all of them
std::vector<PreparedState> reuse_states();
