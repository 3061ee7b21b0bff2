// The counters of the front ends of a server: connections, requests and decisions.
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
  kRefused,         // connections beyond the maximum
  kRefusedAddress,  // connections beyond the maximum of one address
  kRefusedMemory,   // connections closed because all buffers together reached their memory limit
  kEvicted,         // idle or unauthenticated connections closed in favour of others
  kTimedOut,        // connections closed because they were idle or slow
  kRequests,
  kBad,             // requests that were malformed or not allowed
  kMissingKey,      // of these, requests without a key,
  kMalformedKey,    // with a malformed key,
  kWrongKey,        // with a wrong key
  kCrossProtocol,   // connections closed because they use the protocol of another front end
  kUnsupported,     // requests for what only other services do: Redis, Upstash, Unkey
  kTlsNotTls,       // handshakes that failed: the client sent something else,
  kTlsCertificate,  // no valid certificate,
  kTlsOther,        // no common version or cipher, an invalid message, an alert, the end
  kCount,
};

struct FrontendMetrics {
  Counters<Decided> decisions;
  Counters<FrontendStat> stats;
  Latency latency;  // from reading a request to writing its answer
  // The client of the last event, encoded by frontends/peer.h.
  std::array<std::atomic<uint64_t>, static_cast<size_t>(FrontendStat::kCount)> last_peer{};
  // Why the last handshake failed; a constant text.
  std::atomic<const char*> last_tls_error{""};

  void add_from(FrontendStat stat, uint64_t peer) {
    stats.add(stat);
    last_peer[static_cast<size_t>(stat)].store(peer, std::memory_order_relaxed);
  }

  void add_decision(Outcome outcome, Basis basis) { decisions.add(decided(outcome, basis)); }
  // An item of a denied batch counts as denied, even if it would have passed alone.
  void add_batch(Outcome batch, std::span<const Verdict> items) {
    for (const Verdict& item : items) {
      const bool denied_with_batch = batch != Outcome::kAdmitted && item.admitted();
      add_decision(denied_with_batch ? Outcome::kDenied : item.outcome, item.basis);
    }
  }

  void add_latency(Nanos each, uint64_t requests) {
    latency.add(each, requests);
    stats.add(FrontendStat::kRequests, requests);
  }
};

}  // namespace weir::telemetry
