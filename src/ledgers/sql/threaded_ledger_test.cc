// The threaded ledger on a store that is slow or down, and the contract through its threads.

#include "ledgers/sql/threaded_ledger.h"

#include <latch>

#include "ledgers/sql/blocking_calls_test.h"
#include "ledgers/sql/sqlite_ledger.h"
#include "platform/thread_group.h"
#include "tests/contracts/feed_contract.h"
#include "tests/contracts/ledger_contract.h"
#include "tests/servers/await.h"
#include "tests/servers/temporary_folder.h"

namespace weir {
namespace {

using ledgers::LedgerStore;
using ledgers::RegionLease;
using ledgers::row_of;
using ledgers::ThreadedLedger;
using servers::await;
using telemetry::LedgerCall;
using telemetry::LedgerError;

// Controls the stores of a test.
struct Script {
  std::atomic<bool> down{false};
  std::atomic<LedgerError> error_kind{LedgerError::kUnreachable};
  std::atomic<int> calls{0};
  std::latch gate{1};  // publishes wait here if `slow`
  std::atomic<bool> slow{false};
};

class ScriptedStore final : public LedgerStore {
 public:
  explicit ScriptedStore(Script& script) : script_(script) {}
  Result<FeedPosition> publish(const std::string&, FeedPosition known,
                               const std::vector<LedgerRow>&) override {
    if (script_.slow) script_.gate.wait();
    return respond(FeedPosition{.epoch = known.epoch, .number = known.number + 1});
  }
  Result<FeedChanges> read_feeds(const std::vector<RegionFeed>&) override {
    return respond(FeedChanges{.heads = {},
                               .batches = {{.region = "east", .at = {1, 1}, .rows = {{}, {}}},
                                           {.region = "east", .at = {1, 2}, .rows = {{}}}},
                               .invalid = 3});
  }
  Result<LedgerPage> read_page(const std::string&, const LedgerPosition&) override {
    return respond(LedgerPage{});
  }
  Result<LedgerFleet> heartbeat(const LedgerRegion&, const SyncRules&) override {
    return respond(LedgerFleet{});
  }
  Result<LedgerCleaning> clean(size_t) override { return respond(LedgerCleaning{}); }
  Result<WallTime> dry_run() override { return respond(system_clock().now().wall); }
  Result<RegionLease> acquire_region(const std::string&, const std::string& holder,
                                     const RegionLease&) override {
    return respond(RegionLease{.holder = holder});
  }
  void release_region(const std::string&, const std::string&) override {}
  Result<int64_t> migrate() override { return respond<int64_t>(1); }
  Result<WallTime> time() override { return respond(system_clock().now().wall + Millis(5000)); }
  [[nodiscard]] LedgerError last_error_kind() const override { return script_.error_kind; }
  [[nodiscard]] uint64_t connections() const override { return 1; }
  [[nodiscard]] uint64_t retries() const override { return 0; }

 private:
  template <typename Answer>
  Result<Answer> respond(Answer answer) {
    ++script_.calls;
    if (!script_.down) return answer;
    return Error{
        .code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "down", .fix = "up"};
  }
  Script& script_;
};

class ScriptedLedger {
 public:
  explicit ScriptedLedger(Script& script)
      : ledger_(system_clock(),
                {.publishing = std::make_unique<ScriptedStore>(script),
                 .importing = std::make_unique<ScriptedStore>(script)},
                {.max_queued = 4,
                 .breaker = {.window = std::chrono::seconds(10),
                             .least = 3,
                             .percent = 50,
                             .pause = std::chrono::milliseconds(1),
                             .longest_pause = std::chrono::milliseconds(1)},
                 .clock_pause = std::chrono::hours(1)}) {
    ledger_.start();
  }
  ThreadedLedger* operator->() { return &ledger_; }
  ThreadedLedger& operator*() { return ledger_; }

