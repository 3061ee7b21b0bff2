// The allowance: what a process admits by itself between two reads of the origin.
//
// A process that has read the counts of its region may admit a quarter of its share of the
// remaining limit without asking: (limit - counts) / 4n with n processes. Everything else asks the
// origin for admission by a step, which never exceeds the limit. So when the counts at the origin
// reach the limit, all processes together hold at most a quarter of it that the origin does not
// know: a region admits at most 1.25 times the limit, whatever the requests (tested).
//
// The bound depends on n. A process that has just joined has no allowance until all others have
// heard of it and no older allowance is valid; one whose heartbeats are not acknowledged has none
// either. After a process left, n stays for an hour.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/atomic.h"
#include "base/mutation.h"
#include "base/wide.h"
#include "weir/origin.h"
#include "weir/time.h"

namespace weir::regional {

// A process holds at most one part in so many of its share of the remaining limit.
inline constexpr uint64_t kAllowanceParts = 4;
// A smaller allowance is not worth its bookkeeping: the process asks.
inline constexpr Count kSmallestAllowance = 2;

// The rule for one request. With 0 parts nothing is bounded: the request is relaxed.
struct Allowance {
  uint64_t parts = 0;  // of the remaining limit; 4n

  // `taken`: what this process will have admitted beyond what it last told the origin, this request
  // included. `left`: the limit, less that and all counts known of others.
  [[nodiscard]] bool covers(Count taken, Count left) const {
    if (base::mutated(base::Mutation::kAllowanceOfWholeRemainder)) {
      return taken * parts / kAllowanceParts <= left;
    }
    // The second product does not overflow, whatever the parts.
    return taken * parts <= left && kSmallestAllowance * parts <= left;
  }
};

// The number of parts, for as long as it is valid, in one word that every request reads.
//
//   bits 16-63  until (monotonic ms)
//   bits 0-15   parts
//
// Safe from any thread; update() from one at a time.
class AllowanceTerm {
 public:
  static constexpr Nanos kHeartbeatValid = std::chrono::seconds(2);
  // What a process admitted before it died and did not tell stays part of the bound for the rest of
  // the window: n does not fall for so long.
  static constexpr Nanos kNodesRemembered = std::chrono::hours(1);
  // Heartbeats of others are that far apart.
  static constexpr Nanos kHeardWithin = std::chrono::seconds(1);

  // None: the process has no allowance now.
  [[nodiscard]] std::optional<Allowance> at(MonoTime now) const {
    const uint64_t word = word_.load(std::memory_order_acquire);
    if (word >> kUntilShift <= millis(now)) {
      if (base::mutated(base::Mutation::kAloneBeforeHeartbeat)) return Allowance{kAllowanceParts};
      if (!base::mutated(base::Mutation::kAllowanceWithoutExpiry) || (word & kPartsMask) == 0) {
        return std::nullopt;
      }
    }
    return Allowance{.parts = word & kPartsMask};
  }
  // The last one, also after its end.
  [[nodiscard]] Allowance last() const {
    return {.parts = word_.load(std::memory_order_acquire) & kPartsMask};
  }

  // `longest`: how long a read stays fresh, at most.
  void update(const Membership& membership, MonoTime now, Nanos longest) {
    note_nodes(membership.nodes, now, std::max<Nanos>(2 * longest, kNodesRemembered));
    const uint64_t parts = std::min(kAllowanceParts * most_nodes_.front().nodes, kPartsMask);
    const bool settled = membership.heard_at - membership.since >= longest + kHeardWithin;
    const uint64_t until = settled ? millis(membership.heard_at + kHeartbeatValid) : 0;
    word_.store(until << kUntilShift | parts, std::memory_order_release);
  }

 private:
  static constexpr int kUntilShift = 16;
  static constexpr uint64_t kPartsMask = (uint64_t{1} << kUntilShift) - 1;
  struct Nodes {
    uint64_t nodes = 1;
    MonoTime heard_at{};
  };

  [[nodiscard]] static uint64_t millis(MonoTime time) {
    return static_cast<uint64_t>(time.time_since_epoch() / Millis(1));
  }
  // Keeps the numbers that are the largest since they were heard.
  void note_nodes(uint64_t nodes, MonoTime now, Nanos kept) {
    while (!most_nodes_.empty() && most_nodes_.back().nodes <= nodes) most_nodes_.pop_back();
    most_nodes_.push_back({.nodes = nodes, .heard_at = now});
    while (now - most_nodes_.front().heard_at > kept) most_nodes_.pop_front();
  }

  base::Atomic<uint64_t> word_{0};
  std::deque<Nodes> most_nodes_;  // decreasing
};

}  // namespace weir::regional
