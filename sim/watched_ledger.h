// The ledger in memory with a witness: remembers every commit and when, and shows it to whoever
// asked to see them. Its clock is its own. It can be read as it was a while ago, and replaced by
// a replica that had not got everything.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ledgers/memory_ledger.h"
#include "sim/row_place.h"
#include "sim/timeline.h"
#include "weir/origin.h"

namespace weir::sim {

// A process of a region, as the ledger meets it.
struct LedgerUser {
  int region = 0;
  int node = 0;
  int life = 0;
  std::string name;  // of the region
};

// What one process wrote, in one piece.
struct Committed {
  const LedgerUser& by;
  const LedgerNews& news;
};

// Lives on the timeline.
class WatchedLedger {
 public:
  using Witness = std::function<void(const Committed&)>;
  WatchedLedger(const Clock& world, SyncRules rules, Witness witness)
      : world_(world), rules_(rules), clock_(world), store_(clock_), witness_(std::move(witness)) {
    store_.set_rules(rules);
  }

  // The store as another process sees it.
  [[nodiscard]] std::shared_ptr<GlobalLedger> seen_by_another() {
    return store_.another_client();
  }
  [[nodiscard]] const SyncRules& rules() const { return rules_; }
  // A region has been here before.
  void know(const std::string& region);

  // Others see it now; its stamp may be older than that, as where commits overtake each other.
  void commit(const LedgerUser& by, const LedgerNews& news, Millis stamped_before,
              const PublishReply& reply);
  // As it was some time ago, by the present clock: a replica that lags. Asking for one time after
  // the other is quick.
  [[nodiscard]] std::shared_ptr<ledgers::MemoryLedger> as_it_was(MonoTime then);

  // A replica takes its place that had not got what was committed since, and whose clock is off by
  // this much.
  void fail_over(MonoTime as_of, Millis skew);
  void set_skew(Millis skew) { clock_.set_skew(skew); }

  // The most that was ever committed, whatever was lost since; and what it has now.
  [[nodiscard]] Count ever(const RowPlace& place) const { return find(ever_, place); }
  [[nodiscard]] Count now_has(const RowPlace& place) const { return find(now_, place); }
  [[nodiscard]] const std::map<RowPlace, Count>& rows_ever() const { return ever_; }
  [[nodiscard]] const std::map<RowPlace, Count>& rows_now() const { return now_; }
  // Until when a region is known to count on a tuple.
  [[nodiscard]] WallTime present_until(const std::string& tuple, const std::string& region) const;

  struct Marks {
    uint64_t crossed = 0;   // two regions said in one round that they are here
    uint64_t renewed = 0;   // a lease ended and was taken anew
    uint64_t repeated = 0;  // written again although it was there
    uint64_t lost = 0;      // rows, by failing over
    uint64_t healed = 0;    // of those, written again
  };
  [[nodiscard]] const Marks& marks() const { return marks_; }

 private:
  struct Commit {
    Instant when{};  // by the store's clock
    MonoTime at{};
    LedgerNews news;
  };
  struct Present {
    WallTime until{};
    MonoTime since{};
  };

  void apply(const Commit& commit, MonoTime at);
  void look_for_marks(const LedgerNews& news);
  template <typename Map>
  static Count find(const Map& map, const RowPlace& place) {
    const auto found = map.find(place);
    return found == map.end() ? 0 : found->second;
  }

  // A clock that shows what it is told, for putting back what was written before.
  class StoreClock final : public Clock {
   public:
    explicit StoreClock(const Clock& world) : world_(world) {}
    [[nodiscard]] Instant now() const override {
      if (fixed_) return *fixed_;
      Instant now = world_.now();
      now.wall += skew_;
      return now;
    }
    void set_skew(Millis skew) { skew_ = skew; }
    void fix(std::optional<Instant> at) { fixed_ = at; }

   private:
    const Clock& world_;
    Millis skew_{0};
    std::optional<Instant> fixed_;
  };

  const Clock& world_;
  const SyncRules rules_;
  StoreClock clock_;
  ledgers::MemoryLedger store_;
  Witness witness_;
  std::vector<std::string> known_;
  std::vector<Commit> log_;
  // The last replica that was asked for, and how much of the log it has.
  std::shared_ptr<ledgers::MemoryLedger> replica_;
  size_t replicated_ = 0;
  std::map<RowPlace, Count> ever_, now_, lost_;
  std::map<std::pair<std::string, std::string>, Present> present_;  // tuple, region
  Marks marks_;
};

}  // namespace weir::sim
