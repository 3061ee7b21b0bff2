// Bridges of one region, with a fault at any single call to the origin or the ledger.
//
// The calls of a bridge are numbered. At one of them the bridge dies, or the call fails, or its
// reply is lost or late. Whenever a state is saved, the fixture checks that every row up to the
// saved positions is at the origin.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "global/bridge_importer.h"
#include "global/bridge_publisher.h"
#include "ledgers/memory_ledger.h"
#include "memory/tuple_key.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::global {

enum class CallFault : uint8_t {
  kNone,
  kDieBefore,   // the process dies; the call is not executed
  kDieAfter,    // the call is executed, then the process dies
  kFail,        // not executed; the reply is an error
  kFailAfter,   // executed; the reply is an error
  kDrop,        // not executed; no reply
  kNoReply,     // executed; no reply
  kLate,        // executed; the reply comes after the deadline
  kPauseAfter,  // executed; the process is suspended before the reply
  kPauseBefore  // the process is suspended; the call is executed when it wakes up
};
inline constexpr CallFault kCallFaults[] = {
    CallFault::kDieBefore, CallFault::kDieAfter,   CallFault::kFail,
    CallFault::kFailAfter, CallFault::kDrop,       CallFault::kNoReply,
    CallFault::kLate,      CallFault::kPauseAfter, CallFault::kPauseBefore};

// The numbered calls of one process.
struct Calls {
  uint64_t made = 0;
  uint64_t faulty = ~uint64_t{0};  // the number of the call with the fault
  CallFault fault = CallFault::kNone;
  bool dead = false;
  bool paused = false;
  bool late = false;                             // a reply is held back
  std::vector<std::function<void()>> on_waking;  // or when the late reply comes

  [[nodiscard]] CallFault next() { return made++ == faulty ? fault : CallFault::kNone; }
  void wake() {
    paused = late = false;
    for (const auto& work : std::exchange(on_waking, {})) work();
  }

  // A call with a reply.
  template <typename Answer, typename Call>
  void call(std::function<void(Result<Answer>)> reply, Call execute) {
    if (dead) return;
    const Error error{
        .code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "the call failed"};
    const auto ignore = [](const Result<Answer>&) {};
    const auto hold = [this, reply](Result<Answer> answer) {
      on_waking.push_back([reply, shared = std::make_shared<Result<Answer>>(std::move(answer))] {
        reply(std::move(*shared));
      });
    };
    switch (next()) {
      case CallFault::kNone: return execute(reply);
      case CallFault::kDieBefore: dead = true; return;
      case CallFault::kDieAfter:
        execute(ignore);
        dead = true;
        return;
      case CallFault::kFail: return reply(error);
      case CallFault::kFailAfter: execute(ignore); return reply(error);
      case CallFault::kDrop: return;
      case CallFault::kNoReply: return execute(ignore);
      case CallFault::kLate: late = true; return execute(hold);
      case CallFault::kPauseAfter: paused = true; return execute(hold);
      case CallFault::kPauseBefore:
        paused = true;
        on_waking.push_back([execute, reply] { execute(reply); });
        return;
    }
  }
  // A call without one. It shares the connection with the next call, so it is lost only together
  // with that.
  template <typename Call>
  void call(Call execute) {
    if (dead) return;
    switch (next()) {
      case CallFault::kDieBefore: dead = true; return;
      case CallFault::kDieAfter:
        execute();
        dead = true;
        return;
      case CallFault::kPauseBefore:
        paused = true;
        on_waking.push_back(execute);
        return;
      case CallFault::kPauseAfter: paused = true; return execute();
      default: return execute();
    }
  }
};

// The store of the bridge as one process reaches it.
class CallsToStore final : public BridgeStore {
 public:
  CallsToStore(std::shared_ptr<RegionalOrigin> origin, Calls& calls,
               std::function<void()> after_save)
      : origin_(std::move(origin)), calls_(calls), after_save_(std::move(after_save)) {}

