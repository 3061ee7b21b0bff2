// A ledger with faults: calls fail, replies are lost after the call was executed, published rows
// arrive twice, and reads return stale answers.
//
// The faults come from a script and then from a seed, so that a run can be repeated. It uses no
// threads and no clock. One thread at a time.

#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/split_mix.h"
#include "weir/ledger.h"

namespace weir::doubles {

enum class LedgerFault : uint8_t {
  kNone,
  kFail,       // not executed; the reply is an error
  kTimeout,    // executed; the reply is a timeout
  kNoReply,    // executed; no reply
  kDrop,       // not executed; no reply
  kDuplicate,  // executed; published rows arrive again with the next call
  kStale,      // a read returns an earlier answer; else as kNone
};

// Faults per thousand calls.
struct LedgerFaultOdds {
  uint32_t fail = 0;
  uint32_t timeout = 0;
  uint32_t no_reply = 0;
  uint32_t drop = 0;
  uint32_t duplicate = 0;
  uint32_t stale = 0;
};

class FaultyLedger final : public GlobalLedger {
 public:
  FaultyLedger(std::shared_ptr<GlobalLedger> inner, uint64_t seed, LedgerFaultOdds odds = {})
      : inner_(std::move(inner)), state_(seed), odds_(odds) {}

  // The faults of the next calls; after them the odds apply again.
  void script(std::initializer_list<LedgerFault> faults) {
    script_.insert(script_.end(), faults.begin(), faults.end());
  }
  void set_odds(LedgerFaultOdds odds) { odds_ = odds; }

  // Until restore(), all calls fail.
  void cut() { cut_ = true; }
  void restore() { cut_ = false; }

  // Until release_publishes(), published rows are delayed.
  void hold_publishes() { holds_ = true; }
  void release_publishes() {
    holds_ = false;
    for (auto& [batch, reply] : std::exchange(held_, {})) {
      publish(std::move(batch.region), batch.at, std::move(batch.rows), std::move(reply));
    }
  }

  // From now on a publish that contains rows of this identifier fails permanently.
  void reject_rows_of(std::string identifier) { rejected_ = std::move(identifier); }

  // Until unlock_rows(), another transaction holds the rows of this identifier.
  void lock_rows_of(std::string identifier) { locked_ = std::move(identifier); }
  void unlock_rows() { locked_.clear(); }
  // Calls of heartbeat().
  [[nodiscard]] uint64_t heartbeats() const { return heartbeats_; }
  // Until accept_writes(), reads succeed and writes fail.
  void refuse_writes() { refuses_writes_ = true; }
  void accept_writes() { refuses_writes_ = false; }

  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override {
    if (has(rows, rejected_)) {
      ++faults_;
      return reply(
          Error{.retry = Retry::kPointless, .field = "rows", .detail = "a row cannot be written"});
    }
    if (has(rows, locked_)) {
      ++faults_;
      return reply(Error{.code = ErrorCode::kUnavailable,
                         .retry = Retry::kMayHelp,
                         .field = "rows",
                         .detail = "another transaction holds a row"});
    }
    if (refuses_writes_) return refuse<FeedPosition>(reply);
    FeedBatch batch{.region = std::move(region), .at = known, .rows = std::move(rows)};
    if (holds_) {
      held_.emplace_back(std::move(batch), std::move(reply));
      return;
    }
    if (duplicate_) send(*std::exchange(duplicate_, std::nullopt), [](const auto&) {});
    const LedgerFault fault = next_fault();
    if (fault == LedgerFault::kDuplicate) duplicate_ = batch;
    execute<FeedPosition>(
        fault, std::move(reply),
        [&](PublishReply done) { send(std::move(batch), std::move(done)); }, nullptr);
  }
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override {
    execute<FeedChanges>(
        next_fault(), std::move(reply),
        [&](FeedReply done) { inner_->read_feeds(std::move(after), std::move(done)); },
        &stale_feeds_);
  }
  void read_page(std::string region, LedgerPosition position, PageReply reply) override {
    std::optional<LedgerPage>* const stale = &stale_pages_[{region, position.after}];
    execute<LedgerPage>(
        next_fault(), std::move(reply),
        [&](PageReply done) {
          inner_->read_page(std::move(region), std::move(position), std::move(done));
        },
        stale);
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    ++heartbeats_;
    if (refuses_writes_) return refuse<LedgerFleet>(reply);
    execute<LedgerFleet>(
        next_fault(), std::move(reply),
        [&](FleetReply done) { inner_->heartbeat(std::move(self), rules, std::move(done)); },
        &stale_fleet_);
  }
  void clean(size_t most, CleaningReply reply) override {
    execute<LedgerCleaning>(
        next_fault(), std::move(reply),
        [&](CleaningReply done) { inner_->clean(most, std::move(done)); }, nullptr);
  }
  [[nodiscard]] bool reachable() const override { return !cut_ && inner_->reachable(); }

