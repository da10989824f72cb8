// Every public operation, in forms that succeed and forms that are refused, for the allocation-fault test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "failing_new.hpp"
#include "pagedkv/sequence_store.hpp"

// Runs one call with allocations failing as told; what the test itself allocates around it is left alone.
class Injection {
public:
    explicit Injection(std::int64_t k, failing_new::Mode mode = failing_new::Mode::once) : k_(k), mode_(mode) {}

    template <class Call>
    void operator()(Call&& call) {
        failing_new::arm(k_, mode_);
        try {
            call();
        } catch (...) {
            report = failing_new::disarm();
            throw;
        }
        report = failing_new::disarm();
    }

    failing_new::Report report;
    std::string result;  // what the call gave back

private:
    std::int64_t k_;
    failing_new::Mode mode_;
};

// Ids that prepared states and operations agree on, so that one finds what the other published.
inline std::vector<std::int32_t> some_ids(std::int64_t count) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < count && i < 2000; ++i) ids.push_back(i);
    return ids;
}

struct StoreOperation {
    std::string name;
    std::function<void(pagedkv::SequenceStore&, Injection&)> run;
    bool allocates = true;  // in at least one of the prepared states
};

std::vector<StoreOperation> growth_operations();
std::vector<StoreOperation> prefix_operations();
std::vector<StoreOperation> sharing_operations();
std::vector<StoreOperation> cursor_operations();
std::vector<StoreOperation> export_operations();
std::vector<StoreOperation> allocator_operations();
