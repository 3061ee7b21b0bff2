// One question: may this caller go on?

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/time.h"

namespace weir {

// Amounts of cost: what is counted, limited and left.
using Count = uint64_t;

// How usage is held against the limit; docs/algorithms.md has the contract of each.
enum class Algorithm : uint8_t {
  kSlidingWindow,        // this window plus the part of the last one still in view
  kSlidingWindowStrict,  // 16 sub-windows: never above the limit in any trailing window
  kFixedWindow,          // restarts at each multiple of the duration
  kSlidingLog,           // exact, one stamp per unit of cost; limit <= 10,000
  kGcra,                 // a steady rate with a burst
  kTokenBucket,          // the same decisions as kGcra, in the words of tokens
};

inline constexpr int kAlgorithmCount = 6;

// "sliding_window", "gcra", ...: the same word in code, configuration and metrics.
[[nodiscard]] std::string_view to_string(Algorithm algorithm);
[[nodiscard]] std::optional<Algorithm> algorithm_from(std::string_view name);

// What holds while the origin cannot be asked and what is known is no longer fresh.
enum class OnOriginLoss : uint8_t {
  kLocal,  // decide on what is known: together the processes may reach a multiple of the limit
  kDeny,   // refuse: nothing passes that the others might have used
  kShare,  // each process may use its share of what the origin last had left
};
[[nodiscard]] std::string_view to_string(OnOriginLoss policy);
[[nodiscard]] std::optional<OnOriginLoss> on_origin_loss_from(std::string_view name);

// The views must outlive the call they are passed to; nothing is kept of them.
//
// Requests with the same workspace, namespace, identifier, duration and class of
// algorithm share one count. The limit is not part of that identity: it may differ
// from one request to the next.
struct Request {
  std::string_view workspace = {};   // 0-512 bytes: who owns the namespace
  std::string_view ns = {};          // 1-512 bytes: what is limited ("login", "api")
  std::string_view identifier = {};  // 1-512 bytes: who is limited
  int64_t limit = 0;                 // 1 to kMaxLimit per `duration`
  Millis duration{0};                // kMinDuration to kMaxDuration, or see across_durations
  int64_t cost = 1;                  // 0 asks without consuming
  Algorithm algorithm = Algorithm::kSlidingWindow;
  // fixed_window and sliding_window only; the limiter's choice if absent.
  std::optional<OnOriginLoss> on_origin_loss = {};
  // gcra and token_bucket only: one count under this name whatever the duration, which then
  // may change like the limit and may be up to kMaxAnyDuration. What is waiting when the rate
  // changes keeps its time to drain; without this, its units.
  bool across_durations = false;
  std::optional<int64_t> burst = {};  // gcra and token_bucket only; the limit if absent
};

inline constexpr size_t kMaxNameBytes = 512;
inline constexpr int64_t kMaxLimit = 1'000'000'000'000;
inline constexpr int64_t kMaxLogLimit = 10'000;
inline constexpr Millis kMinDuration{100};
inline constexpr Millis kMaxDuration{2'592'000'000};  // 30 days
// With across_durations: ten years with three leap days.
inline constexpr Millis kMaxAnyDuration{Millis(86'400'000) * 3653};
inline constexpr size_t kMaxBatch = 100;

}  // namespace weir
