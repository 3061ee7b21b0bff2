// The network between one process and the origin. Messages have delays, get lost in either
// direction, arrive twice, or arrive long after their connection ended.
//
// Like a real connection it can be down: then calls fail at once, or are never answered. A
// reconnect changes its epoch.

#pragma once

#include <algorithm>
#include <memory>

#include "sim/faults/link_faults.h"
#include "sim/random.h"
#include "sim/timeline.h"
#include "weir/origin.h"

namespace weir::sim {

// Bugs that a test plants here.
enum class LinkBug : uint8_t {
  kNone,
  kFalseAcks,        // acknowledges one replay in three without applying it
  kErrorsAsEmpty,    // answers with empty totals where it should fail
  kHidesReconnects,  // does not report a reconnect
};

// Events of the link, for coverage.
struct LinkCounters {
  uint64_t lost_requests = 0;
  uint64_t lost_replies = 0;  // although the call was applied
  uint64_t repeated = 0;
  uint64_t slow_replies = 0;  // beyond any deadline
};

// Observes the node's end of the link.
class LinkWatcher {
 public:
  virtual ~LinkWatcher() = default;
  // The message just sent will not arrive within most_delay, or never.
  virtual void disrupted() {}
  virtual void reconnected() {}
  // Reads of so many cells, and notes of published counts; these messages have no number.
  virtual void reading(size_t /*cells*/) {}
  virtual void noting_published(size_t /*cells*/) {}
  // `message` is the number of the message.
  virtual void sent(uint64_t /*message*/, const std::vector<CellReplay>&) {}
  virtual void received(uint64_t /*message*/, const std::vector<CellReplay>&,
                        const Result<std::vector<CellTotals>>&) {}
  virtual void received(const std::vector<CellRead>&, const Result<std::vector<CellTotals>>&) {}
};

// Belongs to the timeline.
class OriginLink final : public RegionalOrigin {
 public:
  OriginLink(Timeline& timeline, std::shared_ptr<RegionalOrigin> far_end, uint64_t seed)
      : timeline_(timeline), far_end_(std::move(far_end)), random_(seed) {}

  void read(std::vector<CellRead> what, OriginReply reply) override {
    const auto cells = std::make_shared<const std::vector<CellRead>>(std::move(what));
    if (watcher != nullptr) watcher->reading(cells->size());
    send([this, cells](const OriginReply& answer) { far_end_->read(*cells, answer); },
         [this, cells, reply = std::move(reply)](Result<std::vector<CellTotals>> totals) {
           if (watcher != nullptr) watcher->received(*cells, totals);
           reply(std::move(totals));
         },
         cells->size(), Kind::kRead);
  }
  void replay(std::vector<CellReplay> what, OriginReply reply) override {
    const auto cells = std::make_shared<const std::vector<CellReplay>>(std::move(what));
    const uint64_t message = ++messages_;
    if (watcher != nullptr) watcher->sent(message, *cells);
    OriginReply received = [this, message, cells,
                            reply = std::move(reply)](Result<std::vector<CellTotals>> totals) {
      if (watcher != nullptr) watcher->received(message, *cells, totals);
      reply(std::move(totals));
    };
    if (bug == LinkBug::kFalseAcks && random_.one_in(3)) return ack_falsely(*cells, received);
    send([this, cells](const OriginReply& answer) { far_end_->replay(*cells, answer); },
         std::move(received), cells->size(), Kind::kReplay);
  }
  void note_published(std::vector<CellPublished> what) override {
    const auto cells = std::make_shared<const std::vector<CellPublished>>(std::move(what));
    if (watcher != nullptr) watcher->noting_published(cells->size());
    send([this, cells](const OriginReply&) { far_end_->note_published(*cells); },
         [](const auto&) {}, cells->size(), Kind::kNote);
  }
  [[nodiscard]] Reach reach() const override {
    if (!detects_refusal || faults.connectivity != Connectivity::kRefused) return Reach::kPrompt;
    note_disruption(Kind::kRead);
    return Reach::kNone;
  }
  [[nodiscard]] uint32_t live_nodes() const override { return live_nodes_; }
  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[nodiscard]] uint64_t epoch() const override {
    return bug == LinkBug::kHidesReconnects ? 1 : epoch_;
  }

  // Starts a new connection.
  void reconnect() {
    ++epoch_;
    if (watcher != nullptr) watcher->reconnected();
  }
  // The number of nodes that share the origin, and how many of them rank before this one.
  void set_live_nodes(uint32_t count, uint32_t before) {
    live_nodes_ = count;
    rank_ = before;
  }
  // The connection breaks. Until that is detected and another one is made, nothing is answered.
  // Replays that were sent into it arrive this much later, in order.
  void break_holding_for(Millis late) {
    broken_until_ = timeline_.now().mono + kDetectBroken;
    held_until_ = timeline_.now().mono + std::max(late, kDetectBroken);
    timeline_.post_at(broken_until_, [this] { reconnect(); });
  }
  // The process has ended. Messages that it sent still arrive; replies are dropped.
  void abandon() {
    abandoned_ = true;
    watcher = nullptr;
  }

