// The commands that ask for a decision: what their arguments mean, and how they are answered.
//
// Pure: arguments in, a Request or a complaint out; a verdict in, an answer out. The views
// in a Request are those of the arguments.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/resp/resp_parser.h"
#include "frontends/resp/resp_writer.h"
#include "rules/root_keys.h"
#include "weir/limiter.h"

namespace weir::frontends {

using Arguments = std::span<const std::string_view>;

// Whether `word` is `name`, which is in capitals, whatever its case.
[[nodiscard]] bool is_word(std::string_view word, std::string_view name);

// What is wrong with a command; empty: nothing.
using Complaint = std::string;

[[nodiscard]] Complaint wrong_number_of_arguments(std::string_view command);

// What stands for a key that is longer than a name may be. A request for such a key has a view of
// it.
using HashedKey = rules::KeyHash;

// CL.THROTTLE key max_burst count period [quantity]
[[nodiscard]] Complaint read_throttle(Arguments arguments, Request& request, HashedKey& hashed);
// The tuple that is counted under a key.
[[nodiscard]] Complaint read_throttle_key(std::string_view key, Request& request,
                                          HashedKey& hashed);
void answer_throttle(Instant now, const Verdict& verdict, RespWriter& writer);

// WEIR.LIMIT namespace identifier limit duration_ms [COST n] [ALGORITHM a] [BURST b]
// WEIR.PEEK the same without COST: nothing is consumed.
[[nodiscard]] Complaint read_limit(Arguments arguments, Request& request);
[[nodiscard]] Complaint read_peek(Arguments arguments, Request& request);
void answer_limit(const Verdict& verdict, RespWriter& writer);

// WEIR.MULTI ITEM namespace identifier limit duration_ms [options] [ITEM ...]
[[nodiscard]] Complaint read_multi(Arguments arguments, std::vector<Request>& requests);
void answer_multi(const BatchVerdict& verdict, RespWriter& writer);

// An error of the limiter in the words of a command.
[[nodiscard]] Complaint complaint_of(const Error& error);

}  // namespace weir::frontends
