// The network between one process and the origin. Messages have delays, get lost in either
// direction, arrive twice, or arrive long after their connection ended.
//
// Like a real connection it can be down: then calls fail at once, or are never answered. A
// reconnect changes its epoch. All calls of the process, those of its bridge included, share it.

#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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
  uint64_t slow_replies = 0;   // beyond any deadline
  uint64_t lost_messages = 0;  // of the bridge to this process
};

// One call of a process as the bridge of its region.
enum class BridgeStep : uint8_t {
  kAcquire,
  kReadDue,
  kReadTuples,
  kPublish,  // to the ledger
  kUpdateTuples,
  kKeepRecord,
  kReadRecords,
  kNotify,
  kAddDue,
  kRemoveDue,
  kSave,
  kRelease,
  kCount,
};

// Observes the node's end of the link.
class LinkWatcher {
 public:
  virtual ~LinkWatcher() = default;
  // The message just sent will not arrive within most_delay, or never.
  virtual void disrupted() {}
  // The same for calls of the bridge and for its messages: no count of this region is late, but
  // those of other regions are.
  virtual void bridge_disrupted() {}
  virtual void reconnected() {}
  // Reads of so many cells; these messages have no number.
  virtual void reading(size_t /*cells*/) {}
  // `message` is the number of the message.
  virtual void sent(uint64_t /*message*/, const std::vector<CellReplay>&) {}
  // The same for steps, as far as they tell counts; received() follows.
  virtual void stepping(uint64_t /*message*/, const std::vector<CellReplay>&) {}
  // Or, where only their number matters, which takes less time.
  [[nodiscard]] virtual bool reads_steps() const { return true; }
  virtual void steps_sent(size_t /*cells*/) {}
  virtual void received(uint64_t /*message*/, const std::vector<CellReplay>&,
                        const Result<std::vector<CellTotals>>&) {}
  virtual void received(const std::vector<CellRead>&, const Result<std::vector<CellTotals>>&) {}
  // A call of the bridge: so many entries were sent, or the origin has applied it.
  virtual void bridge_sent(BridgeStep, size_t /*entries*/) {}
  virtual void bridge_applied(BridgeStep) {}
  // Whether the process is the bridge, as it has just read.
  virtual void granted(bool /*ours*/) {}
  // A message of the bridge has arrived.
  virtual void notified(const BridgeMessage&) {}
};

// Belongs to the timeline.
class OriginTransport {
 public:
  // Whose late messages delay what.
  enum class Traffic : uint8_t { kRead, kReplay, kBridgeRead, kBridgeWrite };
  template <typename Answer>
  using Reply = std::function<void(Result<Answer>)>;
  template <typename Answer>
  using Call = std::function<void(const Reply<Answer>&)>;

  OriginTransport(Timeline& timeline, uint64_t seed) : timeline_(timeline), random_(seed) {}
  OriginTransport(const OriginTransport&) = delete;
  OriginTransport& operator=(const OriginTransport&) = delete;

  // Starts a new connection.
  void reconnect() {
    ++epoch_;
    if (watcher != nullptr) watcher->reconnected();
  }
  // The connection breaks. Until that is detected and another one is made, nothing is answered.
  // Writes that were sent into it arrive this much later, in order.
  void break_holding_for(Millis late) {
    broken_until_ = timeline_.now().mono + kDetectBroken;
    held_until_ = timeline_.now().mono + std::max(late, kDetectBroken);
    timeline_.post_at(broken_until_, [this] { reconnect(); });
  }
  // The process does not run until then; it receives everything that arrives meanwhile at that
  // time.
  void pause_until(MonoTime then) { paused_until_ = then; }
  // The process has ended. Messages that it sent still arrive; replies are dropped.
  void abandon() {
    abandoned_ = true;
    watcher = nullptr;
  }

  LinkFaults faults;
  LinkCounters counters;
  LinkWatcher* watcher = nullptr;
  LinkBug bug = LinkBug::kNone;
  bool detects_refusal = false;  // the process knows when calls are refused, and makes none

  // Delivers the call, and its reply by the same rules, at most once.
  template <typename Answer>
  void send(Call<Answer> call, Reply<Answer> reply, Traffic kind) {
    if (abandoned_) return;
    if (faults.connectivity == Connectivity::kRefused) {
      note_disruption(kind);
      reply(Error{.code = ErrorCode::kUnavailable, .retry = Retry::kMayHelp, .detail = "refused"});
      return;
    }
    if (faults.connectivity != Connectivity::kSilent) {
      silent_since_.reset();
    } else if (!silent_since_) {
      silent_since_ = timeline_.now().mono;
    }
    const bool reads = kind == Traffic::kRead || kind == Traffic::kBridgeRead;
    if (is_broken() && !reads) {
      return hold([call] { call([](const Result<Answer>&) {}); }, kind);
    }
    if (is_broken() || faults.connectivity == Connectivity::kSilent ||
        random_.permille(faults.lose_permille)) {
      ++counters.lost_requests;
      note_disruption(kind);
      return;
    }
    if (faults.slow > Millis(0)) note_disruption(kind);
    auto once = std::make_shared<Reply<Answer>>(std::move(reply));
    const int copies = random_.permille(faults.repeat_permille) ? 2 : 1;
    if (copies == 2) ++counters.repeated;
    for (int copy = 0; copy < copies; ++copy) {
      const MonoTime arrives = timeline_.now().mono + delay();
      last_arrival_ = std::max(last_arrival_, arrives);
      timeline_.post_at(arrives, [this, call, once, kind] {
        if (faults.connectivity != Connectivity::kUp) {
          ++counters.lost_requests;
          note_disruption(kind);
          return;
        }
        call([this, once, kind](Result<Answer> answer) {
          send_reply<Answer>(once, std::move(answer), kind);
        });
      });
    }
  }