  void acquire(std::string holder, Millis lease, GrantReply reply) override {
    calls_.call<BridgeGrant>(std::move(reply),
                             [=, this](GrantReply to) { inner().acquire(holder, lease, to); });
  }
  void release(std::string holder) override {
    calls_.call([=, this] { inner().release(holder); });
  }
  void save(std::string holder, std::string before, std::string state, SavedReply reply) override {
    calls_.call<bool>(std::move(reply), [=, this](SavedReply to) {
      inner().save(holder, before, state, [&](Result<bool> saved) {
        if (saved && *saved) after_save_();
        to(std::move(saved));
      });
    });
  }
  void read_due(WallTime from, WallTime by, size_t most, DueReply reply) override {
    calls_.call<std::vector<DueTuple>>(
        std::move(reply), [=, this](DueReply to) { inner().read_due(from, by, most, to); });
  }
  void add_due(std::vector<DueTuple> entries) override {
    calls_.call([=, this] { inner().add_due(entries); });
  }
  void remove_due(std::vector<DueTuple> entries) override {
    calls_.call([=, this] { inner().remove_due(entries); });
  }
  void read_tuples(std::vector<TupleRead> tuples, TupleReply reply) override {
    calls_.call<std::vector<TupleCounts>>(
        std::move(reply), [=, this](TupleReply to) { inner().read_tuples(tuples, to); });
  }
  void update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) override {
    calls_.call<std::vector<TupleCounts>>(
        std::move(reply), [=, this](TupleReply to) { inner().update_tuples(updates, to); });
  }
  void keep_record(std::string record, KeptReply reply) override {
    calls_.call<bool>(std::move(reply),
                      [=, this](KeptReply to) { inner().keep_record(record, to); });
  }
  void read_records(RecordsReply reply) override {
    if (!has_records) return reply(Error{.code = ErrorCode::kUnavailable});
    calls_.call<std::vector<std::string>>(std::move(reply),
                                          [=, this](RecordsReply to) { inner().read_records(to); });
  }
  void notify(std::string body) override {
    calls_.call([=, this] { inner().notify(body); });
  }
  [[nodiscard]] Subscription subscribe(BridgeMessageHandler handler) override {
    return inner().subscribe(std::move(handler));
  }

  bool has_records = true;  // else every read of the records fails

 private:
  [[nodiscard]] BridgeStore& inner() { return *origin_->bridge_store(); }

  const std::shared_ptr<RegionalOrigin> origin_;
  Calls& calls_;
  const std::function<void()> after_save_;
};

// The ledger as one process reaches it.
class CallsToLedger final : public GlobalLedger {
 public:
  CallsToLedger(std::shared_ptr<GlobalLedger> inner, Calls& calls, const Clock& clock)
      : inner_(std::move(inner)), calls_(calls), clock_(clock) {}

  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override {
    calls_.call<FeedPosition>(later(std::move(reply)), [=, this](PublishReply to) {
      if (publish_fails) return to(Error{.code = *publish_fails, .retry = Retry::kMayHelp});
      const bool answers = !publish_is_silent && !publish_times_out;
      inner_->publish(
          region, known, rows, answers ? to : [](const auto&) {});
      if (publish_times_out) to(Error{.code = ErrorCode::kTimeout, .retry = Retry::kMayHelp});
    });
  }
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override {
    calls_.call<FeedChanges>(later(std::move(reply)),
                             [=, this](FeedReply to) { inner_->read_feeds(after, to); });
  }
  void read_page(std::string region, LedgerPosition position, PageReply reply) override {
    calls_.call<LedgerPage>(later(std::move(reply)), [=, this](PageReply to) {
      (replica ? replica : inner_)->read_page(region, position, to);
    });
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    inner_->heartbeat(std::move(self), rules, std::move(reply));
  }
  void clean(size_t most, CleaningReply reply) override { inner_->clean(most, std::move(reply)); }
  [[nodiscard]] bool reachable() const override { return is_reachable; }

  // Delivers the replies whose delay is over.
  void deliver() {
    std::vector<std::function<void()>> due;
    while (!delayed_.empty() && delayed_.begin()->first <= clock_.now().mono) {
      due.push_back(std::move(delayed_.begin()->second));
      delayed_.erase(delayed_.begin());
    }
    for (const auto& reply : due) reply();
  }

