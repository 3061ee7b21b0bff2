// A ledger behind bad luck: calls fail, replies are lost after the call was carried out, what
// was published arrives again later, and reads give what was true before.
//
// What goes wrong follows from a script and then from a seed, so that a run can be repeated.
// No threads and no time of its own. One thread at a time.

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
  kFail,      // not carried out, and said so
  kTimeout,   // carried out, but said not to be known
  kNoReply,   // carried out, and never answered
  kSwallow,   // neither
  kAgain,     // answered; what was published arrives once more with the next call
  kOldAnswer  // a read: what an earlier one heard; else as kNone
};

// Of a thousand calls.
struct LedgerFaultOdds {
  uint32_t fail = 0;
  uint32_t timeout = 0;
  uint32_t no_reply = 0;
  uint32_t swallow = 0;
  uint32_t again = 0;
  uint32_t old_answer = 0;
};

class FaultyLedger final : public GlobalLedger {
 public:
  FaultyLedger(std::shared_ptr<GlobalLedger> inner, uint64_t seed, LedgerFaultOdds odds = {})
      : inner_(std::move(inner)), state_(seed), odds_(odds) {}

  // What happens to the next calls, before luck decides again.
  void script(std::initializer_list<LedgerFault> faults) {
    script_.insert(script_.end(), faults.begin(), faults.end());
  }
  void set_odds(LedgerFaultOdds odds) { odds_ = odds; }

  // From now on nothing passes, and it is known.
  void cut() { cut_ = true; }
  void mend() { cut_ = false; }

  // Until let_go(), what is published waits on its way.
  void hold() { holds_ = true; }
  void let_go() {
    holds_ = false;
    for (auto& [news, reply] : std::exchange(held_, {})) publish(std::move(news), std::move(reply));
  }

  // From now on rows of this identifier are to blame for whatever they are published with.
  void blame(std::string identifier) { blamed_ = std::move(identifier); }

  // Until unlock(), somebody else holds the rows of this identifier.
  void lock(std::string identifier) { locked_ = std::move(identifier); }
  void unlock() { locked_.clear(); }
  // From now on reads pass and writes do not.
  void refuse_writes() { refuses_writes_ = true; }
  void accept_writes() { refuses_writes_ = false; }

  void publish(LedgerNews news, PublishReply reply) override {
    if (has(news, blamed_)) {
      ++faults_;
      return reply(
          Error{.retry = Retry::kPointless, .field = "rows", .detail = "a row cannot be written"});
    }
    if (has(news, locked_)) {
      ++faults_;
      return reply(Error{.code = ErrorCode::kUnavailable,
                         .retry = Retry::kMayHelp,
                         .field = "rows",
                         .detail = "somebody holds a row"});
    }
    if (refuses_writes_) return refuse<size_t>(reply);
    if (holds_) {
      held_.emplace_back(std::move(news), std::move(reply));
      return;
    }
    if (again_) inner_->publish(*std::exchange(again_, std::nullopt), [](const auto&) {});
    const LedgerFault fault = next_fault();
    if (fault == LedgerFault::kAgain) again_ = news;
    carry<size_t>(
        fault, std::move(reply),
        [&](PublishReply done) { inner_->publish(std::move(news), std::move(done)); }, nullptr);
  }
  void changes_since(LedgerCursor cursor, ChangesReply reply) override {
    carry<LedgerChanges>(
        next_fault(), std::move(reply),
        [&](ChangesReply done) { inner_->changes_since(cursor, std::move(done)); },
        cursor.position == 0 ? nullptr : &old_changes_);
  }
  void read_page(LedgerPosition place, PageReply reply) override {
    std::optional<LedgerPage>* const old = &old_pages_[place.after];
    carry<LedgerPage>(
        next_fault(), std::move(reply),
        [&](PageReply done) { inner_->read_page(std::move(place), std::move(done)); }, old);
  }
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override {
    if (refuses_writes_) return refuse<LedgerFleet>(reply);
    carry<LedgerFleet>(
        next_fault(), std::move(reply),
        [&](FleetReply done) { inner_->heartbeat(std::move(self), rules, std::move(done)); },
        &old_fleet_);
  }
  void clean(size_t most, CleaningReply reply) override {
    carry<LedgerCleaning>(
        next_fault(), std::move(reply),
        [&](CleaningReply done) { inner_->clean(most, std::move(done)); }, nullptr);
  }
  [[nodiscard]] bool reachable() const override { return !cut_ && inner_->reachable(); }

