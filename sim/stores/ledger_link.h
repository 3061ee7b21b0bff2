// The link from one process to the ledger. Messages have delays, get lost in either direction and
// arrive twice; calls fail as in a deadlock; a lagging replica answers, or a reply is incomplete; a
// row is rejected as invalid. During an outage calls fail at once, or are never answered.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/faults/link_faults.h"
#include "sim/random.h"
#include "sim/stores/watched_ledger.h"
#include "sim/timeline.h"

namespace weir::sim {

// Bugs that a test plants here. The process then behaves as if it had them.
enum class LedgerBug : uint8_t {
  kNone,
  kAddsForeign,      // rows also contain the counts of other regions
  kOwnAsForeign,     // the rows of other regions also contain the own counts
  kSumsChanges,      // a changed row is added to its earlier value
  kIgnoresLeaseEnd,  // the lease ends for others, but never for the process
  kShortensLeases,   // the lease of a row ends one window too early
  kHidesRegions,     // the process sees no other region
  kHidesLimits,      // the smaller limit of another region is not delivered
  kFalseAcks,        // reports rows as written now and then that are not
  kDropsChanges,     // delivers no change
};

struct LedgerCounters {
  uint64_t lost_replies = 0;  // although the call was committed
  uint64_t cut = 0;
  uint64_t stale = 0;
  uint64_t rejected = 0;
  uint64_t gaps = 0;        // replies with a missing batch
  uint64_t full_reads = 0;  // reads of all rows of a region
};

// Observes the node's end of the link.
class LedgerWatcher {
 public:
  virtual ~LedgerWatcher() = default;
  // A message is lost, late or fails.
  virtual void disrupted() {}
  // The ledger rejected rows as invalid.
  virtual void rejected(const std::vector<LedgerRow>&) {}
  // Messages that leave the node, and those that reach it.
  virtual void sent(const std::vector<LedgerRow>&) {}
  virtual void received(const std::vector<LedgerRow>&) {}
  // The ledger has committed a batch of the node.
  virtual void committed() {}
};

// Belongs to the timeline.
class LedgerLink final : public GlobalLedger {
 public:
  LedgerLink(Timeline& timeline, WatchedLedger& ledger, LedgerUser user, uint64_t seed)
      : timeline_(timeline),
        ledger_(ledger),
        store_(ledger.another_connection()),
        user_(std::move(user)),
        random_(seed) {}

  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override;
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override;
  void read_page(std::string region, LedgerPosition position, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;
  [[nodiscard]] bool reachable() const override {
    if (!detects_refusal || faults.connectivity != Connectivity::kRefused) return true;
    note_disruption();
    return false;
  }

  // The process does not run until then; it receives the replies that arrive meanwhile at that
  // time.
  void pause_until(MonoTime then) { paused_until_ = then; }
  // The process has ended. Messages that it sent still arrive; replies are dropped.
  void abandon() {
    abandoned_ = true;
    watcher = nullptr;
  }

  LedgerFaults faults;
  LedgerCounters counters;
  LedgerWatcher* watcher = nullptr;
  LedgerBug bug = LedgerBug::kNone;
  bool detects_refusal = false;  // the process knows when calls are refused, and makes none
  std::string rejected_name;     // rows of this identifier are rejected as invalid

 private:
  template <typename Answer>
  using Reply = std::function<void(Result<Answer>)>;
  template <typename Answer>
  using Call = std::function<void(const Reply<Answer>&)>;
  enum class Write : uint8_t { kNo, kRows };

  template <typename Answer>
  void send(Call<Answer> call, Reply<Answer> reply, Write write = Write::kNo);
  template <typename Answer>
  void send_reply(const std::shared_ptr<Reply<Answer>>& once, Result<Answer> answer);
  [[nodiscard]] std::shared_ptr<GlobalLedger> read_from();
  [[nodiscard]] bool is_rejected(const std::vector<LedgerRow>& rows) const;
  [[nodiscard]] bool accepts(const std::vector<LedgerRow>& rows) const;
  void receive(const std::vector<RegionFeed>& after, FeedChanges& changes);
  void cut(FeedChanges& changes);
  void deliver(std::vector<LedgerRow>& rows);
  void plant_in_feeds(const std::vector<RegionFeed>& after, FeedChanges& changes);
  void plant_in_rows(std::vector<LedgerRow>& rows);
  [[nodiscard]] FeedPosition ack_falsely(const FeedPosition& known) const;

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
  MonoTime paused_until_{};
  bool abandoned_ = false;
  // For planted bugs: the largest counts that this process received and sent.
  std::map<RowId, Count> received_;
  std::map<CellId, Count> sent_;
};

}  // namespace weir::sim
