// The ledger contract in memory, with and without injected faults.

#include "ledgers/memory_ledger.h"

#include "tests/contracts/ledger_contract.h"
#include "tests/doubles/faulty_ledger.h"

namespace weir::contracts {

using doubles::FaultyLedger;
using doubles::LedgerFault;
using ledgers::MemoryLedger;

struct InMemory {
  using Clock = doubles::HandClock;
  static constexpr bool kTimeIsReal = false;
  explicit InMemory(Clock& at) : clock(at), ledger(std::make_shared<MemoryLedger>(at)) {}
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const { return ledger; }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const {
    return ledger->another_client();
  }
  void settle() const {}
  void age(Millis by) { clock.advance(by); }
  Clock& clock;
  std::shared_ptr<MemoryLedger> ledger;
};

INSTANTIATE_TYPED_TEST_SUITE_P(MemoryLedger, LedgerContract, InMemory);

// Retries each call without a reply or with an error that a retry may fix, as callers do.
class RetryingLedger final : public GlobalLedger {
 public:
  explicit RetryingLedger(std::shared_ptr<GlobalLedger> inner) : inner_(std::move(inner)) {}

  void publish(LedgerNews batch, PublishReply reply) override {
    retry<size_t>(reply, [&](PublishReply done) { inner_->publish(batch, std::move(done)); });
  }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    retry<LedgerChanges>(
        reply, [&](ChangesReply done) { inner_->changes_since(cursor, std::move(done)); });
  }
  void read_page(LedgerPosition position, PageReply reply) override {
    retry<LedgerPage>(reply, [&](PageReply done) { inner_->read_page(position, std::move(done)); });
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    retry<LedgerFleet>(reply,
                       [&](FleetReply done) { inner_->heartbeat(self, rules, std::move(done)); });
  }
  void clean(size_t most, CleaningReply reply) override { inner_->clean(most, std::move(reply)); }

 private:
  template <typename Answer, typename Call>
  static void retry(const std::function<void(Result<Answer>)>& reply, const Call& call) {
    for (;;) {
      const auto received = std::make_shared<std::optional<Result<Answer>>>();
      call([received](Result<Answer> answer) { *received = std::move(answer); });
      if (*received && (**received || (*received)->error().retry == Retry::kPointless)) {
        return reply(std::move(**received));
      }
    }
  }
  std::shared_ptr<GlobalLedger> inner_;
};

// A third of all calls fails. clean() never fails, since its result cannot be read again.
struct WithFaults : InMemory {
  explicit WithFaults(Clock& at) : InMemory(at) {}
  class Faulty final : public GlobalLedger {
   public:
    Faulty(std::shared_ptr<GlobalLedger> inner, uint64_t seed)
        : inner_(inner),
          faulty_(inner, seed,
                  {.fail = 100, .timeout = 100, .no_reply = 50, .swallow = 50, .again = 100}) {}
    void publish(LedgerNews batch, PublishReply reply) override {
      faulty_.publish(std::move(batch), std::move(reply));
    }
    void changes_since(LedgerCursor cursor, ChangesReply reply) override {
      faulty_.changes_since(cursor, std::move(reply));
    }
    void read_page(LedgerPosition position, PageReply reply) override {
      faulty_.read_page(std::move(position), std::move(reply));
    }
    void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
      faulty_.heartbeat(std::move(self), rules, std::move(reply));
    }
    void clean(size_t most, CleaningReply reply) override { inner_->clean(most, std::move(reply)); }

