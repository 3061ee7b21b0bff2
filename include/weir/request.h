// One request to the limiter, and the choices it can make.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/export.h"
#include "weir/time.h"

namespace weir {

// An amount of cost.
using Count = uint64_t;

// How usage is compared with the limit; docs/algorithms.md has the contract of each.
enum class Algorithm : uint8_t {
  kSlidingWindow,        // this window plus the weighted part of the previous one
  kSlidingWindowStrict,  // 16 sub-windows: never above the limit in any trailing window
  kFixedWindow,          // restarts at each multiple of the duration
  kSlidingLog,           // exact, one stamp per unit of cost; limit <= 10,000
  kGcra,                 // a steady rate with a burst
  kTokenBucket,          // the same decisions as kGcra, described as tokens
};

inline constexpr int kAlgorithmCount = 6;

// "sliding_window", "gcra", ...: the same name in code, configuration and metrics.
[[nodiscard]] WEIR_EXPORT std::string_view to_string(Algorithm algorithm);
[[nodiscard]] WEIR_EXPORT std::optional<Algorithm> algorithm_from(std::string_view name);

// The policy while the origin is unreachable and the counts in memory are stale.
enum class OnOriginLoss : uint8_t {
  kLocal,  // decide on the counts in memory: all processes together may exceed the limit
  kDeny,   // deny: the other processes may have used the remaining capacity
  kShare,  // each process may use its share of the capacity that the origin last reported
};
[[nodiscard]] WEIR_EXPORT std::string_view to_string(OnOriginLoss policy);
[[nodiscard]] WEIR_EXPORT std::optional<OnOriginLoss> on_origin_loss_from(std::string_view name);

// How far the processes of a region agree before they admit a request. docs/origin.md has the bound
// of each. Without an origin the first two are the same.
enum class Consistency : uint8_t {
  // A process admits a small allowance by itself and asks the origin for more.
  kConverge,
  kExact,    // the origin decides every admission
  kRelaxed,  // memory decides: n processes admit up to n times the limit before they agree
};
[[nodiscard]] WEIR_EXPORT std::string_view to_string(Consistency consistency);
[[nodiscard]] WEIR_EXPORT std::optional<Consistency> consistency_from(std::string_view name);

// The durations by which a caller was limited before a setting was changed. A request that names
// them takes over what still counts by them, once for each change: without it, another duration
// would begin with an empty count.
struct PastDurations {
  static constexpr size_t kMost = 8;
  // When the last of them was replaced, by the clock of the limiter. It identifies the change, so
  // all processes must name the same time.
  WallTime changed{};
  size_t count = 0;
  std::array<Millis, kMost> durations{};  // kMinDuration to kMaxDuration each
};

// The views must outlive the call they are passed to; the limiter copies what it keeps.
//
// Requests with the same workspace, namespace, identifier, duration and class of
// algorithm share one count. The limit is not part of that key: it may differ from one request
// to the next.
struct Request {
  std::string_view workspace = {};   // 0-512 bytes: the owner of the namespace
  std::string_view ns = {};          // 1-512 bytes: the limited action ("login", "api")
  std::string_view identifier = {};  // 1-512 bytes: the limited caller
  Count limit = 0;                   // 1 to kMaxLimit per `duration`
  Millis duration{0};                // kMinDuration to kMaxDuration, or see across_durations
  Count cost = 1;                    // 0 reads the state and consumes nothing
  Algorithm algorithm = Algorithm::kSlidingWindow;
  // Absent: Options::on_origin_loss. Has no effect on a kRelaxed request of an algorithm other than
  // fixed_window and sliding_window.
  std::optional<OnOriginLoss> on_origin_loss = {};
  std::optional<Consistency> consistency = {};  // absent: Options::consistency
  // gcra and token_bucket only: the duration is not part of the key either, so it may differ from
  // one request to the next, and may be up to kMaxAnyDuration. When the rate changes, the backlog
  // keeps its time to drain; without this option it keeps its units.
  bool across_durations = false;
  std::optional<Count> burst = {};  // gcra and token_bucket only; absent: the limit
  // Null: the duration was not changed lately. Has no effect with across_durations.
  const PastDurations* past = nullptr;
};

// A namespace of the server itself, which no client has. Its gcra, token_bucket,
// sliding_window_strict and sliding_log stay in the region: other regions do not count them.
inline constexpr std::string_view kServerWorkspace = "weir";
inline constexpr std::string_view kIdempotencyNamespace = "idempotency keys";

inline constexpr size_t kMaxNameBytes = 512;
inline constexpr Count kMaxLimit = 1'000'000'000'000;
inline constexpr Count kMaxLogLimit = 10'000;
inline constexpr Millis kMinDuration{100};
inline constexpr Millis kMaxDuration{2'592'000'000};  // 30 days
// With across_durations: ten years with three leap days.
inline constexpr Millis kMaxAnyDuration{Millis(86'400'000) * 3653};
inline constexpr size_t kMaxBatch = 100;

}  // namespace weir
