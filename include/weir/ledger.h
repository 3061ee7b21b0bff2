// The global ledger: the store through which regions share their counts.
//
// One row per cell and region, a grow-only counter again: a region writes only its own rows,
// as absolute totals, and what it heard from others it never writes. So a row may be written
// again, late, or by several processes of a region: the largest count stands.

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
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

// A tuple of the window class, in words: what a store keeps, and what a person can read there.
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

  // From then on the cell can influence no decision.
  [[nodiscard]] WallTime expires_at() const { return WallTime((sequence + 2) * key.duration); }
};

// A region says that it counts on a tuple, and so wants to hear of others who do.
struct LedgerPresence {
  LedgerKey key;
  std::string region;
  WallTime until{};
};

struct LedgerNews {
  std::vector<LedgerRow> rows;
  std::vector<LedgerPresence> presences;
};

// How far before its cursor a read of changes begins. A row may become visible later than its stamp
// says, after newer ones: by as long as its transaction takes.
enum class LookBack : uint8_t {
  kNone,   // not at all: for the rest of an answer
  kShort,  // as long as nearly all take: half a second
  kLong,   // as long as any may: five seconds
};

// A moment of the store's own clock, in ms.
struct LedgerCursor {
  int64_t position = 0;
  LookBack look_back = LookBack::kLong;
};

struct LedgerChanges {
  LedgerNews news;
  LedgerCursor next;  // before the cursor asked with: the store went back in time
  // There were more than one answer holds: where to ask for the rest. What is there twice merges.
  std::optional<LedgerCursor> rest = {};
  bool cut = false;      // more, and at one moment, than one answer holds: read everything instead
  uint64_t invalid = 0;  // rows that no region can have meant; left out
};

// A position in a read of everything. Opaque; empty: at the beginning.
struct LedgerPosition {
  std::string after;
};

struct LedgerPage {
  LedgerNews news;
  LedgerPosition next;
  bool last = true;
  uint64_t invalid = 0;
};

// When a region tells others what it counted.
enum class PublishPolicy : uint8_t {
  kBounded,  // by what others could do in ignorance: over-admission has a bound
  kFloor,    // from a part of the limit on, at fixed intervals: for comparison
};
[[nodiscard]] std::string_view to_string(PublishPolicy policy);

// What all regions must agree on; kept in the ledger, one truth for the fleet.
struct SyncRules {
  PublishPolicy policy = PublishPolicy::kBounded;
  uint32_t hidden_permille = 250;  // of a limit: what all others together may not have told yet
  uint32_t slack_permille = 100;   // of a limit: what may be admitted beyond it
  Millis lease{600'000};           // how long a presence holds; see shortest_lease()
  Millis publish_every{100};
  Millis import_every{250};
  uint32_t rows_per_second = 500;  // of one region
  uint32_t floor_permille = 500;   // kFloor only
  friend bool operator==(const SyncRules&, const SyncRules&) = default;
};

// A region takes its own lease for over sooner than the others do: by twice as long as its news may
// take to reach them, and as clocks may differ.
[[nodiscard]] constexpr Millis lease_margin(const SyncRules& rules) {
  constexpr Millis kUsual{5000};
  if (rules.policy == PublishPolicy::kFloor) return kUsual;  // which needs no presences
  return std::max(kUsual, 2 * (rules.publish_every + rules.import_every + Millis(1000)));
}

// What is left of the shortest lease after its margin is two seconds: a key that is in use then
// costs 30 rows a minute. A lease within its margin would be over when it begins, and be told again
// each publish_every.
inline constexpr Millis kMinLease{7000};
[[nodiscard]] constexpr Millis shortest_lease(const SyncRules& rules) {
  return lease_margin(rules) + Millis(2000);
}
static_assert(shortest_lease({}) == kMinLease);

// A region as the ledger knows it.
struct LedgerRegion {
  std::string region;
  uint64_t hidden_ppm = 0;  // millionths of a limit that it may count before it tells
  Millis silent{0};         // since a process of it last attended; set by the ledger
};

// For so long the ledger keeps the most that any process of a region said to be hidden: one that is
// well does not speak for a sibling that is not.
inline constexpr Millis kHiddenKept{15'000};

struct LedgerFleet {
  std::vector<LedgerRegion> regions;
  SyncRules rules;
};

struct LedgerCleaning {
  size_t deleted = 0;
  bool ours = false;  // whether it is this process that cleans now
};

using PublishReply = std::function<void(Result<size_t>)>;  // rows committed
using ChangesReply = std::function<void(Result<LedgerChanges>)>;
using PageReply = std::function<void(Result<LedgerPage>)>;
using FleetReply = std::function<void(Result<LedgerFleet>)>;
using CleaningReply = std::function<void(Result<LedgerCleaning>)>;

// Safe from any thread. A reply is delivered at most once, on any thread, possibly before the
// call returns; every caller keeps its own deadline. Errors with the field "rows" blame the rows:
// sending some of them without the others may help. With Retry::kPointless one of them will never
// be taken; with Retry::kMayHelp somebody else holds one of them now.
class GlobalLedger {
 public:
  virtual ~GlobalLedger() = default;

  // Raises each row to at least `count`, its limit to at most `limit_seen`, each presence to at
  // least `until`. All commit or none; after an error any may have.
  virtual void publish(LedgerNews news, PublishReply reply) = 0;

  // What changed after the cursor, of all regions; possibly some from before it.
  virtual void changes_since(LedgerCursor cursor, ChangesReply reply) = 0;

  // Everything that has not expired, page by page.
  virtual void read_page(LedgerPosition place, PageReply reply) = 0;

  // Says that a region is there and what it hides, and hears which are. The first ever to come
  // decides the rules.
  virtual void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) = 0;

  // Deletes some of what has expired, at most `most` rows, if no other process does so now.
  virtual void clean(size_t most, CleaningReply reply) = 0;

  // False: asking is known to be in vain for now.
  [[nodiscard]] virtual bool reachable() const { return true; }
};

// The ledger of a lone region: takes every row, tells of none.
[[nodiscard]] std::shared_ptr<GlobalLedger> make_null_ledger();

}  // namespace weir
