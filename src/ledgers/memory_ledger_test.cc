// The ledger contract in memory, with and without injected faults.

#include "ledgers/memory_ledger.h"

#include "tests/contracts/feed_contract.h"
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
    return ledger->another_client();
  }
  void settle() const {}
  void age(Millis by) { clock.advance(by); }
  Clock& clock;
  std::shared_ptr<MemoryLedger> ledger;
};

INSTANTIATE_TYPED_TEST_SUITE_P(MemoryLedger, LedgerContract, InMemory);
INSTANTIATE_TYPED_TEST_SUITE_P(MemoryLedger, FeedContract, InMemory);

// Retries each call without a reply or with an error that a retry may fix, as callers do.
class RetryingLedger final : public GlobalLedger {
 public:
  explicit RetryingLedger(std::shared_ptr<GlobalLedger> inner) : inner_(std::move(inner)) {}

  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override {
    retry<FeedPosition>(
        reply, [&](PublishReply done) { inner_->publish(region, known, rows, std::move(done)); });
  }
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override {
    retry<FeedChanges>(reply, [&](FeedReply done) { inner_->read_feeds(after, std::move(done)); });
  }
  void read_page(std::string region, LedgerPosition position, PageReply reply) override {
    retry<LedgerPage>(
        reply, [&](PageReply done) { inner_->read_page(region, position, std::move(done)); });
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
                  {.fail = 100, .timeout = 100, .no_reply = 50, .drop = 50, .duplicate = 100}) {}
    void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
                 PublishReply reply) override {
      faulty_.publish(std::move(region), known, std::move(rows), std::move(reply));
    }
    void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override {
      faulty_.read_feeds(std::move(after), std::move(reply));
    }
    void read_page(std::string region, LedgerPosition position, PageReply reply) override {
      faulty_.read_page(std::move(region), std::move(position), std::move(reply));
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

FeedPosition publish(MemoryLedger& ledger, FeedPosition known, std::vector<LedgerRow> rows) {
  FeedPosition at;
  ledger.publish("east", known, std::move(rows), [&](const auto& result) { at = result.value(); });
  return at;
}

std::vector<uint64_t> numbers_after(MemoryLedger& ledger, FeedPosition at) {
  std::vector<uint64_t> numbers;
  ledger.read_feeds({{.region = "east", .at = at}}, [&](const auto& changes) {
    for (const FeedBatch& batch : changes->batches) numbers.push_back(batch.at.number);
  });
  return numbers;
}

TEST(MemoryLedgerEpoch, IsLargerAfterTheClockStepsBack) {
  doubles::ManualClock clock;
  MemoryLedger ledger(clock);
  const FeedPosition first = publish(ledger, {}, {});
  EXPECT_EQ(first.epoch >> ledgers::kEpochRandomBits,
            static_cast<uint64_t>(clock.now().wall.time_since_epoch().count()));
  clock.step_wall(Millis(-10'000));
  EXPECT_GT(publish(ledger, {}, {}).epoch, first.epoch);
}

TEST(MemoryLedgerEpoch, DiffersAtOneMomentAndInARepeatedRunDoesNot) {
  const auto epochs = [] {
    doubles::ManualClock clock;
    MemoryLedger ledger(clock);
    std::vector<uint64_t> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(publish(ledger, {}, {}).epoch);
      ledger.clear();
    }
    return all;
  };
  const auto first = epochs();
  EXPECT_EQ(std::set<uint64_t>(first.begin(), first.end()).size(), 3u);
  EXPECT_EQ(epochs(), first);
}

TEST(MemoryLedgerFeed, LacksTheDroppedBatches) {
  doubles::ManualClock clock;
  MemoryLedger ledger(clock);
  FeedPosition at = publish(ledger, {}, {});
  const FeedPosition begin{.epoch = at.epoch};
  for (Count count = 2; count <= 6; ++count) {
    at = publish(ledger, at, {row_of(count, clock.now().wall)});
  }
  ledger.drop_batches("east", {.epoch = at.epoch, .number = 2}, {.epoch = at.epoch, .number = 4});
  ledger.drop_batches("west", {}, at);
  EXPECT_EQ(numbers_after(ledger, begin), (std::vector<uint64_t>{1, 5, 6}));
  ledger.drop_batches("east", at, at);
  EXPECT_EQ(numbers_after(ledger, begin), (std::vector<uint64_t>{1, 5}));
  EXPECT_EQ(ledger.contents().at(0).count, 6u);
}

TEST(MemoryLedgerSnapshot, RestoresRowsAndFeeds) {
  doubles::ManualClock clock;
  MemoryLedger ledger(clock);
  const WallTime now = clock.now().wall;
  const FeedPosition first = publish(ledger, {}, {row_of(1, now)});
  const auto copy = ledger.snapshot();
  LedgerRow bob = row_of(3, now);
  bob.key.identifier = "bob";
  const FeedPosition second = publish(ledger, first, {row_of(2, now), bob});
  EXPECT_EQ(ledger.contents().size(), 2u);

  ledger.restore(*copy);
  EXPECT_THAT(ledger.contents(), ElementsAre(row_of(1, now)));
  EXPECT_EQ(numbers_after(ledger, {.epoch = first.epoch}), (std::vector<uint64_t>{1}));
  // The writer knows a batch that was lost.
  const FeedPosition third = publish(ledger, second, {row_of(2, now)});
  EXPECT_GT(third.epoch, second.epoch);
  EXPECT_EQ(third.number, 1u);
  // The copy is unchanged, and its rows expire like others.
  ledger.restore(*copy);
  clock.advance(Millis(120'000));
  ledger.clean(10, [](const auto& cleaning) { EXPECT_EQ(cleaning->deleted, 1u); });
  EXPECT_TRUE(ledger.contents().empty());
}

TEST(MemoryLedgerRegions, AreDeletedAfterAMonth) {
  doubles::ManualClock clock;
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

TEST(MemoryLedgerRegions, AreKeptWhileTheyHaveRows) {
  doubles::ManualClock clock;
  MemoryLedger ledger(clock);
  LedgerRow row = row_of(1, clock.now().wall);
  row.key.duration = kMaxDuration;
  row.sequence = clock.now().wall.time_since_epoch() / kMaxDuration;
  publish(ledger, {}, {row});
  const auto regions = [&] {
    size_t count = 0;
    ledger.clean(10, [](const auto&) {});
    ledger.read_feeds({}, [&](const auto& changes) { count = changes->heads.size(); });
    return count;
  };
  clock.advance(row.expires_at() - clock.now().wall - Millis(1));
  EXPECT_EQ(regions(), 1u);
  clock.advance(std::max(Millis(1), ledgers::kRegionRetention));
  EXPECT_EQ(regions(), 0u);
}

TEST(FaultyLedgerScript, InjectsTheScriptedFaultsOnly) {
  doubles::ManualClock clock;
  const auto store = std::make_shared<MemoryLedger>(clock);
  FaultyLedger faulty(store, 1);
  faulty.script({LedgerFault::kFail, LedgerFault::kDrop, LedgerFault::kNoReply,
                 LedgerFault::kTimeout, LedgerFault::kDuplicate});
  std::vector<std::string> received;
  const auto publish = [&](Count count) {
    received.emplace_back("none");
    faulty.publish("east", {}, {row_of(count, clock.now().wall)},
                   [&](const Result<FeedPosition>& result) {
                     received.back() = result                                       ? "ok"
                                       : result.error().code == ErrorCode::kTimeout ? "timeout"
                                                                                    : "unavailable";
                   });
    const std::vector<LedgerRow> all = store->contents();
    return all.empty() ? 0 : all[0].count;
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
  faulty.restore();
  EXPECT_EQ(publish(6), 6u);
}

TEST(FaultyLedgerScript, ReturnsAStaleAnswer) {
  doubles::ManualClock clock;
  FaultyLedger faulty(std::make_shared<MemoryLedger>(clock), 1);
  const auto count = [&] {
    size_t rows = 0;
    faulty.read_page("east", {}, [&](const auto& page) { rows = page->rows.size(); });
    return rows;
  };
  EXPECT_EQ(count(), 0u);
  faulty.publish("east", {}, {row_of(1, clock.now().wall)}, [](const auto&) {});
  faulty.script({LedgerFault::kStale});
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace weir::contracts
