// Regions of one limiter each, on a ledger in memory, with time moved by hand.

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ledgers/memory_ledger.h"
#include "tests/doubles/faulty_ledger.h"
#include "tests/doubles/manual_clock.h"
#include "weir/limiter.h"

namespace weir::global {

using doubles::FaultyLedger;
using doubles::ManualClock;
using doubles::ManualExecutor;
using ledgers::MemoryLedger;

struct TestRegion {
  std::string region;
  std::shared_ptr<RegionalOrigin> origin;
  std::shared_ptr<FaultyLedger> ledger;
  std::unique_ptr<Limiter> limiter;
};

class RegionSyncTest : public testing::Test {
 protected:
  TestRegion& add(const std::string& name, std::shared_ptr<RegionalOrigin> origin = nullptr,
                  SyncRules rules = {}) {
    auto region = std::make_unique<TestRegion>();
    region->region = name;
    region->origin = std::move(origin);
    region->ledger = std::make_shared<FaultyLedger>(store_->another_client(), 1);
    region->limiter =
        std::make_unique<Limiter>(Limiter::create(clock_, {.origin = region->origin,
                                                           .ledger = region->ledger,
                                                           .region = name,
                                                           .sync = rules,
                                                           .capacity = 1024,
                                                           .seed = 7 + regions_.size()})
                                      .value());
    regions_.push_back(std::move(region));
    return *regions_.back();
  }

  // A long time passes in longer steps, for tests that only wait.
  void pass(Millis time) {
    const Millis step{time >= Millis(10'000) ? 50 : 10};
    for (Millis passed{0}; passed < time; passed += step) {
      clock_.advance(step);
      for (const auto& region : regions_) {
        if (region->limiter == nullptr) continue;
        region->limiter->run_replay(clock_.now(), executor_);
        region->limiter->run_sync(clock_.now());
      }
      executor_.run();
    }
  }

  Request request(Count cost = 1) const {
    return {.ns = "api",
            .identifier = identifier_,
            .limit = limit_,
            .duration = duration_,
            .cost = cost,
            .algorithm = algorithm_};
  }

  Verdict ask(TestRegion& region, Count cost = 1) {
    Result<Verdict> verdict;
    bool done = false;
    region.limiter->check_async(clock_.now(), request(cost), executor_,
                                [&](Result<Verdict> answer) {
                                  verdict = std::move(answer);
                                  done = true;
                                });
    executor_.run();
    EXPECT_TRUE(done);
    return *verdict;
  }
  int64_t ask_times(TestRegion& region, int times) {
    int64_t admitted = 0;
    for (int i = 0; i < times; ++i) admitted += ask(region).admitted() ? 1 : 0;
    return admitted;
  }
  Count foreign(TestRegion& region) { return ask(region, 0).evidence.foreign; }

  // The ledger's count of a region in this window, or a window before.
  Count row(const std::string& region, int64_t back = 0) {
    const int64_t sequence = clock_.now().wall.time_since_epoch() / Millis(60'000) - back;
    for (const LedgerRow& row : store_->contents()) {
      if (row.region == region && row.sequence == sequence && row.key.identifier == identifier_) {
        return row.count;
      }
    }
    return 0;
  }
  static uint64_t rows(const TestRegion& region) {
    const SyncStats stats = region.limiter->sync_stats();
    return stats.presence + stats.contended + stats.exhaustion + stats.roll_over;
  }

  static std::vector<std::string> numbered(const std::string& name, size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(name + "-" + std::to_string(i));
    return names;
  }
  // Writes rows of a region that has no limiter here.
  void write_for_north(Count count, const std::vector<std::string>& identifiers) {
    std::vector<LedgerRow> rows;
    for (const std::string& identifier : identifiers) {
      rows.push_back(
          {.key = {.workspace = {}, .ns = "api", .identifier = identifier, .duration = duration_},
           .sequence = clock_.now().wall.time_since_epoch() / duration_,
           .region = "north",
           .count = count,
           .limit_seen = limit_});
    }
    store_->publish("north", north_, std::move(rows), [this](const Result<FeedPosition>& at) {
      if (at) north_ = *at;
    });
  }

  ManualClock clock_;
  ManualExecutor executor_{clock_};
  std::shared_ptr<MemoryLedger> store_ = std::make_shared<MemoryLedger>(clock_);
  std::vector<std::unique_ptr<TestRegion>> regions_;
  FeedPosition north_{};  // the feed of that region
  std::string identifier_ = "alice";
  Count limit_ = 100;
  Millis duration_{60'000};
  Algorithm algorithm_ = Algorithm::kFixedWindow;
};

}  // namespace weir::global
