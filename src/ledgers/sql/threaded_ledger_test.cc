// The port with threads: what it does with a store that is slow, or down, or away. And the
// contract once more, through its threads.

#include "ledgers/sql/threaded_ledger.h"

#include <latch>

#include "ledgers/sql/make_ledger.h"
#include "ledgers/sql/waited_test.h"
#include "platform/thread_group.h"
#include "tests/contracts/ledger_contract.h"
#include "tests/servers/await.h"
#include "tests/servers/temporary_folder.h"

namespace weir {
namespace {

using ledgers::LedgerStore;
using ledgers::RegionHold;
using ledgers::row_of;
using ledgers::ThreadedLedger;
using servers::await;
using telemetry::LedgerCall;
using telemetry::LedgerError;

// What both stores of a test do.
struct Fate {
  std::atomic<bool> down{false};
  std::atomic<LedgerError> why{LedgerError::kUnreachable};
  std::atomic<int> asked{0};
  std::latch gate{1};  // where publishes wait, if they do
  std::atomic<bool> slow{false};
};

class FatedStore final : public LedgerStore {
 public:
  explicit FatedStore(Fate& fate) : fate_(fate) {}
  Result<size_t> publish(const LedgerNews& news) override {
    if (fate_.slow) fate_.gate.wait();
    return by_fate<size_t>(news.rows.size());
  }
  Result<LedgerChanges> changes_since(LedgerCursor) override {
    return by_fate(LedgerChanges{.news = {}, .next = {1}, .invalid = 3});
  }
  Result<LedgerPage> read_page(const LedgerPosition&) override { return by_fate(LedgerPage{}); }
  Result<LedgerFleet> heartbeat(const LedgerRegion&, const SyncRules&) override {
    return by_fate(LedgerFleet{});
  }
  Result<LedgerCleaning> clean(size_t) override { return by_fate(LedgerCleaning{}); }
  Result<WallTime> rehearse() override { return by_fate(system_clock().now().wall); }
  Result<RegionHold> hold_region(const std::string&, const std::string& holder,
                                 const RegionHold&) override {
    return by_fate(RegionHold{.holder = holder});
  }
  void release_region(const std::string&, const std::string&) override {}
  Result<int64_t> migrate() override { return by_fate<int64_t>(1); }
  Result<WallTime> time() override { return by_fate(system_clock().now().wall + Millis(5000)); }
  [[nodiscard]] LedgerError why() const override { return fate_.why; }
  [[nodiscard]] uint64_t connections() const override { return 1; }
  [[nodiscard]] uint64_t retries() const override { return 0; }

 private:
  template <typename Answer>
  Result<Answer> by_fate(Answer answer) {
    ++fate_.asked;
    if (!fate_.down) return answer;
    return Error{
        .code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "down", .fix = "up"};
  }
  Fate& fate_;
};

class Fated {
 public:
  explicit Fated(Fate& fate)
      : ledger_(system_clock(),
                {.telling = std::make_unique<FatedStore>(fate),
                 .hearing = std::make_unique<FatedStore>(fate)},
                {.most_waiting = 4,
                 .breaker = {.window = std::chrono::seconds(10),
                             .least = 3,
                             .percent = 50,
                             .pause = std::chrono::milliseconds(1),
                             .longest_pause = std::chrono::milliseconds(1)}}) {
    ledger_.start();
  }
  ThreadedLedger* operator->() { return &ledger_; }
  ThreadedLedger& operator*() { return ledger_; }

