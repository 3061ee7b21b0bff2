// The decision on a request, with the counts behind it.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/export.h"
#include "weir/request.h"
#include "weir/time.h"

namespace weir {

enum class Outcome : uint8_t {
  kAdmitted,
  kDenied,  // until `retry_after`
  kNever,   // the cost is greater than the limit allows at any time
};

// How complete the information behind the verdict was.
enum class Basis : uint8_t {
  kLocal,      // the counts in memory, which were fresh enough
  kRefreshed,  // the regional origin was read for this request
  kDegraded,   // a required read failed or was not made, or the table or memory is full
};

[[nodiscard]] WEIR_EXPORT std::string_view to_string(Outcome outcome);
[[nodiscard]] WEIR_EXPORT std::string_view to_string(Basis basis);

// The usage that was compared with the limit, by origin, without this request's own cost. For the
// sliding window the first three are of the current window, and `previous` is the weighted count of
// the previous one.
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
  Count remaining = 0;  // cost that would still be admitted at this instant
  WallTime reset{};     // end of the current window, or the instant of full recovery
  // The time from now until the same request would be admitted, if no other request arrives.
  // Absent when admitted, and for kNever.
  std::optional<Millis> retry_after{};
  Evidence evidence{};

  [[nodiscard]] bool admitted() const { return outcome == Outcome::kAdmitted; }
};

}  // namespace weir
