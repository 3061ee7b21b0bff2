// The way from one process to the ledger: messages take time, get lost there or back, and arrive
// twice; calls fail as they do where transactions meet; answers come from a replica that lags, or
// hold a part only; a row is refused for what it is. Like a database it can be away: then calls
// fail at once, or nothing is answered.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sim/faults/link_faults.h"
#include "sim/random.h"
#include "sim/stores/watched_ledger.h"
#include "sim/timeline.h"

namespace weir::sim {

// Bugs that a test plants here, to prove that they are found out: the process then behaves as if
// it had them.
enum class LedgerBug : uint8_t {
  kNone,
  kAddsForeign,      // rows hold what was heard from others, too
  kOwnAsForeign,     // our own rows count as those of another region
  kSumsChanges,      // what is told again is added to what was told before
  kIgnoresLeaseEnd,  // our lease never ends for us, but does for others
  kHidesRegions,     // we are taken to be alone
  kHidesLimits,      // the limit that another region saw is not heard of
  kFalseAcks,        // says now and then that rows are written that are not
  kDropsChanges,     // tells of no change
};

struct LedgerCounters {
  uint64_t lost_replies = 0;  // of what was committed all the same
  uint64_t cut = 0;
  uint64_t stale = 0;
  uint64_t rejected = 0;
};

// Sees what happens at the near end.
class LedgerWatcher {
 public:
  virtual ~LedgerWatcher() = default;
  // Something will not arrive as it should.
  virtual void disrupted() {}
  // Rows were refused for what they are.
  virtual void rejected(const LedgerNews&) {}
  // What leaves the near end, and what reaches it.
  virtual void sent(const LedgerNews&) {}
  virtual void received(const LedgerNews&) {}
};

// Lives on the timeline.
class LedgerLink final : public GlobalLedger {
 public:
  LedgerLink(Timeline& timeline, WatchedLedger& ledger, LedgerUser user, uint64_t seed)
      : timeline_(timeline),
        ledger_(ledger),
        store_(ledger.another_connection()),
        user_(std::move(user)),
        random_(seed) {}

  void publish(LedgerNews news, PublishReply reply) override;
  void changes_since(LedgerCursor cursor, ChangesReply reply) override;
  void read_page(LedgerPosition position, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;
  [[nodiscard]] bool reachable() const override {
    if (!detects_refusal || faults.connectivity != Connectivity::kRefused) return true;
    note_disruption();
    return false;
  }

  // Nobody is there any more to hear an answer; what was sent still arrives.
  void abandon() {
    abandoned_ = true;
    watcher = nullptr;
  }

  LedgerFaults faults;
  LedgerCounters counters;
  LedgerWatcher* watcher = nullptr;
  LedgerBug bug = LedgerBug::kNone;
  bool detects_refusal = false;  // that calls are refused, so that none is made
  std::string rejected_name;     // rows of this identifier are refused for what they are

 private:
  template <typename Answer>
  using Reply = std::function<void(Result<Answer>)>;
  template <typename Answer>
  using Call = std::function<void(const Reply<Answer>&)>;

  template <typename Answer>
  void carry(Call<Answer> call, Reply<Answer> reply);
  template <typename Answer>
  void bring_back(const std::shared_ptr<Reply<Answer>>& once, Result<Answer> answer);
  [[nodiscard]] std::shared_ptr<GlobalLedger> read_from();
  [[nodiscard]] bool is_rejected(const LedgerNews& news) const;
  [[nodiscard]] bool takes(const LedgerNews& news) const;
  void deliver(LedgerNews& news);
  void apply_bug(LedgerNews& news) const;

  Millis delay() {
    return faults.slow +
           Millis(random_.between(faults.least_delay.count(), faults.most_delay.count()));
  }
  void note_disruption() const {
    if (watcher != nullptr) watcher->disrupted();
  }

  Timeline& timeline_;
  WatchedLedger& ledger_;
  const std::shared_ptr<GlobalLedger> store_;
  const LedgerUser user_;
  Random random_;
  bool abandoned_ = false;
  std::map<RowId, Count> received_;  // for plants
};

}  // namespace weir::sim
