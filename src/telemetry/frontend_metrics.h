// What the doors of a server count about themselves and about the answers they give.
//
// Safe from any thread.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "telemetry/counters.h"
#include "telemetry/latency.h"
#include "weir/time.h"
#include "weir/verdict.h"

namespace weir::telemetry {

// A decision by outcome and basis.
enum class Decided : uint8_t { kCount = 9 };

[[nodiscard]] constexpr Decided decided(Outcome outcome, Basis basis) {
  return static_cast<Decided>(3 * static_cast<int>(outcome) + static_cast<int>(basis));
}

enum class FrontendStat : uint8_t {
  kOpened,  // connections
  kClosed,
  kRefused,         // connections beyond the most allowed
  kRefusedAddress,  // connections beyond the most allowed for one address
  kRefusedMemory,   // connections closed because the buffers of all used up their memory
  kEvicted,         // connections of strangers closed to make room for others
  kTimedOut,        // connections closed for silence or slowness
  kRequests,
  kBad,            // requests that could not be understood or were not allowed
  kMissingKey,     // of these, those without a key,
  kMalformedKey,   // with something that is no key,
  kWrongKey,       // with a wrong key
  kCrossProtocol,  // connections closed because they speak the protocol of another front end
  kCount,
};

struct FrontendMetrics {
  Counters<Decided> decisions;
  Counters<FrontendStat> stats;
  Latency latency;  // from the time requests were read to the time they were answered
  // The client that was counted last, as frontends/peer.h writes it.
  std::array<std::atomic<uint64_t>, static_cast<size_t>(FrontendStat::kCount)> last_peer{};

  void add_from(FrontendStat stat, uint64_t peer) {
    stats.add(stat);
    last_peer[static_cast<size_t>(stat)].store(peer, std::memory_order_relaxed);
  }

  void add_decision(Outcome outcome, Basis basis) { decisions.add(decided(outcome, basis)); }
  // What of a refused batch would have passed alone was refused all the same.
  void add_batch(Outcome batch, std::span<const Verdict> items) {
    for (const Verdict& item : items) {
      const bool refused_with_it = batch != Outcome::kAdmitted && item.admitted();
      add_decision(refused_with_it ? Outcome::kDenied : item.outcome, item.basis);
    }
  }

  void add_latency(Nanos each, uint64_t requests) {
    latency.add(each, requests);
    stats.add(FrontendStat::kRequests, requests);
  }
};

}  // namespace weir::telemetry