  bool is_reachable = true;
  std::optional<ErrorCode> publish_fails{};  // not executed
  bool publish_is_silent = false;            // executed; no reply
  bool publish_times_out = false;            // executed; the reply is an error
  Millis delay{0};                           // of every reply
  // Answers reads of pages; null: the ledger does.
  std::shared_ptr<GlobalLedger> replica;

 private:
  template <typename Reply>
  [[nodiscard]] Reply later(Reply reply) {
    if (delay == Millis(0)) return reply;
    return [this, reply = std::move(reply)](auto answer) {
      auto shared = std::make_shared<decltype(answer)>(std::move(answer));
      delayed_.emplace(clock_.now().mono + delay, [reply, shared] { reply(std::move(*shared)); });
    };
  }

  const std::shared_ptr<GlobalLedger> inner_;
  Calls& calls_;
  const Clock& clock_;
  std::multimap<MonoTime, std::function<void()>> delayed_;
};

class BridgeFixture : public testing::Test {
 protected:
  // One process of the region.
  struct Process {
    Calls calls;
    std::shared_ptr<CompletionQueue> completions = std::make_shared<CompletionQueue>();
    std::shared_ptr<CallsToLedger> ledger;
    std::unique_ptr<CallsToStore> store;
    Regions regions{.rules = {}, .count = 2};
    std::unique_ptr<BridgeImporter> importer;
    std::unique_ptr<BridgePublisher> publisher;
    MonoTime suspended_at{};
    Millis clock_ahead{0};  // its wall clock is wrong
  };

  std::unique_ptr<Process> make_process(const std::string& holder) {
    auto process = std::make_unique<Process>();
    Process* const self = process.get();
    process->ledger =
        std::make_shared<CallsToLedger>(ledger_->another_client(), process->calls, clock_);
    process->store = std::make_unique<CallsToStore>(origin_->another_endpoint(), process->calls,
                                                    [this] { check_positions(); });
    const BridgeIdentity identity{.region = "here", .holder = holder};
    const auto notify = [self](Instant, std::vector<TupleChange> changes) {
      self->store->notify(encode(
          BridgeNotice{.regions = self->regions, .import_age = {}, .changes = std::move(changes)}));
    };
    process->importer = std::make_unique<BridgeImporter>(
        identity, process->ledger, process->completions, process->regions, notify, ++seeds_);
    process->publisher =
        std::make_unique<BridgePublisher>(identity, process->ledger, process->completions,
                                          process->regions, *process->importer, notify);
    process->importer->use(*process->store, StoreUse::kShared, {});
    process->publisher->use(*process->store);
    return process;
  }

  // As RegionSync runs them.
  void run(Process& process, Flush flush = Flush::kDue) {
    if (process.calls.dead || process.calls.paused) return;
    Instant now = clock_.now();
    now.wall += process.clock_ahead;
    // As a heartbeat does.
    process.importer->note_ledger_time(clock_.now().wall, now.mono, now.mono);
    process.ledger->deliver();
    process.completions->run_all(now);
    process.importer->run(now, Millis(100), flush);
    if (process.importer->is_bridge(now.mono)) {
      process.publisher->run(now, flush);
    } else {
      process.publisher->stop();
    }
    for (int i = 0; i < 100 && process.completions->run_all(now); ++i) {
    }
  }

  void pass(Millis time, const std::vector<Process*>& processes) {
    for (Millis passed{0}; passed < time; passed += Millis(10)) {
      clock_.advance(Millis(10));
      for (Process* process : processes) run(*process);
    }
  }

  static std::string tuple_of(const std::string& identifier, const std::string& ns = "api") {
    static const base::KeyedHash hash(7);
    return memory::TupleKey({.ns = ns, .identifier = identifier, .limit = 1, .duration = kDuration},
                            hash)
        .encoded();
  }
  [[nodiscard]] int64_t current() const { return clock_.now().wall.time_since_epoch() / kDuration; }

  // A process of the region, which may have died since, tells the origin its count.
  void replay(const std::string& identifier, Count total, Due due, int64_t sequence = 0) {
    const int64_t of = sequence == 0 ? current() : sequence;
    origin_->replay({{.cell = {tuple_of(identifier), of},
                      .writer = {.incarnation = 77, .generation = 1},
                      .total = total,
                      .expires_at = WallTime((of + 2) * kDuration),
                      .limit_seen = 100,
                      .due = due}},
                    [](const auto&) {});
  }

