// The ledger's contract in memory, and behind bad luck.

#include "ledgers/memory_ledger.h"

#include "tests/contracts/ledger_contract.h"
#include "tests/doubles/faulty_ledger.h"

namespace weir::contracts {

using doubles::FaultyLedger;
using doubles::LedgerFault;
using ledgers::MemoryLedger;

struct InMemory {
  using Clock = doubles::ManualClock;
  static constexpr bool kTimeIsReal = false;
  explicit InMemory(Clock& at) : clock(at), ledger(std::make_shared<MemoryLedger>(at)) {}
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const { return ledger; }
  [[nodiscard]] std::shared_ptr<GlobalLedger> make_another() const {
    return ledger->as_seen_by_another();
  }
  void settle() const {}
  void pass(Millis by) { clock.advance(by); }
  Clock& clock;
  std::shared_ptr<MemoryLedger> ledger;
};

INSTANTIATE_TYPED_TEST_SUITE_P(MemoryLedger, LedgerContract, InMemory);

// What any caller of a ledger does: asks again while there is no answer, and while trying
// again may help.
class Insisting final : public GlobalLedger {
 public:
  explicit Insisting(std::shared_ptr<GlobalLedger> inner) : inner_(std::move(inner)) {}

  void publish(LedgerNews news, PublishReply reply) override {
    insist<size_t>(reply, [&](PublishReply done) { inner_->publish(news, std::move(done)); });
  }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    insist<LedgerChanges>(
        reply, [&](ChangesReply done) { inner_->changes_since(cursor, std::move(done)); });
  }
  void read_page(LedgerPosition place, PageReply reply) override {
    insist<LedgerPage>(reply, [&](PageReply done) { inner_->read_page(place, std::move(done)); });
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    insist<LedgerFleet>(reply,
                        [&](FleetReply done) { inner_->heartbeat(self, rules, std::move(done)); });
  }
  void clean(size_t most, CleaningReply reply) override { inner_->clean(most, std::move(reply)); }

 private:
  template <typename Answer, typename Ask>
  static void insist(const std::function<void(Result<Answer>)>& reply, const Ask& ask) {
    for (;;) {
      const auto received = std::make_shared<std::optional<Result<Answer>>>();
      ask([received](Result<Answer> answer) { *received = std::move(answer); });
      if (*received && (**received || (*received)->error().retry == Retry::kPointless)) {
        return reply(std::move(**received));
      }
    }
  }
  std::shared_ptr<GlobalLedger> inner_;
};

// A third of all calls goes wrong. Cleaning is left in peace: what it deleted cannot be asked.
struct BehindBadLuck : InMemory {
  explicit BehindBadLuck(Clock& at) : InMemory(at) {}
  class Faulty final : public GlobalLedger {
   public:
    Faulty(std::shared_ptr<GlobalLedger> sound, uint64_t seed)
        : sound_(sound),
          faulty_(sound, seed,
                  {.fail = 100, .timeout = 100, .no_reply = 50, .drop = 50, .duplicate = 100}) {}
    void publish(LedgerNews news, PublishReply reply) override {
      faulty_.publish(std::move(news), std::move(reply));
    }
    void changes_since(LedgerCursor cursor, ChangesReply reply) override {
      faulty_.changes_since(cursor, std::move(reply));
    }
    void read_page(LedgerPosition place, PageReply reply) override {
      faulty_.read_page(std::move(place), std::move(reply));
    }
    void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
      faulty_.heartbeat(std::move(self), rules, std::move(reply));
    }
    void clean(size_t most, CleaningReply reply) override { sound_->clean(most, std::move(reply)); }

