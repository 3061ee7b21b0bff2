// WEIR.RESET makes a count begin anew; DEL does so for a key of CL.THROTTLE.

#pragma once

#include "frontends/decider.h"
#include "frontends/resp/limit_commands.h"

namespace weir::frontends {

// WEIR.RESET namespace identifier duration_ms [ALGORITHM name]
[[nodiscard]] Complaint read_reset(Arguments arguments, Request& request);
// Answers 1 if there was something to forget, else 0.
[[nodiscard]] Complaint answer_reset(Arguments arguments, Instant now, Decider& decider,
                                     RespWriter& writer);

// DEL key ..., UNLINK key ...: answers how many of the keys had something to forget.
[[nodiscard]] Complaint answer_del(Arguments arguments, Instant now, Decider& decider,
                                   RespWriter& writer);

}  // namespace weir::frontends
