// The events that one limiter counts about itself. LimiterStats reports their totals.

#pragma once

#include <cstdint>

#include "telemetry/counters.h"

namespace weir::telemetry {

enum class Stat : uint8_t {
  kAdmitted,
  kDenied,
  kDegraded,
  kColdReads,
  kStaleReads,
  kSteps,
  kColdReadErrors,
  kStaleReadErrors,
  kStepErrors,
  kUnread,
  kMadeStrict,
  kReplayed,
  kReplayErrors,
  kLateReplays,
  kHealed,
  kNoMemory,
  kCount,
};

using LimiterCounters = Counters<Stat>;

}  // namespace weir::telemetry