 private:
  ThreadedLedger ledger_;
};

TEST(ThreadedLedger, IsReachableFromTheFirstAnswerOn) {
  Fate fate;
  fate.down = true;
  Fated ledger(fate);
  await([&] { return fate.asked > 0; });
  EXPECT_FALSE(ledger->reachable());
  await([&] { return ledger->trouble() == "down; up"; });
  fate.down = false;
  await([&] { return ledger->reachable(); });
  await([&] { return ledger->trouble().empty(); });
  EXPECT_NEAR(static_cast<double>(ledger->metrics().clock_ahead.load()), 5000, 1000);
}

TEST(ThreadedLedger, StopsAskingAStoreThatFailsAndFindsOutThatItIsBack) {
  Fate fate;
  Fated ledger(fate);
  await([&] { return ledger->reachable(); });
  fate.down = true;
  await([&] {
    EXPECT_FALSE(publish(*ledger, {}));
    return ledger->metrics().errors.total(LedgerError::kCircuitOpen) > 0;
  });
  EXPECT_FALSE(ledger->reachable());
  EXPECT_FALSE(ledger->metrics().closed.load());
  const auto refused = changes_since(*ledger, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().retry, Retry::kMayHelp);
  fate.down = false;
  await([&] { return ledger->reachable(); });
  EXPECT_TRUE(publish(*ledger, {}));
  EXPECT_GT(ledger->metrics().calls.total(LedgerCall::kProbe), 0u);
}

TEST(ThreadedLedger, GoesOnAskingAStoreThatAnswersWhatItCannotDo) {
  for (const LedgerError why :
       {LedgerError::kReadOnly, LedgerError::kFull, LedgerError::kMissingTables,
        LedgerError::kBadRows, LedgerError::kDeadlock}) {
    Fate fate;
    Fated ledger(fate);
    await([&] { return ledger->reachable(); });
    fate.why = why;
    fate.down = true;
    for (int i = 0; i < 30; ++i) EXPECT_FALSE(publish(*ledger, {}));
    EXPECT_TRUE(ledger->reachable()) << to_string(why);
    EXPECT_EQ(ledger->metrics().errors.total(why), 30u);
    EXPECT_EQ(ledger->trouble().empty(), why == LedgerError::kBadRows);
  }
}

TEST(ThreadedLedger, RefusesAtOnceWhatWouldWaitTooLongAndHearsMeanwhile) {
  Fate fate;
  fate.slow = true;
  Fated ledger(fate);
  await([&] { return ledger->reachable(); });
  std::atomic<int> answered{0};
  std::atomic<int> refused{0};
  // One is under way, four wait; the others hear at once that there is no room.
  for (int i = 0; i < 20; ++i) {
    ledger->publish({}, [&](const Result<size_t>& result) { ++(result ? answered : refused); });
    if (i == 0) await([&] { return fate.asked >= 1; });
  }
  EXPECT_GE(refused, 15);
  EXPECT_EQ(answered, 0);
  EXPECT_EQ(ledger->metrics().errors.total(LedgerError::kOverload),
            static_cast<uint64_t>(refused.load()));
  EXPECT_TRUE(changes_since(*ledger, {}));
  EXPECT_EQ(ledger->metrics().invalid.load(), 3u);
  fate.gate.count_down();
  await([&] { return answered + refused == 20; });
}

TEST(ThreadedLedger, AnswersThoseWhoWaitWhenItStops) {
  Fate fate;
  fate.slow = true;
  Fated ledger(fate);
  await([&] { return ledger->reachable(); });
  std::atomic<int> answers{0};
  for (int i = 0; i < 4; ++i) ledger->publish({}, [&](const auto&) { ++answers; });
  platform::ThreadGroup stopper;
  stopper.start([&] { ledger->stop(); });
  fate.gate.count_down();
  stopper.join();
  EXPECT_EQ(answers, 4);
  EXPECT_FALSE(publish(*ledger, {}));
}

// The contract, with a file and real time.
struct RealClock final : Clock {
  [[nodiscard]] Instant now() const override {
    Instant at = system_clock().now();
    at.wall += Millis(ahead.load());
    return at;
  }
  void advance(Millis by) { ahead += by.count(); }
  std::atomic<int64_t> ahead{0};
};

struct ThreadsOnAFile {
  using Clock = RealClock;
  static constexpr bool kTimeIsReal = true;
  explicit ThreadsOnAFile(Clock& at) : clock(at) {
    first = open(1);
    second = open(2);
  }
  ~ThreadsOnAFile() {
    first->stop();
    second->stop();
  }
  ThreadsOnAFile(const ThreadsOnAFile&) = delete;
  ThreadsOnAFile& operator=(const ThreadsOnAFile&) = delete;

  [[nodiscard]] std::shared_ptr<ThreadedLedger> open(uint64_t seed) const {
    auto ledger = ledgers::make_ledger(clock, {.path = folder.path() / "ledger.db"}, seed);
    ledger->start();
    return ledger;
  }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const { return first; }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const { return second; }
  void settle() const { platform::ThreadGroup::rest(Millis(1)); }
  void pass(Millis by) const { clock.advance(by); }

  Clock& clock;
  const servers::TemporaryFolder folder{"ledger"};
  std::shared_ptr<ThreadedLedger> first, second;
};

}  // namespace

namespace contracts {
INSTANTIATE_TYPED_TEST_SUITE_P(ThreadedSqlite, LedgerContract, ThreadsOnAFile);
}
}  // namespace weir
