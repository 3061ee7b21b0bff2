// The commands that request a decision: their arguments and their replies.
//
// Pure functions: arguments to a Request or an error, a verdict to a reply. The views in a Request
// are those of the arguments.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/resp/resp_errors.h"
#include "frontends/resp/resp_parser.h"
#include "frontends/resp/resp_writer.h"
#include "rules/root_keys.h"
#include "weir/limiter.h"

namespace weir::frontends {

using Arguments = std::span<const std::string_view>;

// Compares without case; `name` is in capitals.
[[nodiscard]] bool is_word(std::string_view word, std::string_view name);

// The hash that replaces a key longer than kMaxNameBytes. The Request holds a view of it.
using HashedKey = rules::KeyHash;

// CL.THROTTLE key max_burst count period [quantity]
[[nodiscard]] RespError read_throttle(Arguments arguments, Request& request, HashedKey& hashed);
// GCRA key max-burst tokens-per-period period [TOKENS count], as in the sources of Redis: the same
// count and the same answer as CL.THROTTLE. The period is a decimal number.
[[nodiscard]] RespError read_gcra(Arguments arguments, Request& request, HashedKey& hashed);
// The tuple of a key, for DEL.
[[nodiscard]] RespError read_throttle_key(std::string_view key, Request& request,
                                          HashedKey& hashed);
void answer_throttle(Instant now, const Verdict& verdict, RespWriter& writer);

// WEIR.LIMIT namespace identifier limit duration_ms [COST n] [ALGORITHM a] [BURST b]
// WEIR.PEEK: the same without COST; consumes nothing.
[[nodiscard]] RespError read_limit(Arguments arguments, Request& request);
[[nodiscard]] RespError read_peek(Arguments arguments, Request& request);
void answer_limit(const Verdict& verdict, RespWriter& writer);

// WEIR.MULTI ITEM namespace identifier limit duration_ms [options] [ITEM ...]
[[nodiscard]] RespError read_multi(Arguments arguments, std::vector<Request>& requests);
void answer_multi(const BatchVerdict& verdict, RespWriter& writer);

}  // namespace weir::frontends
