// The answer, with its evidence.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/request.h"
#include "weir/time.h"

namespace weir {

enum class Outcome : uint8_t {
  kAdmitted,
  kDenied,  // not now; `retry_after` says when
  kNever,   // the cost exceeds what the limit could ever hold
};

// How well informed the verdict was.
enum class Basis : uint8_t {
  kLocal,      // decided on what this process knows, and that was fresh enough
  kRefreshed,  // the regional origin was read for this request
  kDegraded,   // a read was due and failed, or table or memory is full: decided on less
};

[[nodiscard]] std::string_view to_string(Outcome outcome);
[[nodiscard]] std::string_view to_string(Basis basis);

// Where the usage that was held against the request came from, before this
// request's own cost. For the sliding window these are the parts of the current
// window; `previous` is what the last one still weighs.
struct Evidence {
  Count own = 0;       // accepted by this process
  Count siblings = 0;  // accepted by the other processes of this region
  Count foreign = 0;   // accepted in other regions
  Count previous = 0;  // carried over from the window before
};

struct Verdict {
  Outcome outcome = Outcome::kDenied;
  Basis basis = Basis::kLocal;
  Count limit = 0;      // the request's limit; for gcra and token_bucket its burst
  Count remaining = 0;  // what would still be admitted at this instant
  WallTime reset{};     // end of the current window, or the instant of full recovery
  // The earliest 1 ms tick from now at which the same request would pass if nothing
  // else arrived. Absent when admitted, and when it never will.
  std::optional<Millis> retry_after{};
  Evidence evidence{};

  [[nodiscard]] bool admitted() const { return outcome == Outcome::kAdmitted; }
};

}  // namespace weir