  // Sent by a process that shuts down; arrives after all its earlier messages.
  void retire(std::vector<CellRetirement> what, RetirementReply reply) override {
    if (abandoned_ || faults.connectivity != Connectivity::kUp) return;
    const auto cells = std::make_shared<const std::vector<CellRetirement>>(std::move(what));
    const MonoTime soonest = timeline_.now().mono + faults.slow + faults.most_delay;
    last_arrival_ = std::max({soonest, last_arrival_, last_held_until_}) + Nanos(1);
    timeline_.post_at(last_arrival_, [this, cells, reply = std::move(reply)] {
      if (faults.connectivity == Connectivity::kUp) far_end_->retire(*cells, reply);
    });
  }

  LinkFaults faults;
  LinkCounters counters;
  LinkWatcher* watcher = nullptr;
  LinkBug bug = LinkBug::kNone;
  bool detects_refusal = false;  // the process knows when calls are refused, and makes none

 private:
  enum class Kind : uint8_t { kRead, kReplay, kNote };
  static constexpr Millis kDetectBroken{350};  // that a connection broke

  // Delivers the message, and its reply by the same rules, at most once.
  void send(std::function<void(const OriginReply&)> message, OriginReply reply, size_t cells,
            Kind kind) {
    if (abandoned_) return;
    if (faults.connectivity == Connectivity::kRefused) {
      note_disruption(kind);
      if (bug == LinkBug::kErrorsAsEmpty) return reply(std::vector<CellTotals>(cells));
      reply(Error{.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "refused"});
      return;
    }
    const bool broken = timeline_.now().mono < broken_until_;
    if (broken && kind != Kind::kRead) return hold(message, kind);
    if (broken || faults.connectivity == Connectivity::kSilent ||
        random_.permille(faults.lose_permille)) {
      ++counters.lost_requests;
      note_disruption(kind);
      return;
    }
    if (faults.slow > Millis(0)) note_disruption(kind);
    auto once = std::make_shared<OriginReply>(std::move(reply));
    const int copies = random_.permille(faults.repeat_permille) ? 2 : 1;
    if (copies == 2) ++counters.repeated;
    for (int copy = 0; copy < copies; ++copy) {
      const MonoTime arrives = timeline_.now().mono + delay();
      last_arrival_ = std::max(last_arrival_, arrives);
      timeline_.post_at(arrives, [this, message, once, kind] {
        if (faults.connectivity != Connectivity::kUp) {
          ++counters.lost_requests;
          note_disruption(kind);
          return;
        }
        message([this, once](Result<std::vector<CellTotals>> totals) {
          send_reply(once, std::move(totals));
        });
      });
    }
  }

  static void ack_falsely(const std::vector<CellReplay>& cells, const OriginReply& reply) {
    std::vector<CellTotals> totals;
    for (const CellReplay& cell : cells) totals.push_back({.mine = cell.total});
    reply(std::move(totals));
  }

  void hold(const std::function<void(const OriginReply&)>& message, Kind kind) {
    note_disruption(kind);
    held_until_ += Nanos(1);
    last_held_until_ = std::max(last_held_until_, held_until_);
    timeline_.post_at(held_until_,
                      [message] { message([](const Result<std::vector<CellTotals>>&) {}); });
  }

  void send_reply(const std::shared_ptr<OriginReply>& once,
                  Result<std::vector<CellTotals>> totals) {
    if (abandoned_) return;
    if (faults.connectivity != Connectivity::kUp || random_.permille(faults.lose_permille)) {
      ++counters.lost_replies;
      return;
    }
    auto reply_value = std::make_shared<Result<std::vector<CellTotals>>>(std::move(totals));
    if (faults.slow > Millis(0)) ++counters.slow_replies;
    timeline_.post_in(delay(), [this, once, reply_value] {
      if (abandoned_) return;
      if (const OriginReply reply = std::exchange(*once, nullptr)) reply(std::move(*reply_value));
    });
  }

  Millis delay() {
    return faults.slow +
           Millis(random_.between(faults.least_delay.count(), faults.most_delay.count()));
  }
  // A lost note of published counts delays no count, so it excuses nothing.
  void note_disruption(Kind kind) const {
    if (watcher != nullptr && kind != Kind::kNote) watcher->disrupted();
  }

  Timeline& timeline_;
  std::shared_ptr<RegionalOrigin> far_end_;
  Random random_;
  MonoTime broken_until_{};
  MonoTime held_until_{};
  MonoTime last_held_until_{};  // of all broken connections
  MonoTime last_arrival_{};     // of all messages so far
  uint64_t messages_ = 0;
  uint64_t epoch_ = 1;
  uint32_t live_nodes_ = 1;
  uint32_t rank_ = 0;
  bool abandoned_ = false;
};

}  // namespace weir::sim