   private:
    std::shared_ptr<GlobalLedger> inner_;
    FaultyLedger faulty_;
  };
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const {
    return std::make_shared<RetryingLedger>(std::make_shared<Faulty>(ledger, 7));
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(FaultyLedger, LedgerContract, WithFaults);

namespace {

TEST(MemoryLedgerClock, ReturnsAnEarlierCursorAfterAStepBack) {
  doubles::HandClock clock;
  MemoryLedger ledger(clock);
  LedgerCursor cursor;
  ledger.changes_since({}, [&](const auto& changes) { cursor = changes->next; });
  clock.step_wall(Millis(-10'000));
  ledger.changes_since(
      cursor, [&](const auto& changes) { EXPECT_LT(changes->next.position, cursor.position); });
}

TEST(MemoryLedgerChanges, AreCutIfTooManyHaveOneTime) {
  doubles::HandClock clock;
  MemoryLedger ledger(clock);
  LedgerNews batch;
  for (size_t i = 0; i <= ledgers::kMaxChanges; ++i) {
    batch.rows.push_back(row_of(1, clock.now().wall));
    batch.rows.back().key.identifier = std::to_string(i);
  }
  ledger.publish(std::move(batch), [](const auto&) {});
  const LedgerCursor moment{.position = clock.now().wall.time_since_epoch().count(),
                            .look_back = LookBack::kNone};
  bool answered = false;
  ledger.changes_since(moment, [&](const auto& changes) {
    EXPECT_TRUE(changes->cut);
    EXPECT_FALSE(changes->rest);
    answered = true;
  });
  EXPECT_TRUE(answered);
}

TEST(MemoryLedgerRegions, AreDeletedAfterAMonth) {
  doubles::HandClock clock;
  MemoryLedger ledger(clock);
  const auto regions = [&] {
    size_t count = 0;
    ledger.clean(0, [](const auto&) {});
    ledger.heartbeat({.region = "east"}, {},
                     [&](const auto& fleet) { count = fleet->regions.size(); });
    return count;
  };
  ledger.heartbeat({.region = "departed"}, {}, [](const auto&) {});
  clock.advance(ledgers::kRegionRetention);
  EXPECT_EQ(regions(), 2u);
  clock.advance(Millis(1));
  EXPECT_EQ(regions(), 1u);
}

TEST(FaultyLedgerScript, InjectsTheScriptedFaultsOnly) {
  doubles::HandClock clock;
  const auto store = std::make_shared<MemoryLedger>(clock);
  FaultyLedger faulty(store, 1);
  faulty.script({LedgerFault::kFail, LedgerFault::kSwallow, LedgerFault::kNoReply,
                 LedgerFault::kTimeout, LedgerFault::kAgain});
  std::vector<std::string> received;
  const auto publish = [&](Count count) {
    received.emplace_back("none");
    faulty.publish({.rows = {row_of(count, clock.now().wall)}, .presences = {}},
                   [&](const Result<size_t>& result) {
                     received.back() = result                                       ? "ok"
                                       : result.error().code == ErrorCode::kTimeout ? "timeout"
                                                                                    : "unavailable";
                   });
    const LedgerNews all = store->contents();
    return all.rows.empty() ? 0 : all.rows[0].count;
  };
  EXPECT_EQ(publish(1), 0u);
  EXPECT_EQ(publish(2), 0u);
  EXPECT_EQ(publish(3), 3u);
  EXPECT_EQ(publish(4), 4u);
  EXPECT_EQ(publish(5), 5u);
  store->clear();
  EXPECT_EQ(publish(4), 5u);  // the repeated publish has the larger count
  EXPECT_EQ(received,
            (std::vector<std::string>{"unavailable", "none", "none", "timeout", "ok", "ok"}));
  faulty.cut();
  EXPECT_FALSE(faulty.reachable());
  EXPECT_EQ(publish(6), 5u);
  faulty.mend();
  EXPECT_EQ(publish(6), 6u);
}

TEST(FaultyLedgerScript, ReturnsAStaleAnswer) {
  doubles::HandClock clock;
  FaultyLedger faulty(std::make_shared<MemoryLedger>(clock), 1);
  const auto count = [&] {
    size_t rows = 0;
    faulty.read_page({}, [&](const auto& page) { rows = page->news.rows.size(); });
    return rows;
  };
  EXPECT_EQ(count(), 0u);
  faulty.publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}}, [](const auto&) {});
  faulty.script({LedgerFault::kOldAnswer});
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace weir::contracts