   private:
    std::shared_ptr<GlobalLedger> sound_;
    FaultyLedger faulty_;
  };
  [[nodiscard]] std::shared_ptr<GlobalLedger> make() const {
    return std::make_shared<Insisting>(std::make_shared<Faulty>(ledger, 7));
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(FaultyLedger, LedgerContract, BehindBadLuck);

namespace {

TEST(MemoryLedgerClock, SaysThatTheStoreWentBackInTime) {
  doubles::ManualClock clock;
  MemoryLedger ledger(clock);
  LedgerCursor cursor;
  ledger.changes_since({}, [&](const auto& changes) { cursor = changes->next; });
  clock.step_wall(Millis(-10'000));
  ledger.changes_since(
      cursor, [&](const auto& changes) { EXPECT_LT(changes->next.position, cursor.position); });
}

TEST(MemoryLedgerChanges, ThatAreTooManyAtOneMomentAreCut) {
  doubles::ManualClock clock;
  MemoryLedger ledger(clock);
  LedgerNews news;
  for (size_t i = 0; i <= ledgers::kMostChanges; ++i) {
    news.rows.push_back(row_of(1, clock.now().wall));
    news.rows.back().key.identifier = std::to_string(i);
  }
  ledger.publish(std::move(news), [](const auto&) {});
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

TEST(MemoryLedgerRegions, AreForgottenAfterAMonth) {
  doubles::ManualClock clock;
  MemoryLedger ledger(clock);
  const auto regions = [&] {
    size_t count = 0;
    ledger.clean(0, [](const auto&) {});
    ledger.heartbeat({.region = "east"}, {},
                     [&](const auto& fleet) { count = fleet->regions.size(); });
    return count;
  };
  ledger.heartbeat({.region = "gone"}, {}, [](const auto&) {});
  clock.advance(ledgers::kRegionKept);
  EXPECT_EQ(regions(), 2u);
  clock.advance(Millis(1));
  EXPECT_EQ(regions(), 1u);
}

TEST(FaultyLedgerScript, DoesWhatItSaysAndThenNothing) {
  doubles::ManualClock clock;
  const auto sound = std::make_shared<MemoryLedger>(clock);
  FaultyLedger faulty(sound, 1);
  faulty.script({LedgerFault::kFail, LedgerFault::kDrop, LedgerFault::kNoReply,
                 LedgerFault::kTimeout, LedgerFault::kDuplicate});
  std::vector<std::string> received;
  const auto tell = [&](Count count) {
    received.emplace_back("none");
    faulty.publish({.rows = {row_of(count, clock.now().wall)}, .presences = {}},
                   [&](const Result<size_t>& result) {
                     received.back() = result                                       ? "ok"
                                       : result.error().code == ErrorCode::kTimeout ? "timeout"
                                                                                    : "unavailable";
                   });
    const LedgerNews all = sound->everything();
    return all.rows.empty() ? 0 : all.rows[0].count;
  };
  EXPECT_EQ(tell(1), 0u);
  EXPECT_EQ(tell(2), 0u);
  EXPECT_EQ(tell(3), 3u);
  EXPECT_EQ(tell(4), 4u);
  EXPECT_EQ(tell(5), 5u);
  sound->forget_all();
  EXPECT_EQ(tell(4), 5u);  // what came again is the larger
  EXPECT_EQ(received,
            (std::vector<std::string>{"unavailable", "none", "none", "timeout", "ok", "ok"}));
  faulty.cut();
  EXPECT_FALSE(faulty.reachable());
  EXPECT_EQ(tell(6), 5u);
  faulty.restore();
  EXPECT_EQ(tell(6), 6u);
}

TEST(FaultyLedgerScript, GivesAnOldAnswerToARead) {
  doubles::ManualClock clock;
  FaultyLedger faulty(std::make_shared<MemoryLedger>(clock), 1);
  const auto count = [&] {
    size_t rows = 0;
    faulty.read_page({}, [&](const auto& page) { rows = page->news.rows.size(); });
    return rows;
  };
  EXPECT_EQ(count(), 0u);
  faulty.publish({.rows = {row_of(1, clock.now().wall)}, .presences = {}}, [](const auto&) {});
  faulty.script({LedgerFault::kStale});
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace weir::contracts