  // Another region publishes.
  void publish_for(const std::string& region, const std::string& identifier, Count count,
                   WallTime leased_until = {}, int64_t sequence = 0) {
    const LedgerRow row{
        .key = {.workspace = "", .ns = "api", .identifier = identifier, .duration = kDuration},
        .sequence = sequence == 0 ? current() : sequence,
        .region = region,
        .count = count,
        .limit_seen = 100,
        .leased_until = leased_until};
    FeedPosition& feed = feeds_[region];
    ledger_->publish(region, feed, {row}, [&](const Result<FeedPosition>& at) { feed = *at; });
    batches_.push_back({.region = region, .at = feed, .rows = {row}});
  }

  // What the origin has of a region on a tuple, in the current window or another.
  [[nodiscard]] Count at_origin(const std::string& region, const std::string& identifier,
                                int64_t sequence = 0) const {
    return count_in(origin_->snapshot(), region, identifier, sequence);
  }
  [[nodiscard]] Count count_in(const origins::InProcessOrigin::Snapshot& origin,
                               const std::string& region, const std::string& identifier,
                               int64_t sequence = 0) const {
    for (const RegionCount& count : origin.regions(tuple_of(identifier))) {
      if (count.region == region && count.sequence == (sequence == 0 ? current() : sequence)) {
        return count.count;
      }
    }
    return 0;
  }
  // The ledger as it is now, for ever.
  [[nodiscard]] std::shared_ptr<ledgers::MemoryLedger> make_replica() const {
    auto replica = std::make_shared<ledgers::MemoryLedger>(clock_);
    replica->restore(*ledger_->snapshot());
    return replica;
  }
  // What the ledger has.
  [[nodiscard]] Count in_ledger(const std::string& identifier, int64_t sequence = 0) const {
    for (const LedgerRow& row : ledger_->contents()) {
      if (row.region == "here" && row.key.identifier == identifier &&
          row.sequence == (sequence == 0 ? current() : sequence)) {
        return row.count;
      }
    }
    return 0;
  }
  [[nodiscard]] std::vector<DueTuple> due() const {
    return origin_->snapshot().due.read(WallTime{}, WallTime::max(), 1000);
  }

  [[nodiscard]] std::optional<BridgeState> saved() const {
    auto copy = origin_->snapshot();
    return decode_state(copy.acquire("probe", Millis(1), clock_.now()).state);
  }
  // Every row up to a saved position is at the origin, unless the store evicted or dropped it.
  void check_positions() {
    if (!checks_positions_) return;
    auto copy = origin_->snapshot();
    const BridgeGrant grant = copy.acquire("probe", Millis(1), clock_.now());
    const auto state = decode_state(grant.state);
    ASSERT_TRUE(state);
    if (state->evicted != grant.evicted || origin_->dropped() > 0) return;
    for (const FeedBatch& batch : batches_) {
      const auto cursor = state->cursors.find(batch.region);
      if (cursor == state->cursors.end() || cursor->second.epoch != batch.at.epoch ||
          cursor->second < batch.at) {
        continue;
      }
      for (const LedgerRow& row : batch.rows) {
        if (row.kept_until() <= clock_.now().wall) continue;
        ASSERT_GE(count_in(copy, row.region, row.key.identifier, row.sequence), row.count)
            << row.region << " " << row.key.identifier << " batch " << batch.at.number;
      }
    }
    ++states_checked_;
  }

  static constexpr Millis kDuration{60'000};

  doubles::ManualClock clock_;
  std::shared_ptr<ledgers::MemoryLedger> ledger_ = std::make_shared<ledgers::MemoryLedger>(clock_);
  std::shared_ptr<origins::InProcessOrigin> origin_ =
      std::make_shared<origins::InProcessOrigin>(clock_);
  std::map<std::string, FeedPosition> feeds_;
  std::vector<FeedBatch> batches_;  // of other regions
  uint64_t seeds_ = 0;
  bool checks_positions_ = true;  // takes time with many tuples
  size_t states_checked_ = 0;
};

}  // namespace weir::global