  [[nodiscard]] uint64_t faults() const { return faults_; }

 private:
  [[nodiscard]] static bool has(const LedgerNews& news, const std::string& identifier) {
    return !identifier.empty() &&
           std::any_of(news.rows.begin(), news.rows.end(),
                       [&](const LedgerRow& row) { return row.key.identifier == identifier; });
  }
  template <typename Answer>
  void refuse(const std::function<void(Result<Answer>)>& reply) {
    ++faults_;
    reply(Error{.code = ErrorCode::kUnavailable,
                .retry = Retry::kMayHelp,
                .detail = "the ledger may only be read"});
  }

  LedgerFault next_fault() {
    LedgerFault fault = LedgerFault::kNone;
    if (cut_) {
      fault = LedgerFault::kFail;
    } else if (!script_.empty()) {
      fault = script_.front();
      script_.pop_front();
    } else {
      fault = by_luck();
    }
    faults_ += fault == LedgerFault::kNone ? 0 : 1;
    return fault;
  }

  LedgerFault by_luck() {
    uint64_t draw = base::split_mix(state_) % 1000;
    const std::pair<uint32_t, LedgerFault> parts[] = {
        {odds_.fail, LedgerFault::kFail},        {odds_.timeout, LedgerFault::kTimeout},
        {odds_.no_reply, LedgerFault::kNoReply}, {odds_.swallow, LedgerFault::kSwallow},
        {odds_.again, LedgerFault::kAgain},      {odds_.old_answer, LedgerFault::kOldAnswer}};
    for (const auto& [odds, fault] : parts) {
      if (draw < odds) return fault;
      draw -= odds;
    }
    return LedgerFault::kNone;
  }

  template <typename Answer, typename Ask>
  void carry(LedgerFault fault, std::function<void(Result<Answer>)> reply, const Ask& ask,
             std::optional<Answer>* old) {
    switch (fault) {
      case LedgerFault::kFail:
        return reply(Error{.code = ErrorCode::kUnavailable,
                           .retry = Retry::kMayHelp,
                           .detail = "the ledger cannot be reached"});
      case LedgerFault::kSwallow: return;
      case LedgerFault::kNoReply: return ask([](const Result<Answer>&) {});
      case LedgerFault::kTimeout:
        return ask([reply = std::move(reply)](const Result<Answer>&) {
          reply(Error{.code = ErrorCode::kTimeout,
                      .retry = Retry::kMayHelp,
                      .detail = "the ledger did not answer in time"});
        });
      case LedgerFault::kOldAnswer:
        if (old != nullptr && *old) return reply(**old);
        break;
      case LedgerFault::kNone:
      case LedgerFault::kAgain: break;
    }
    ask([reply = std::move(reply), old](Result<Answer> answer) {
      if (old != nullptr && answer) *old = *answer;
      reply(std::move(answer));
    });
  }

  const std::shared_ptr<GlobalLedger> inner_;
  std::string blamed_;
  std::string locked_;
  bool refuses_writes_ = false;
  uint64_t state_;
  LedgerFaultOdds odds_;
  std::deque<LedgerFault> script_;
  bool cut_ = false;
  bool holds_ = false;
  std::deque<std::pair<LedgerNews, PublishReply>> held_;
  uint64_t faults_ = 0;
  std::optional<LedgerNews> again_;
  std::optional<LedgerChanges> old_changes_;
  std::map<std::string, std::optional<LedgerPage>> old_pages_;
  std::optional<LedgerFleet> old_fleet_;
};

}  // namespace weir::doubles
