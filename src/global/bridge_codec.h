// The messages of the bridge to the processes of its region, and the state that it saves for the
// next bridge, as bytes.
//
// A decoder returns none for bytes that are no encoding, or one with impossible values.

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "global/regions.h"
#include "weir/origin.h"

namespace weir::global {

struct TupleChange {
  std::string tuple;  // encoded
  std::vector<RegionCount> counts;
  friend bool operator==(const TupleChange&, const TupleChange&) = default;
};

// Changes of many tuples, each tuple once.
class ChangeSet {
 public:
  void add(const std::string& tuple, RegionCount count) {
    const auto [found, is_new] = index_.emplace(tuple, changes_.size());
    if (is_new) changes_.push_back({.tuple = tuple, .counts = {}});
    changes_[found->second].counts.push_back(std::move(count));
  }
  [[nodiscard]] const std::vector<TupleChange>& changes() const { return changes_; }
  [[nodiscard]] std::vector<TupleChange> take() {
    index_.clear();
    return std::exchange(changes_, {});
  }

 private:
  std::unordered_map<std::string, size_t> index_;
  std::vector<TupleChange> changes_;
};

struct BridgeNotice {
  Regions regions;
  Millis import_age{0};  // since the last successful read of the feeds was requested
  Millis fleet_age{0};   // since the last successful heartbeat was sent
  std::vector<TupleChange> changes;
  friend bool operator==(const BridgeNotice&, const BridgeNotice&) = default;
};

struct BridgeState {
  // Chosen anew, and greater, whenever counts may be missing: the position of a feed is valid for
  // one of them.
  uint64_t id = 0;
  uint64_t evicted = 0;  // BridgeGrant::evicted when the id was chosen
  bool emptied = false;  // the store was empty then, and does not have the counts of our own rows
  // The positions of the feeds, by region: all rows up to there are at the origin.
  std::map<std::string, FeedPosition> cursors;
  friend bool operator==(const BridgeState&, const BridgeState&) = default;
};

// A record of a process that has counts from before the store lost its data, and replays them.
struct SurvivorRecord {
  uint64_t incarnation = 0;
};

// A record of the bridge: its next batch has at most this number. Other regions may have read a
// batch that the ledger lost before its writer, which was killed, could keep a record of its rows.
struct ReservationRecord {
  FeedPosition at;
};

[[nodiscard]] std::string encode(const SurvivorRecord& record);
[[nodiscard]] std::string encode(const ReservationRecord& record);
[[nodiscard]] std::string encode(const BridgeNotice& notice);
[[nodiscard]] std::string encode(const BridgeState& state);
// Which of some tuples are wanted. It gets many at once, because it looks for each of them in a
// large table.
using WantedTuples = std::function<std::vector<bool>(std::span<const std::string_view> tuples)>;
// Changes of tuples that are not wanted are left out, and their counts are not checked; most tuples
// of a notice are of no interest to a process.
[[nodiscard]] std::optional<BridgeNotice> decode_notice(std::string_view bytes,
                                                        const WantedTuples& wanted = nullptr);
[[nodiscard]] std::optional<SurvivorRecord> decode_survivor(std::string_view bytes);
[[nodiscard]] std::optional<ReservationRecord> decode_reservation(std::string_view bytes);
[[nodiscard]] std::optional<BridgeState> decode_state(std::string_view bytes);

}  // namespace weir::global
