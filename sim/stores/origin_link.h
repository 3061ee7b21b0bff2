// The network between one process and the origin: messages take time, get lost on the way
// there or back, and arrive twice, or so late that their connection is long dead.
//
// Like a real connection it can be down: then it fails at once, or says nothing at all, and
// when it is made anew its epoch changes.

#pragma once

#include <algorithm>
#include <memory>

#include "sim/faults/link_faults.h"
#include "sim/random.h"
#include "sim/timeline.h"
#include "weir/origin.h"

namespace weir::sim {

// Bugs that a test plants here, to prove that they are found out.
enum class LinkBug : uint8_t {
  kNone,
  kFalseAcks,        // answers one replay in three as if it had been applied, and it is not
  kErrorsAsEmpty,    // answers with nothing where it should fail
  kHidesReconnects,  // does not say that the connection was made anew
};

// What the link has seen happen; the world reports these states as reached.
struct LinkCounters {
  uint64_t lost_requests = 0;
  uint64_t lost_replies = 0;  // applied all the same
  uint64_t repeated = 0;
  uint64_t slow_replies = 0;  // beyond any deadline
};

// Sees what leaves and reaches the near end.
class LinkWatcher {
 public:
  virtual ~LinkWatcher() = default;
  // What was just sent will not arrive within most_delay, or never.
  virtual void disrupted() {}
  virtual void reconnected() {}
  // So many cells are read, or word of so many is left: messages that are not numbered.
  virtual void reading(size_t /*cells*/) {}
  virtual void noting_published(size_t /*cells*/) {}
  // `message` numbers them.
  virtual void sent(uint64_t /*message*/, const std::vector<CellReplay>&) {}
  virtual void received(uint64_t /*message*/, const std::vector<CellReplay>&,
                        const Result<std::vector<CellTotals>>&) {}
  virtual void received(const std::vector<CellRead>&, const Result<std::vector<CellTotals>>&) {}
};

// Lives on the timeline.
class OriginLink final : public RegionalOrigin {
 public:
  OriginLink(Timeline& timeline, std::shared_ptr<RegionalOrigin> far_end, uint64_t seed)
      : timeline_(timeline), far_end_(std::move(far_end)), random_(seed) {}

