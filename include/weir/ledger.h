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

// The count of one region in one window of a tuple.
struct LedgerRow {
  LedgerKey key;
  int64_t sequence = 0;
  std::string region;
  Count count = 0;
  Count limit_seen = 0;  // the smallest limit the region saw on the tuple
  // The lease of the region on the tuple: it counts there, and needs the counts of the other
  // regions that do, in every window that ends by then. The end of a window.
  WallTime leased_until{};

  // From this time on the cell can influence no decision.
  [[nodiscard]] WallTime expires_at() const { return WallTime((sequence + 2) * key.duration); }
  // A store keeps the row until then. A lease also matters in the window after its end, for what
  // was counted in its last one.
  [[nodiscard]] WallTime kept_until() const {
    const WallTime lease = std::min(leased_until, WallTime::max() - key.duration);
    return std::max(expires_at(), lease + key.duration);
  }
  friend bool operator==(const LedgerRow&, const LedgerRow&) = default;
};

// The feed of a region: each batch of rows that the region published, numbered from 1 without gaps
// in the order of the commits.
//
// A feed begins a new epoch when the ledger may have lost a part of it. Epochs are times of the
// store with random low bits: a later one is larger, and no number is used twice. Only if the
// ledger lost a batch that the region did not know of, the next one has its number; it has no rows.
struct FeedPosition {
  uint64_t epoch = 0;  // 0: unknown
  uint64_t number = 0;
  friend auto operator<=>(const FeedPosition&, const FeedPosition&) = default;
};

struct RegionFeed {
  std::string region;
  FeedPosition at;
};

struct FeedBatch {
  std::string region;
  FeedPosition at;
  std::vector<LedgerRow> rows;
};

struct FeedChanges {
  std::vector<RegionFeed> heads;  // the last batch of each region
  // For each requested feed whose epoch is that of its head: the batches after the requested
  // position, in order. Those of old batches may be missing; see kFeedKept.
  std::vector<FeedBatch> batches;
  bool more = false;     // the reply is incomplete: read on
  uint64_t invalid = 0;  // rows with impossible values, left out
};

// The ledger keeps a batch of a feed for this long. A reader that is further behind reads all rows
// of the region.
inline constexpr Millis kFeedKept{600'000};

// A position in a read of all rows. Opaque; empty: the beginning.
struct LedgerPosition {
  std::string after;
};

struct LedgerPage {
  std::vector<LedgerRow> rows;
  // The last batch of the region's feed, at the moment of the rows. The next page may be of another
  // moment, also of an earlier one: a lagging replica may answer.
  FeedPosition head;
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
  uint32_t unpublished_permille = 250;  // of a limit, by all other regions together
  uint32_t slack_permille = 100;        // of a limit: admissions beyond it
  Millis lease{600'000};                // on a tuple, at least
  Millis publish_every{100};
  Millis import_every{100};
  uint32_t rows_per_second = 10'000;  // of all regions together
  uint32_t floor_permille = 500;      // kFloor only
  friend bool operator==(const SyncRules&, const SyncRules&) = default;
};

// Shorter leases would cost a row per tuple and second.
inline constexpr Millis kMinLease{7000};

// A namespace in which a region may count more than elsewhere before it publishes.
struct NamespaceReport {
  std::string workspace;
  std::string ns;
  uint64_t unpublished_ppm = 0;
  friend bool operator==(const NamespaceReport&, const NamespaceReport&) = default;
};
// A region reports at most this number of namespaces. The others count as its worst.
inline constexpr size_t kMaxReportedNamespaces = 16;

// A region as stored in the ledger.
struct LedgerRegion {
  std::string region;
  // Millionths of a limit that it may count before it publishes, in all namespaces that are not
  // listed.
  uint64_t unpublished_ppm = 0;
  std::vector<NamespaceReport> namespaces = {};
  // A heartbeat: whether the bridge of the region sent it. Only that shows that the region is
  // alive.
  bool by_bridge = true;
  Millis silent{0};  // since the last heartbeat of its bridge; set by the ledger

  [[nodiscard]] uint64_t unpublished_in(std::string_view workspace, std::string_view ns) const {
    for (const NamespaceReport& each : namespaces) {
      if (each.workspace == workspace && each.ns == ns) {
        return std::max(each.unpublished_ppm, unpublished_ppm);
      }
    }
    return unpublished_ppm;
  }
};

// The ledger keeps the largest `unpublished_ppm` of all processes of a region for this long, at
// least, and for twice as long at most, for each namespace: a healthy process does not hide the
// state of a failing one.
inline constexpr Millis kUnpublishedKept{15'000};

struct LedgerFleet {
  std::vector<LedgerRegion> regions;
  SyncRules rules;
  WallTime now{};  // by the clock of the ledger; the epoch: unknown
};

struct LedgerCleaning {
  size_t deleted = 0;
  bool ours = false;  // whether this process holds the lease for cleaning
};

using PublishReply = std::function<void(Result<FeedPosition>)>;  // of the batch
using FeedReply = std::function<void(Result<FeedChanges>)>;
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

  // Raises each row to at least `count`, its limit to at most `limit_seen`, its lease to at least
  // `leased_until`, and appends the rows to the feed of the region as the next batch. All rows are
  // of `region`. All commit or none. Without a reply, or after ErrorCode::kTimeout, all may have.
  //
  // `known` is the last batch of the feed that the caller knows. If it is unknown, or the feed ends
  // before it, the feed begins a new epoch, which is larger than both.
  virtual void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
                       PublishReply reply) = 0;

  // The heads of all feeds, and what follows the given positions; all of one moment.
  virtual void read_feeds(std::vector<RegionFeed> after, FeedReply reply) = 0;

  // All rows of a region that are still kept, page by page. The rows of a page and its head are of
  // one moment: the rows contain all batches up to that head, and the feed has what follows.
  virtual void read_page(std::string region, LedgerPosition position, PageReply reply) = 0;

  // Reports that a region is alive and how much it has not published; the reply lists all regions.
  // The first heartbeat ever sets the rules.
  virtual void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) = 0;

  // Deletes at most `most` expired rows and old batches, unless another process cleans now.
  virtual void clean(size_t most, CleaningReply reply) = 0;

  // False: known to be unreachable now.
  [[nodiscard]] virtual bool reachable() const { return true; }
};

// A ledger that accepts every row and returns none, for a single region.
[[nodiscard]] WEIR_EXPORT std::shared_ptr<GlobalLedger> make_null_ledger();

}  // namespace weir
