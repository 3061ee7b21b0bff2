#include "frontends/resp/reset_commands.h"

#include "frontends/resp/arguments.h"

namespace weir::frontends {

RespError read_reset(Arguments arguments, Request& request) {
  if (arguments.size() != 4 && arguments.size() != 6) {
    return wrong_number_of_arguments("weir.reset") +
           ": WEIR.RESET namespace identifier duration_ms [ALGORITHM name]";
  }
  request = {.ns = arguments[1], .identifier = arguments[2], .limit = 1, .cost = 0};
  RespError error = read_name("namespace", request.ns);
  if (error.empty()) error = read_name("identifier", request.identifier);
  int64_t duration = 0;
  if (error.empty()) {
    error = read_number("duration_ms", arguments[3], {kMinDuration.count(), kMaxDuration.count()},
                        duration);
  }
  request.duration = Millis(duration);
  if (!error.empty() || arguments.size() == 4) return error;
  if (!is_word(arguments[4], "ALGORITHM")) {
    return "ERR " + quoted(arguments[4]) + " is not an option: use ALGORITHM";
  }
  return read_algorithm(arguments[5], request);
}

RespError answer_reset(Arguments arguments, Instant now, Service& service,
                       const ResolveRequest& resolve_request, RespWriter& writer) {
  Request request;
  RespError error = read_reset(arguments, request);
  if (error.empty()) error = resolve_request(request);
  if (!error.empty()) return error;
  service.namespaces.apply({&request, 1});
  const Result<bool> reset = service.backend.reset(now, request);
  if (!reset) return to_resp_error(reset.error());
  writer.integer(*reset ? 1 : 0);
  return {};
}

RespError answer_del(Arguments arguments, Instant now, Service& service,
                     const ResolveRequest& resolve_request, RespWriter& writer) {
  if (arguments.size() < 2) {
    return wrong_number_of_arguments(is_word(arguments[0], "DEL") ? "del" : "unlink");
  }
  // All keys are validated before the first is reset.
  Request request;
  HashedKey hashed;
  for (const std::string_view key : arguments.subspan(1)) {
    RespError error = read_throttle_key(key, request, hashed);
    if (!error.empty()) return error;
  }
  int64_t count = 0;
  for (const std::string_view key : arguments.subspan(1)) {
    (void)read_throttle_key(key, request, hashed);
    RespError error = resolve_request(request);
    if (!error.empty()) return error;
    service.namespaces.apply({&request, 1});
    const Result<bool> reset = service.backend.reset(now, request);
    if (!reset) return to_resp_error(reset.error());
    count += *reset ? 1 : 0;
  }
  writer.integer(count);
  return {};
}

}  // namespace weir::frontends
