// Whether a request could be decided, without deciding it.

#pragma once

#include <optional>

#include "weir/error.h"
#include "weir/request.h"

namespace weir {

// The error with which a limiter would refuse the request; none: it would decide it.
[[nodiscard]] std::optional<Error> error_in(const Request& request);

}  // namespace weir