 private:
  ThreadedLedger ledger_;
};

TEST(ThreadedLedger, IsReachableAfterTheFirstAnswer) {
  Script script;
  script.down = true;
  ScriptedLedger ledger(script);
  await([&] { return script.calls > 0; });
  EXPECT_FALSE(ledger->reachable());
  await([&] { return ledger->last_error() == "down; up"; });
  script.down = false;
  await([&] { return ledger->reachable(); });
  await([&] { return ledger->last_error().empty(); });
  EXPECT_NEAR(static_cast<double>(ledger->metrics().clock_ahead.load()), 5000, 1000);
}

TEST(ThreadedLedger, OpensTheBreakerAndClosesItAfterAProbe) {
  Script script;
  ScriptedLedger ledger(script);
  await([&] { return ledger->reachable(); });
  script.down = true;
  await([&] {
    EXPECT_FALSE(publish(*ledger, {}));
    return ledger->metrics().errors.total(LedgerError::kCircuitOpen) > 0;
  });
  EXPECT_FALSE(ledger->reachable());
  EXPECT_FALSE(ledger->metrics().closed.load());
  const auto refused = read_feeds(*ledger);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().retry, Retry::kMayHelp);
  script.down = false;
  await([&] { return ledger->reachable(); });
  EXPECT_TRUE(publish(*ledger, {}));
  EXPECT_GT(ledger->metrics().calls.total(LedgerCall::kProbe), 0u);
}

// A process that is not the bridge any more makes no further call. One failure does not open the
// breaker, so that its probes do not find out either.
TEST(ThreadedLedger, FindsOutThatTheStoreIsBackAfterASingleFailedCall) {
  Script script;
  ScriptedLedger ledger(script);
  await([&] { return ledger->metrics().ready.load(); });
  script.down = true;
  EXPECT_FALSE(publish(*ledger, {}));
  script.down = false;
  await([&] { return ledger->metrics().ready.load(); });
  EXPECT_TRUE(ledger->reachable());
}

TEST(ThreadedLedger, KeepsTheBreakerClosedIfTheStoreAnswersWithAnError) {
  for (const LedgerError kind :
       {LedgerError::kReadOnly, LedgerError::kFull, LedgerError::kMissingTables,
        LedgerError::kBadRows, LedgerError::kDeadlock}) {
    Script script;
    ScriptedLedger ledger(script);
    await([&] { return ledger->reachable(); });
    script.error_kind = kind;
    script.down = true;
    for (int i = 0; i < 30; ++i) EXPECT_FALSE(publish(*ledger, {}));
    EXPECT_TRUE(ledger->reachable()) << to_string(kind);
    EXPECT_EQ(ledger->metrics().errors.total(kind), 30u);
    EXPECT_EQ(ledger->last_error().empty(), kind == LedgerError::kBadRows);
  }
}

TEST(ThreadedLedger, RejectsCallsBeyondTheQueueLimitAndStillImports) {
  Script script;
  script.slow = true;
  ScriptedLedger ledger(script);
  await([&] { return ledger->reachable(); });
  std::atomic<int> answered{0};
  std::atomic<int> refused{0};
  // One call is in flight and four are queued; the others are rejected at once.
  for (int i = 0; i < 20; ++i) {
    ledger->publish("east", {}, {},
                    [&](const Result<FeedPosition>& result) { ++(result ? answered : refused); });
    if (i == 0) await([&] { return script.calls >= 1; });
  }
  EXPECT_GE(refused, 15);
  EXPECT_EQ(answered, 0);
  EXPECT_EQ(ledger->metrics().errors.total(LedgerError::kOverload),
            static_cast<uint64_t>(refused.load()));
  EXPECT_TRUE(read_feeds(*ledger));
  EXPECT_EQ(ledger->metrics().invalid.load(), 3u);
  EXPECT_EQ(ledger->metrics().rows_read.load(), 3u);
  script.gate.count_down();
  await([&] { return answered + refused == 20; });
}

TEST(ThreadedLedger, CountsThePublishedRows) {
  Script script;
  ScriptedLedger ledger(script);
  await([&] { return ledger->reachable(); });
  const auto at = publish(*ledger, {row_of({}, 1), row_of({}, 2)}, {.epoch = 5, .number = 6});
  ASSERT_TRUE(at);
  EXPECT_EQ(*at, (FeedPosition{.epoch = 5, .number = 7}));
  EXPECT_EQ(ledger->metrics().rows_published.load(), 2u);
  script.error_kind = LedgerError::kDeadlock;
  script.down = true;
  EXPECT_FALSE(publish(*ledger, {row_of({}, 1)}));
  EXPECT_EQ(ledger->metrics().rows_published.load(), 2u);
}

TEST(ThreadedLedger, FailsQueuedCallsWhenItStops) {
  Script script;
  script.slow = true;
  ScriptedLedger ledger(script);
  await([&] { return ledger->reachable(); });
  std::atomic<int> answers{0};
  for (int i = 0; i < 4; ++i) ledger->publish("east", {}, {}, [&](const auto&) { ++answers; });
  platform::ThreadGroup stopper;
  stopper.start([&] { ledger->stop(); });
  script.gate.count_down();
  stopper.join();
  EXPECT_EQ(answers, 4);
  EXPECT_FALSE(publish(*ledger, {}));
}

// The contract with an SQLite file. Threads need a monotonic clock that runs; the clock of the
// store stands still, so that no time passes while the machine is busy.
struct HalfManualClock final : Clock {
  [[nodiscard]] Instant now() const override {
    Instant at = system_clock().now();
    at.wall = start + Millis(ahead.load());
    return at;
  }
  void advance(Millis by) { ahead += by.count(); }
  const WallTime start = system_clock().now().wall;
  std::atomic<int64_t> ahead{0};
};

struct ThreadedSqliteMaker {
  using Clock = HalfManualClock;
  static constexpr bool kTimeIsReal = false;
  explicit ThreadedSqliteMaker(Clock& at) : clock(at) {
    first = open(1);
    second = open(2);
  }
  ~ThreadedSqliteMaker() {
    first->stop();
    second->stop();
  }
  ThreadedSqliteMaker(const ThreadedSqliteMaker&) = delete;
  ThreadedSqliteMaker& operator=(const ThreadedSqliteMaker&) = delete;

  [[nodiscard]] std::shared_ptr<ThreadedLedger> open(uint64_t seed) const {
    // Six connections create the tables at once, each with a lock that it keeps while it syncs. On
    // a busy disk that takes seconds.
    auto ledger = ledgers::make_sqlite_ledger(
        clock,
        {.path = folder.path() / "ledger.db", .seed = seed, .lock_timeout = std::chrono::hours(1)});
    ledger->start();
    return ledger;
  }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const { return first; }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const { return second; }
  void settle() const { platform::ThreadGroup::sleep(Millis(1)); }
  void age(Millis by) const { clock.advance(by); }

  Clock& clock;
  const servers::TemporaryFolder folder{"ledger"};
  std::shared_ptr<ThreadedLedger> first, second;
};

}  // namespace

namespace contracts {
INSTANTIATE_TYPED_TEST_SUITE_P(ThreadedSqlite, LedgerContract, ThreadedSqliteMaker);
INSTANTIATE_TYPED_TEST_SUITE_P(ThreadedSqlite, FeedContract, ThreadedSqliteMaker);
}  // namespace contracts
}  // namespace weir
