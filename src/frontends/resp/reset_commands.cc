#include "frontends/resp/reset_commands.h"

#include "frontends/resp/arguments.h"

namespace weir::frontends {

Complaint read_reset(Arguments arguments, Request& request) {
  if (arguments.size() != 4 && arguments.size() != 6) {
    return wrong_number_of_arguments("weir.reset") +
           ": WEIR.RESET namespace identifier duration_ms [ALGORITHM name]";
  }
  request = {.ns = arguments[1], .identifier = arguments[2], .limit = 1, .cost = 0};
  Complaint complaint = read_name("namespace", request.ns);
  if (complaint.empty()) complaint = read_name("identifier", request.identifier);
  int64_t duration = 0;
  if (complaint.empty()) {
    complaint = read_number("duration_ms", arguments[3],
                            {kMinDuration.count(), kMaxDuration.count()}, duration);
  }
  request.duration = Millis(duration);
  if (!complaint.empty() || arguments.size() == 4) return complaint;
  if (!is_word(arguments[4], "ALGORITHM")) {
    return "ERR " + shown(arguments[4]) + " is no option: use ALGORITHM";
  }
  return read_algorithm(arguments[5], request);
}

Complaint answer_reset(Arguments arguments, Instant now, Decider& decider, RespWriter& writer) {
  Request request;
  Complaint complaint = read_reset(arguments, request);
  if (!complaint.empty()) return complaint;
  const Result<bool> reset = decider.reset(now, request);
  if (!reset) return complaint_of(reset.error());
  writer.integer(*reset ? 1 : 0);
  return {};
}

Complaint answer_del(Arguments arguments, Instant now, Decider& decider, RespWriter& writer) {
  if (arguments.size() < 2) {
    return wrong_number_of_arguments(is_word(arguments[0], "DEL") ? "del" : "unlink");
  }
  // All are looked at before one is forgotten.
  Request request;
  HashedKey hashed;
  for (const std::string_view key : arguments.subspan(1)) {
    Complaint complaint = read_throttle_key(key, request, hashed);
    if (!complaint.empty()) return complaint;
  }
  int64_t count = 0;
  for (const std::string_view key : arguments.subspan(1)) {
    (void)read_throttle_key(key, request, hashed);
    const Result<bool> reset = decider.reset(now, request);
    if (!reset) return complaint_of(reset.error());
    count += *reset ? 1 : 0;
  }
  writer.integer(count);
  return {};
}

}  // namespace weir::frontends
