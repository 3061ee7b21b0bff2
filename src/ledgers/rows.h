// What a ledger takes from those who write to it, and what of it a reader believes.
//
// A store refuses what its columns cannot hold, and takes the rest as it is. Who reads is
// stricter: a store is open to other hands and other versions, and one absurd count would
// close a limit everywhere.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weir/ledger.h"

namespace weir::ledgers {

inline constexpr size_t kMaxRegionBytes = 64;
inline constexpr Count kMaxCount = (Count{1} << 44) - 2;  // what a cell in memory can hold

// A change is told again for this long: a transaction that began earlier may commit later, and
// none lasts longer.
inline constexpr Millis kOverlap{5000};
// Nearly all last shorter than this.
inline constexpr Millis kShortOverlap{500};
// The first moment that a read from this cursor tells of.
[[nodiscard]] inline Millis first_acked(const LedgerCursor& cursor) {
  const Millis position(cursor.position);
  switch (cursor.look_back) {
    case LookBack::kNone: return position;
    case LookBack::kShort: return position - kShortOverlap;
    case LookBack::kLong: break;
  }
  return position - kOverlap;
}
inline constexpr size_t kMostChanges = 50'000;
// There are more changes than those that were told, which are of `since` to `last`.
inline void leave_rest(Millis since, Millis last, LedgerChanges& changes) {
  if (last <= since) {
    changes.cut = true;
  } else if (!changes.rest || last.count() < changes.rest->position) {
    changes.rest = {.position = last.count(), .look_back = LookBack::kNone};
  }
}
inline constexpr size_t kRowsPerPage = 5'000;
// A region that was not heard of for so long has no cell left that counts.
inline constexpr Millis kRegionKept{31LL * 24 * 3600 * 1000};
static_assert(kRegionKept > kMaxDuration);
// Cleaning is for the one who holds this lease.
inline constexpr Millis kCleaningLease{30'000};

// The first row or presence that no store can hold, as an error that blames it; none if all fit.
[[nodiscard]] std::unique_ptr<Error> find_misfit(const LedgerNews& news);

// False for what no region can have meant.
[[nodiscard]] bool plausible(const LedgerKey& key, const std::string& region);
[[nodiscard]] bool plausible(const LedgerRow& row);
[[nodiscard]] bool plausible(const LedgerPresence& presence);
[[nodiscard]] bool plausible(const SyncRules& rules);

// The names and the duration in one string: different for every tuple.
[[nodiscard]] std::string identity_of(const LedgerKey& key);

// What a LedgerPlace says: the row or presence last given.
struct PagePlace {
  enum class Part : char { kRows = 'r', kPresences = 'p' };
  Part part = Part::kRows;
  std::string key = {};  // of the tuple, in the store's own order
  int64_t sequence = 0;
  std::string region = {};
};
[[nodiscard]] std::string encode(const PagePlace& place);
// The beginning for an empty place; none for what encode() cannot have made.
[[nodiscard]] std::optional<PagePlace> decode(const LedgerPosition& place);

[[nodiscard]] Error bad_place();

}  // namespace weir::ledgers
