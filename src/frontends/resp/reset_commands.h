// WEIR.RESET resets the count of a tuple; DEL and UNLINK reset keys of CL.THROTTLE.

#pragma once

#include <functional>

#include "frontends/resp/limit_commands.h"
#include "frontends/service.h"

namespace weir::frontends {

// Finds the tuple of a request; an error, or empty.
using ResolveRequest = std::function<RespError(Request& request)>;

// WEIR.RESET namespace identifier duration_ms [ALGORITHM name]
[[nodiscard]] RespError read_reset(Arguments arguments, Request& request);
// Replies 1 if there was a count, else 0.
[[nodiscard]] RespError answer_reset(Arguments arguments, Instant now, Service& service,
                                     const ResolveRequest& resolve_request, RespWriter& writer);

// DEL key ..., UNLINK key ...: replies with the number of keys that had a count.
[[nodiscard]] RespError answer_del(Arguments arguments, Instant now, Service& service,
                                   const ResolveRequest& resolve_request, RespWriter& writer);

}  // namespace weir::frontends