  [[nodiscard]] uint64_t faults() const { return faults_; }

 private:
  // `batch.at` is the position that the caller knows.
  void send(FeedBatch batch, PublishReply reply) {
    inner_->publish(std::move(batch.region), batch.at, std::move(batch.rows), std::move(reply));
  }
  [[nodiscard]] static bool has(const std::vector<LedgerRow>& rows, const std::string& identifier) {
    return !identifier.empty() && std::any_of(rows.begin(), rows.end(), [&](const LedgerRow& row) {
      return row.key.identifier == identifier;
    });
  }
  template <typename Answer>
  void refuse(const std::function<void(Result<Answer>)>& reply) {
    ++faults_;
    reply(Error{.code = ErrorCode::kUnavailable,
                .retry = Retry::kMayHelp,
                .detail = "the ledger is read-only"});
  }

  LedgerFault next_fault() {
    LedgerFault fault = LedgerFault::kNone;
    if (cut_) {
      fault = LedgerFault::kFail;
    } else if (!script_.empty()) {
      fault = script_.front();
      script_.pop_front();
    } else {
      fault = random_fault();
    }
    faults_ += fault == LedgerFault::kNone ? 0 : 1;
    return fault;
  }

  LedgerFault random_fault() {
    uint64_t draw = base::split_mix(state_) % 1000;
    const std::pair<uint32_t, LedgerFault> parts[] = {
        {odds_.fail, LedgerFault::kFail},           {odds_.timeout, LedgerFault::kTimeout},
        {odds_.no_reply, LedgerFault::kNoReply},    {odds_.drop, LedgerFault::kDrop},
        {odds_.duplicate, LedgerFault::kDuplicate}, {odds_.stale, LedgerFault::kStale}};
    for (const auto& [odds, fault] : parts) {
      if (draw < odds) return fault;
      draw -= odds;
    }
    return LedgerFault::kNone;
  }

  template <typename Answer, typename Ask>
  void execute(LedgerFault fault, std::function<void(Result<Answer>)> reply, const Ask& ask,
               std::optional<Answer>* stale) {
    switch (fault) {
      case LedgerFault::kFail:
        return reply(Error{.code = ErrorCode::kUnavailable,
                           .retry = Retry::kMayHelp,
                           .detail = "the ledger cannot be reached"});
      case LedgerFault::kDrop: return;
      case LedgerFault::kNoReply: return ask([](const Result<Answer>&) {});
      case LedgerFault::kTimeout:
        return ask([reply = std::move(reply)](const Result<Answer>&) {
          reply(Error{.code = ErrorCode::kTimeout,
                      .retry = Retry::kMayHelp,
                      .detail = "the ledger did not answer in time"});
        });
      case LedgerFault::kStale:
        if (stale != nullptr && *stale) return reply(**stale);
        break;
      case LedgerFault::kNone:
      case LedgerFault::kDuplicate: break;
    }
    ask([reply = std::move(reply), stale](Result<Answer> answer) {
      if (stale != nullptr && answer) *stale = *answer;
      reply(std::move(answer));
    });
  }

  const std::shared_ptr<GlobalLedger> inner_;
  std::string rejected_;
  std::string locked_;
  uint64_t heartbeats_ = 0;
  bool refuses_writes_ = false;
  uint64_t state_;
  LedgerFaultOdds odds_;
  std::deque<LedgerFault> script_;
  bool cut_ = false;
  bool holds_ = false;
  std::deque<std::pair<FeedBatch, PublishReply>> held_;
  uint64_t faults_ = 0;
  std::optional<FeedBatch> duplicate_;
  std::optional<FeedChanges> stale_feeds_;
  std::map<std::pair<std::string, std::string>, std::optional<LedgerPage>> stale_pages_;
  std::optional<LedgerFleet> stale_fleet_;
};

}  // namespace weir::doubles
