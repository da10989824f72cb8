// Several threads at one manager, every operation, little room. Built with PAGEDKV_PLANT_RACE under ThreadSanitizer it
// must be reported as a race: run_sanitizers.sh proves that the sanitizer would see a missing lock.
#include <exception>
#include <thread>

#include "stress_prefix.hpp"
#include "stress_worker.hpp"

namespace {

constexpr int kThreads = 4;
constexpr std::int64_t kBlocks = 64, kBlockSize = 4;

template <class Worker>
void run_threads(std::vector<Worker>& workers, std::int64_t operations) {
    std::vector<std::exception_ptr> errors(workers.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < workers.size(); ++i)
        threads.emplace_back([&, i] {
            try {
                workers[i].run(operations);
            } catch (...) {
                errors[i] = std::current_exception();
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);
}

std::int64_t operations_asked() {
    const char* asked = std::getenv("PAGEDKV_STRESS_OPERATIONS");
    return asked ? std::atoll(asked) : 50'000;
}

}  // namespace

TEST(threads_share_one_manager) {
    const std::int64_t operations = operations_asked();
    pagedkv::KVCacheManager manager(calls::options(kBlocks, kBlockSize));
    std::vector<std::int64_t> memory(static_cast<std::size_t>(kBlocks * kBlockSize));
    std::vector<StressWorker> workers;
    for (int i = 0; i < kThreads; ++i) workers.emplace_back(manager, memory, i);
    run_threads(workers, operations);

    std::int64_t plans = 0, refusals = 0, copies = 0;
    for (StressWorker& worker : workers) {
        worker.give_everything_back();
        plans += worker.plans();
        refusals += worker.refusals();
    }
    manager.locked([&](pagedkv::SequenceStore& store) {
        store.free(store.seq_ids(), std::nullopt);
        store.retire(store.last_step());
        store.check();
        CHECK_EQ(store.stats().free_blocks(), kBlocks);
        CHECK_EQ(store.last_step(), plans);
        copies = store.stats().cow_copies;
    });
    // A pool that never runs short, or is always short, or sequences that share nothing would exercise half of the code.
    CHECK(refusals > operations / 100);
    CHECK(copies > operations / 100);
    CHECK(plans > operations);
    std::cout << kThreads << " threads, " << operations << " operations each, " << plans << " plans, " << copies << " copies, "
              << refusals << " refusals\n";
}

TEST(threads_share_one_prefix_cache) {
    const std::int64_t operations = operations_asked();
    pagedkv::KVCacheManager manager(calls::caching(kBlocks, kBlockSize));
    std::vector<std::int64_t> memory(static_cast<std::size_t>(kBlocks * kBlockSize));
    std::vector<PrefixWorker> workers;
    for (int i = 0; i < kThreads; ++i) workers.emplace_back(manager, memory, i);
    run_threads(workers, operations);

    std::int64_t refusals = 0, cut_short = 0;
    for (PrefixWorker& worker : workers) {
        worker.give_everything_back();
        refusals += worker.refusals();
        cut_short += worker.cut_short();
    }
    manager.locked([&](pagedkv::SequenceStore& store) {
        store.retire(store.last_step());
        CHECK(store.reset_prefix_cache());
        store.check();
        const pagedkv::CacheStats s = store.stats();
        CHECK_EQ(s.clean_blocks, kBlocks);
        CHECK(s.hit_tokens > operations / 4);
        CHECK(s.evictions > operations / 20);
        std::cout << kThreads << " threads, " << s.queried_tokens << " tokens asked, " << s.hit_tokens << " found, "
                  << s.evictions << " evictions, " << cut_short << " cuts, " << refusals << " refusals\n";
    });
    CHECK(refusals > operations / 100);
    CHECK(cut_short > operations / 100);
}
