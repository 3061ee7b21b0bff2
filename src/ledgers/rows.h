// Rules for the rows and the feeds of a ledger.
//
// A store rejects rows that its columns cannot hold, and accepts all others. A reader is stricter:
// other programs and other versions may write to the store, and one invalid count would close a
// limit in all regions.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/ledger.h"

namespace weir::ledgers {

inline constexpr size_t kMaxRegionBytes = 64;
inline constexpr Count kMaxCount = (Count{1} << 44) - 2;  // the largest count of a cell in memory

// A batch has at most this number of rows. A reply of read_feeds() ends with the batch that reaches
// it.
inline constexpr size_t kMaxFeedRows = 50'000;
inline constexpr size_t kRowsPerPage = 5'000;
// A region without a heartbeat for so long has no live cell left.
inline constexpr Millis kRegionRetention{31LL * 24 * 3600 * 1000};
static_assert(kRegionRetention > kMaxDuration);
// Only the holder of this lease deletes expired rows.
inline constexpr Millis kCleaningLease{30'000};

// Returns an error if the batch is too large, or one that names the first row that no store can
// hold in the feed of `region`; null if all fit.
[[nodiscard]] std::unique_ptr<Error> find_unstorable(const std::string& region,
                                                     const std::vector<LedgerRow>& rows);

// False for values that no region can have written.
[[nodiscard]] bool is_valid(const LedgerRow& row);
[[nodiscard]] bool is_valid(const SyncRules& rules);

// The names and the duration in one string, different for every tuple.
[[nodiscard]] std::string identity_of(const LedgerKey& key);

// An epoch is a time in ms, followed by this number of random bits.
inline constexpr int kEpochRandomBits = 20;
inline constexpr uint64_t kEpochRandomMask = (uint64_t{1} << kEpochRandomBits) - 1;
// Larger than any epoch and any number of a feed. A store can add one to it.
inline constexpr uint64_t kFeedPositionEnd = uint64_t{1} << 62;

// A position that a feed can have. Any other is unknown, even if it was saved as known.
[[nodiscard]] inline FeedPosition known_position(FeedPosition known) {
  const bool possible = known.epoch < kFeedPositionEnd && known.number < kFeedPositionEnd;
  return possible ? known : FeedPosition{};
}

// The contents of a LedgerPosition: the last row of the previous page.
struct PageCursor {
  std::string key = {};  // of the tuple, in the order of the store
  int64_t sequence = 0;
};
[[nodiscard]] LedgerPosition encode(const PageCursor& cursor);
// An empty position is the beginning. Returns none for a position that encode() did not produce.
[[nodiscard]] std::optional<PageCursor> decode(const LedgerPosition& position);

[[nodiscard]] Error bad_position();

}  // namespace weir::ledgers