  // Delivers a message that the origin sends by itself, after all earlier ones of this connection.
  void push(Task arrive) {
    if (abandoned_) return;
    if (is_broken() || faults.connectivity != Connectivity::kUp ||
        random_.permille(faults.lose_permille)) {
      return lose_push();
    }
    last_push_ = std::max(last_push_ + Nanos(1), timeline_.now().mono + delay());
    timeline_.post_at(last_push_, [this, epoch = epoch_, arrive = std::move(arrive)]() mutable {
      if (abandoned_) return;
      // Messages of an earlier connection are lost.
      if (epoch != epoch_ || faults.connectivity != Connectivity::kUp) return lose_push();
      when_running(std::move(arrive));
    });
  }

  // Delivers a message after all that were sent before; it has no reply that matters.
  void send_last(Task apply) {
    if (abandoned_ || faults.connectivity != Connectivity::kUp) return;
    const MonoTime soonest = timeline_.now().mono + faults.slow + faults.most_delay;
    last_arrival_ = std::max({soonest, last_arrival_, last_held_until_}) + Nanos(1);
    timeline_.post_at(last_arrival_, [this, apply = std::move(apply)] {
      if (faults.connectivity == Connectivity::kUp) apply();
    });
  }

  [[nodiscard]] uint64_t connection() const { return epoch_; }
  // A late call of the bridge delays counts of other regions only.
  void note_disruption(Traffic kind) const {
    if (watcher == nullptr) return;
    if (kind == Traffic::kRead || kind == Traffic::kReplay) return watcher->disrupted();
    watcher->bridge_disrupted();
  }
  Random& random() { return random_; }

  // Like the link to a real server, which replaces a connection without replies and then knows that
  // it has none.
  [[nodiscard]] bool knows_of_silence() const {
    return faults.connectivity == Connectivity::kSilent && silent_since_ &&
           timeline_.now().mono - *silent_since_ > kReplyTimeout;
  }

 private:
  static constexpr Millis kDetectBroken{350};  // that a connection broke
  static constexpr Millis kReplyTimeout{2000};

  [[nodiscard]] bool is_broken() const { return timeline_.now().mono < broken_until_; }

  void hold(Task apply, Traffic kind) {
    note_disruption(kind);
    held_until_ += Nanos(1);
    last_held_until_ = std::max(last_held_until_, held_until_);
    timeline_.post_at(held_until_, std::move(apply));
  }

  template <typename Answer>
  void send_reply(const std::shared_ptr<Reply<Answer>>& once, Result<Answer> answer, Traffic kind) {
    if (abandoned_) return;
    if (faults.connectivity != Connectivity::kUp || random_.permille(faults.lose_permille)) {
      ++counters.lost_replies;
      // The count has arrived, so only the bridge is late.
      if (kind == Traffic::kBridgeRead || kind == Traffic::kBridgeWrite) note_disruption(kind);
      return;
    }
    auto value = std::make_shared<Result<Answer>>(std::move(answer));
    if (faults.slow > Millis(0)) ++counters.slow_replies;
    timeline_.post_in(delay(), [this, once, value] {
      when_running([once, value] {
        if (const Reply<Answer> reply = std::exchange(*once, nullptr)) reply(std::move(*value));
      });
    });
  }

  void lose_push() {
    ++counters.lost_messages;
    if (watcher != nullptr) watcher->bridge_disrupted();
  }

  // Runs the task in the process: later if it is paused, never if it has ended.
  void when_running(Task task) {
    if (abandoned_) return;
    if (timeline_.now().mono >= paused_until_) return task();
    // In the order of arrival.
    woken_ = std::max(woken_ + Nanos(1), paused_until_);
    timeline_.post_at(woken_, [this, task = std::move(task)] {
      if (!abandoned_) task();
    });
  }

  Millis delay() {
    return faults.slow +
           Millis(random_.between(faults.least_delay.count(), faults.most_delay.count()));
  }

  Timeline& timeline_;
  Random random_;
  std::optional<MonoTime> silent_since_;  // the first message that was lost to silence
  MonoTime broken_until_{};
  MonoTime held_until_{};
  MonoTime last_held_until_{};  // of all broken connections
  MonoTime last_arrival_{};     // of all messages so far
  MonoTime last_push_{};        // the arrival of the last message from the origin
  MonoTime paused_until_{};
  MonoTime woken_{};  // when the last message of a paused process is delivered
  uint64_t epoch_ = 1;
  bool abandoned_ = false;
};

}  // namespace weir::sim
