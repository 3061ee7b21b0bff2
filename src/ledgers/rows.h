// Rules for the rows of a ledger.
//
// A store rejects rows that its columns cannot hold, and accepts all others. A reader is stricter:
// other programs and other versions may write to the store, and one invalid count would close a
// limit in all regions.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weir/ledger.h"

namespace weir::ledgers {

inline constexpr size_t kMaxRegionBytes = 64;
inline constexpr Count kMaxCount = (Count{1} << 44) - 2;  // the largest count of a cell in memory

// A transaction may commit later than the time in its rows says. So a read starts before its
// cursor: by the longest time that any transaction may take, or by the time that nearly all need.
inline constexpr Millis kLongLookBack{5000};
inline constexpr Millis kShortLookBack{500};
// The first moment that a read from this cursor covers.
[[nodiscard]] inline Millis read_start(const LedgerCursor& cursor) {
  const Millis position(cursor.position);
  switch (cursor.look_back) {
    case LookBack::kNone: return position;
    case LookBack::kShort: return position - kShortLookBack;
    case LookBack::kLong: break;
  }
  return position - kLongLookBack;
}
inline constexpr size_t kMaxChanges = 50'000;
// Marks an answer as incomplete. It holds the changes from `since` to `last`.
inline void mark_truncated(Millis since, Millis last, LedgerChanges& changes) {
  if (last <= since) {
    changes.cut = true;
  } else if (!changes.rest || last.count() < changes.rest->position) {
    changes.rest = {.position = last.count(), .look_back = LookBack::kNone};
  }
}
inline constexpr size_t kRowsPerPage = 5'000;
// A region without a heartbeat for so long has no live cell left.
inline constexpr Millis kRegionRetention{31LL * 24 * 3600 * 1000};
static_assert(kRegionRetention > kMaxDuration);
// Only the holder of this lease deletes expired rows.
inline constexpr Millis kCleaningLease{30'000};

// Returns an error that names the first row or presence that no store can hold; null if all fit.
[[nodiscard]] std::unique_ptr<Error> find_unstorable(const LedgerNews& batch);

// False for values that no region can have written.
[[nodiscard]] bool is_valid(const LedgerKey& key, const std::string& region);
[[nodiscard]] bool is_valid(const LedgerRow& row);
[[nodiscard]] bool is_valid(const LedgerPresence& presence);
[[nodiscard]] bool is_valid(const SyncRules& rules);

// The names and the duration in one string, different for every tuple.
[[nodiscard]] std::string identity_of(const LedgerKey& key);

// The contents of a LedgerPosition: the last row or presence of the previous page.
struct PageCursor {
  enum class Part : char { kRows = 'r', kPresences = 'p' };
  Part part = Part::kRows;
  std::string key = {};  // of the tuple, in the order of the store
  int64_t sequence = 0;
  std::string region = {};
};
[[nodiscard]] std::string encode(const PageCursor& cursor);
// An empty position is the beginning. Returns none for a position that encode() did not produce.
[[nodiscard]] std::optional<PageCursor> decode(const LedgerPosition& position);

[[nodiscard]] Error bad_position();

}  // namespace weir::ledgers