  void read(std::vector<CellRead> what, OriginReply reply) override {
    const auto cells = std::make_shared<const std::vector<CellRead>>(std::move(what));
    if (watcher != nullptr) watcher->reading(cells->size());
    carry([this, cells](const OriginReply& answer) { far_end_->read(*cells, answer); },
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
    if (bug == LinkBug::kFalseAcks && random_.one_in(3)) return pretend(*cells, received);
    carry([this, cells](const OriginReply& answer) { far_end_->replay(*cells, answer); },
          std::move(received), cells->size(), Kind::kReplay);
  }
  void note_published(std::vector<CellPublished> what) override {
    const auto cells = std::make_shared<const std::vector<CellPublished>>(std::move(what));
    if (watcher != nullptr) watcher->noting_published(cells->size());
    carry([this, cells](const OriginReply&) { far_end_->note_published(*cells); },
          [](const auto&) {}, cells->size(), Kind::kWord);
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

  // The connection was made anew.
  void reconnect() {
    ++epoch_;
    if (watcher != nullptr) watcher->reconnected();
  }
  // How many share the origin, and how many of those come before this one, as last heard.
  void set_live_nodes(uint32_t count, uint32_t before) {
    live_nodes_ = count;
    rank_ = before;
  }
  // The connection dies. Until that is noticed and another is made nothing is answered, and
  // the replays that were sent into it land all the same, this much later, in order.
  void drop_holding_for(Millis late) {
    dead_until_ = timeline_.now().mono + kNoticed;
    lands_at_ = timeline_.now().mono + std::max(late, kNoticed);
    timeline_.post_at(dead_until_, [this] { reconnect(); });
  }
  // Nobody is there any more to hear an answer; what was sent still arrives.
  void abandon() {
    abandoned_ = true;
    watcher = nullptr;
  }

  // Comes from a process that leaves in peace, and arrives after all that it sent before.
  void retire(std::vector<CellRetirement> what, RetirementReply reply) override {
    if (abandoned_ || faults.connectivity != Connectivity::kUp) return;
    const auto cells = std::make_shared<const std::vector<CellRetirement>>(std::move(what));
    const MonoTime soonest = timeline_.now().mono + faults.slow + faults.most_delay;
    last_landing_ = std::max({soonest, last_landing_, last_lands_at_}) + Nanos(1);
    timeline_.post_at(last_landing_, [this, cells, reply = std::move(reply)] {
      if (faults.connectivity == Connectivity::kUp) far_end_->retire(*cells, reply);
    });
  }

  LinkFaults faults;
  LinkCounters counters;
  LinkWatcher* watcher = nullptr;
  LinkBug bug = LinkBug::kNone;
  bool detects_refusal = false;  // that calls are refused, so that none is made

 private:
  enum class Kind : uint8_t { kRead, kReplay, kWord };
  static constexpr Millis kNoticed{350};  // that a connection died

  // Takes the message there; what comes back is taken back by the same rules, at most once.
  void carry(std::function<void(const OriginReply&)> message, OriginReply reply, size_t cells,
             Kind kind) {
    if (abandoned_) return;
    if (faults.connectivity == Connectivity::kRefused) {
      note_disruption(kind);
      if (bug == LinkBug::kErrorsAsEmpty) return reply(std::vector<CellTotals>(cells));
      reply(Error{.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "refused"});
      return;
    }
    const bool dead = timeline_.now().mono < dead_until_;
    if (dead && kind != Kind::kRead) return hold(message, kind);
    if (dead || faults.connectivity == Connectivity::kSilent ||
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
      const MonoTime lands = timeline_.now().mono + delay();
      last_landing_ = std::max(last_landing_, lands);
      timeline_.post_at(lands, [this, message, once, kind] {
        if (faults.connectivity != Connectivity::kUp) {
          ++counters.lost_requests;
          note_disruption(kind);
          return;
        }
        message([this, once](Result<std::vector<CellTotals>> totals) {
          bring_back(once, std::move(totals));
        });
      });
    }
  }

  static void pretend(const std::vector<CellReplay>& cells, const OriginReply& reply) {
    std::vector<CellTotals> totals;
    for (const CellReplay& cell : cells) totals.push_back({.mine = cell.total});
    reply(std::move(totals));
  }

  void hold(const std::function<void(const OriginReply&)>& message, Kind kind) {
    note_disruption(kind);
    lands_at_ += Nanos(1);
    last_lands_at_ = std::max(last_lands_at_, lands_at_);
    timeline_.post_at(lands_at_,
                      [message] { message([](const Result<std::vector<CellTotals>>&) {}); });
  }

  void bring_back(const std::shared_ptr<OriginReply>& once,
                  Result<std::vector<CellTotals>> totals) {
    if (abandoned_) return;
    if (faults.connectivity != Connectivity::kUp || random_.permille(faults.lose_permille)) {
      ++counters.lost_replies;
      return;
    }
    auto parcel = std::make_shared<Result<std::vector<CellTotals>>>(std::move(totals));
    if (faults.slow > Millis(0)) ++counters.slow_replies;
    timeline_.post_in(delay(), [this, once, parcel] {
      if (abandoned_) return;
      if (const OriginReply reply = std::exchange(*once, nullptr)) reply(std::move(*parcel));
    });
  }

  Millis delay() {
    return faults.slow +
           Millis(random_.between(faults.least_delay.count(), faults.most_delay.count()));
  }
  // Word that is lost delays no count, so it excuses nothing.
  void note_disruption(Kind kind) const {
    if (watcher != nullptr && kind != Kind::kWord) watcher->disrupted();
  }

  Timeline& timeline_;
  std::shared_ptr<RegionalOrigin> far_end_;
  Random random_;
  MonoTime dead_until_{};
  MonoTime lands_at_{};
  MonoTime last_lands_at_{};  // of all connections that died
  MonoTime last_landing_{};   // of what was sent so far
  uint64_t messages_ = 0;
  uint64_t epoch_ = 1;
  uint32_t live_nodes_ = 1;
  uint32_t rank_ = 0;
  bool abandoned_ = false;
};

}  // namespace weir::sim
