// The global ledger: the store through which regions share their counts.
//
// One row per cell and region, again a grow-only counter: a region writes only its own rows, as
// absolute totals, and never the counts of others. So a row may be written again, late, or by
// several processes of a region: the largest count wins.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/error.h"
#include "weir/export.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

// A tuple of the window class, in readable form, as a store keeps it.
struct LedgerKey {
  std::string workspace;
  std::string ns;
  std::string identifier;
  Millis duration{0};
  friend auto operator<=>(const LedgerKey&, const LedgerKey&) = default;
};

struct LedgerRow {
  LedgerKey key;
  int64_t sequence = 0;
  std::string region;
  Count count = 0;
  Count limit_seen = 0;  // the smallest limit the region saw on the tuple

  // From this time on the cell can influence no decision.
  [[nodiscard]] WallTime expires_at() const { return WallTime((sequence + 2) * key.duration); }
};

// A region counts on a tuple until this time, and needs the counts of other regions that do.
struct LedgerPresence {
  LedgerKey key;
  std::string region;
  WallTime until{};
};

struct LedgerNews {
  std::vector<LedgerRow> rows;
  std::vector<LedgerPresence> presences;
};

// How far before its cursor a read of changes begins. A row becomes visible when its transaction
// commits, which may be after newer rows.
enum class LookBack : uint8_t {
  kNone,   // at the cursor: for the next page of a reply
  kShort,  // half a second: nearly all transactions
  kLong,   // five seconds: all transactions
};

// A time of the store's own clock, in ms.
struct LedgerCursor {
  int64_t position = 0;
  LookBack look_back = LookBack::kLong;
};

struct LedgerChanges {
  LedgerNews news;
  LedgerCursor next;  // before the requested cursor: the store's clock was set back
  // The reply is incomplete: where to read the rest. Duplicate rows merge.
  std::optional<LedgerCursor> rest = {};
  bool cut = false;      // too many rows of one moment for a reply: read all pages instead
  uint64_t invalid = 0;  // rows with impossible values, left out
};

// A position in a read of all rows. Opaque; empty: the beginning.
struct LedgerPosition {
  std::string after;
};

struct LedgerPage {
  LedgerNews news;
  LedgerPosition next;
  bool last = true;
  uint64_t invalid = 0;
};

// When a region publishes its counts.
enum class PublishPolicy : uint8_t {
  kBounded,  // before unpublished counts could exceed the bound on over-admission
  kFloor,    // above a part of the limit, at fixed intervals; for comparison
};
[[nodiscard]] WEIR_EXPORT std::string_view to_string(PublishPolicy policy);

// Settings that all regions must share; stored in the ledger.
struct SyncRules {
  PublishPolicy policy = PublishPolicy::kBounded;
  uint32_t hidden_permille = 250;  // of a limit: unpublished counts of all other regions together
  uint32_t slack_permille = 100;   // of a limit: admissions beyond it
  Millis lease{600'000};           // validity of a presence; see shortest_lease()
  Millis publish_every{100};
  Millis import_every{250};
  uint32_t rows_per_second = 500;  // per region
  uint32_t floor_permille = 500;   // kFloor only
  friend bool operator==(const SyncRules&, const SyncRules&) = default;
};

// A region renews its lease this long before the others consider it expired: twice the time that a
// row needs to reach them, and at least the difference between clocks.
[[nodiscard]] constexpr Millis lease_margin(const SyncRules& rules) {
  constexpr Millis kUsual{5000};
  if (rules.policy == PublishPolicy::kFloor) return kUsual;  // no presences
  return std::max(kUsual, 2 * (rules.publish_every + rules.import_every + Millis(1000)));
}

// The shortest lease leaves two seconds after its margin: a key in use then costs 30 rows a minute.
// A lease within its margin would expire at once, and be published again each publish_every.
inline constexpr Millis kMinLease{7000};
[[nodiscard]] constexpr Millis shortest_lease(const SyncRules& rules) {
  return lease_margin(rules) + Millis(2000);
}
static_assert(shortest_lease({}) == kMinLease);

// A region as stored in the ledger.
struct LedgerRegion {
  std::string region;
  uint64_t hidden_ppm = 0;  // millionths of a limit that it may count before it publishes
  Millis silent{0};         // since the last heartbeat of one of its processes; set by the ledger
};

// The ledger keeps the largest `hidden_ppm` of all processes of a region for this long: a healthy
// process does not hide the state of a failing one.
inline constexpr Millis kHiddenKept{15'000};

struct LedgerFleet {
  std::vector<LedgerRegion> regions;
  SyncRules rules;
};

struct LedgerCleaning {
  size_t deleted = 0;
  bool ours = false;  // whether this process holds the lease for cleaning
};

using PublishReply = std::function<void(Result<size_t>)>;  // rows committed
using ChangesReply = std::function<void(Result<LedgerChanges>)>;
using PageReply = std::function<void(Result<LedgerPage>)>;
using FleetReply = std::function<void(Result<LedgerFleet>)>;
using CleaningReply = std::function<void(Result<LedgerCleaning>)>;

// Safe from any thread. A reply is delivered at most once, on any thread, possibly before the call
// returns; every caller has its own deadline. An error with the field "rows" concerns some of the
// rows: sending the others alone may succeed. With Retry::kPointless one row will never be
// accepted; with Retry::kMayHelp another transaction holds a lock on one.
class WEIR_EXPORT GlobalLedger {
 public:
  virtual ~GlobalLedger() = default;

  // Raises each row to at least `count`, its limit to at most `limit_seen`, each presence to at
  // least `until`. All commit or none; after an error any may have.
  virtual void publish(LedgerNews news, PublishReply reply) = 0;

  // Rows of all regions that changed after the cursor, possibly with some older ones.
  virtual void changes_since(LedgerCursor cursor, ChangesReply reply) = 0;

  // All rows that have not expired, page by page.
  virtual void read_page(LedgerPosition position, PageReply reply) = 0;

  // Reports that a region is alive and how much it has not published; the reply lists all regions.
  // The first heartbeat ever sets the rules.
  virtual void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) = 0;

  // Deletes at most `most` expired rows, unless another process cleans now.
  virtual void clean(size_t most, CleaningReply reply) = 0;

  // False: known to be unreachable now.
  [[nodiscard]] virtual bool reachable() const { return true; }
};

// A ledger that accepts every row and returns none, for a single region.
[[nodiscard]] WEIR_EXPORT std::shared_ptr<GlobalLedger> make_null_ledger();

}  // namespace weir
