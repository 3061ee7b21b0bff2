// A ledger that answers reads and accepts no writes, or in which another client locks a row.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ledgers/memory_ledger.h"
#include "tests/doubles/faulty_ledger.h"
#include "tests/doubles/manual_clock.h"
#include "weir/limiter.h"

namespace weir::global {
namespace {

class HalfWorkingLedger : public testing::Test {
 protected:
  HalfWorkingLedger() {
    // The other region exists and has no counts.
    store_->another_client()->heartbeat({.region = "west"}, {}, [](const auto&) {});
    pass(Millis(1000));
  }
  void pass(Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      clock_.advance(Millis(10));
      limiter_.run_sync(clock_.now());
    }
  }
  Verdict ask(std::string_view identifier, Count cost = 1) {
    return *limiter_.check(clock_.now(), {.ns = "api",
                                          .identifier = identifier,
                                          .limit = 100,
                                          .duration = Millis(3'600'000),
                                          .cost = cost});
  }
  Count row(std::string_view identifier) {
    for (const LedgerRow& row : store_->contents()) {
      if (row.key.identifier == identifier) return row.count;
    }
    return 0;
  }

  doubles::ManualClock clock_;
  std::shared_ptr<ledgers::MemoryLedger> store_ = std::make_shared<ledgers::MemoryLedger>(clock_);
  std::shared_ptr<doubles::FaultyLedger> ledger_ =
      std::make_shared<doubles::FaultyLedger>(store_->another_client(), 1);
  Limiter limiter_ =
      Limiter::create(clock_, {.ledger = ledger_, .region = "east", .capacity = 1024, .seed = 7})
          .value();
};

TEST_F(HalfWorkingLedger, DegradesVerdictsWhenItAcceptsNoWrites) {
  ASSERT_EQ(ask("alice").basis, Basis::kLocal);
  ledger_->refuse_writes();
  pass(Millis(5000));
  EXPECT_EQ(ask("alice").basis, Basis::kDegraded);
  const SyncStats stats = limiter_.sync_stats();
  EXPECT_GT(stats.write_lag, Millis(4000));
  EXPECT_LT(stats.import_lag, Millis(1000));  // imports succeed all the time
  ledger_->accept_writes();
  pass(Millis(1000));
  EXPECT_EQ(ask("alice").basis, Basis::kLocal);
  EXPECT_EQ(limiter_.sync_stats().write_lag, Nanos(0));
}

TEST_F(HalfWorkingLedger, DoesNotDegradeVerdictsWhileItAcceptsWrites) {
  for (int i = 0; i < 60; ++i) {
    pass(Millis(500));
    ASSERT_EQ(ask("alice").basis, Basis::kLocal) << i;
  }
}

TEST_F(HalfWorkingLedger, HasAllRowsButTheLockedOne) {
  ledger_->lock_rows_of("user-7");
  for (int i = 0; i < 100; ++i) (void)ask("user-" + std::to_string(i), 60);
  pass(Millis(500));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(row("user-" + std::to_string(i)), i == 7 ? 0u : 60u) << i;
  }
  // It is retried in a chunk of its own, so that it does not block the others.
  const uint64_t faults = ledger_->faults();
  pass(Millis(3000));
  EXPECT_GT(ledger_->faults(), faults);
  EXPECT_LE(ledger_->faults(), faults + 4);
  (void)ask("later", 60);
  pass(Millis(500));
  EXPECT_EQ(row("later"), 60u);
  ledger_->unlock_rows();
  pass(Millis(1500));
  EXPECT_EQ(row("user-7"), 60u);
  EXPECT_EQ(limiter_.sync_stats().waiting, 0u);
}

}  // namespace
}  // namespace weir::global
