#include "frontends/resp/limit_commands.h"

#include <charconv>
#include <cmath>
#include <numeric>

#include "base/inline.h"
#include "frontends/resp/arguments.h"
#include "frontends/seconds.h"

namespace weir::frontends {
namespace {

constexpr std::string_view kThrottleNamespace = "cl";
// The namespace of keys longer than kMaxNameBytes, which are counted by their SHA-256.
constexpr std::string_view kHashedNamespace = "cl:sha256";
constexpr int64_t kMaxPeriodSeconds = kMaxAnyDuration.count() / 1000;

// Tokens are admitted at count * factor per duration: a fraction of a millisecond is exact, too.
struct Period {
  Millis duration{0};
  int64_t factor = 1;
};

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= kMaxRespArgument;
}

RespError read_key(std::string_view text) {
  if (is_key(text)) return {};
  return "ERR key has " + std::to_string(text.size()) + " bytes: it must have 1 to " +
         std::to_string(kMaxRespArgument);
}

void set_key(std::string_view key, Request& request, HashedKey& hashed) {
  request.ns = kThrottleNamespace;
  request.identifier = key;
  if (key.size() <= kMaxNameBytes) [[likely]]
    return;
  hashed = rules::hash_of(key);
  request.ns = kHashedNamespace;
  request.identifier = {reinterpret_cast<const char*>(hashed.data()), hashed.size()};
}

// A period as a decimal number of seconds. It is rounded to whole microseconds, from 1000 s on to
// whole milliseconds: their multiples then fit into the longest duration.
bool is_decimal_period(std::string_view text, Period& period) {
  constexpr int64_t kPerMilli = 1000;
  constexpr double kExactSeconds = 1000;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (!(seconds > 0 && seconds <= static_cast<double>(kMaxPeriodSeconds))) return false;  // or NaN
  const int64_t micros = seconds < kExactSeconds ? std::llround(seconds * 1e6)
                                                 : std::llround(seconds * 1e3) * kPerMilli;
  if (micros == 0) return false;
  period.factor = kPerMilli / std::gcd(micros, kPerMilli);
  period.duration = Millis(micros * period.factor / kPerMilli);
  const int64_t repeats = (kMinDuration + period.duration - Millis(1)) / period.duration;
  if (repeats > 1) {
    period.factor *= repeats;
    period.duration *= repeats;
  }
  return true;
}

// A command of GCRA: its numbers by their names in errors, and where the cost stands.
struct GcraForm {
  std::string_view max_burst;
  std::string_view count;
  std::string_view quantity;
  size_t quantity_at = 0;
  bool decimal = false;  // the period
};
constexpr GcraForm kThrottle{
    .max_burst = "max_burst", .count = "count", .quantity = "quantity", .quantity_at = 5};
constexpr GcraForm kGcra{.max_burst = "max-burst",
                         .count = "tokens-per-period",
                         .quantity = "TOKENS",
                         .quantity_at = 6,
                         .decimal = true};
constexpr std::string_view kDecimalPeriods = "a number of seconds from 0.000001 to 315619200";
static_assert(kMaxPeriodSeconds == 315'619'200);

// The number of arguments is checked by the caller.
template <const GcraForm& kForm>
WEIR_HOT_INLINE RespError read_gcra_arguments(Arguments arguments, Request& request,
                                              HashedKey& hashed) {
  constexpr Range kMaxBurst{0, kMaxLimit - 1};
  constexpr Range kCount{1, kMaxLimit};
  constexpr Range kPeriod{1, kMaxPeriodSeconds};
  constexpr Range kQuantity{0, kMaxLimit};
  int64_t max_burst = 0;
  int64_t count = 0;
  int64_t seconds = 0;
  int64_t quantity = 1;
  Period period;
  const auto is_period = [&] {
    if constexpr (kForm.decimal) return is_decimal_period(arguments[4], period);
    return is_number(arguments[4], kPeriod, seconds);
  };
  const bool given = arguments.size() > kForm.quantity_at;
  if (!is_key(arguments[1]) || !is_number(arguments[2], kMaxBurst, max_burst) ||
      !is_number(arguments[3], kCount, count) || !is_period() ||
      (given && !is_number(arguments[kForm.quantity_at], kQuantity, quantity))) [[unlikely]] {
    // Report the first invalid argument.
    RespError error = read_key(arguments[1]);
    const auto read = [&](std::string_view name, size_t at, Range range) {
      if (error.empty()) error = read_number(name, arguments[at], range, quantity);
    };
    read(kForm.max_burst, 2, kMaxBurst);
    read(kForm.count, 3, kCount);
    if constexpr (!kForm.decimal) {
      read("period", 4, kPeriod);
    } else if (error.empty() && !is_period()) {
      error =
          "ERR period is " + quoted(arguments[4]) + ": it must be " + std::string(kDecimalPeriods);
    }
    if (given) read(kForm.quantity, kForm.quantity_at, kQuantity);
    return error;
  }
  if constexpr (kForm.decimal) {
    const Range range{1, static_cast<int64_t>(kMaxLimit) / period.factor};
    if (!range.holds(count)) {
      return "ERR " + std::string(kForm.count) + " is " + quoted(arguments[3]) + ": with period " +
             quoted(arguments[4]) + " it must be " + range.text();
    }
    count *= period.factor;
  } else {
    period.duration = Millis(seconds * 1000);
  }
  request = {.limit = static_cast<Count>(count),
             .duration = period.duration,
             .cost = static_cast<Count>(quantity),
             .algorithm = Algorithm::kGcra,
             .across_durations = true,
             .burst = static_cast<Count>(max_burst) + 1};
  set_key(arguments[1], request, hashed);
  return {};
}

RespError given_twice(std::string_view option) {
  return "ERR " + std::string(option) + " is given twice: give it once";
}

// One item: four arguments, then options. Sets `used` to the number of arguments read.
RespError read_item(Arguments arguments, Request& request, size_t& used) {
  constexpr size_t kPositional = 4;
  if (arguments.size() < kPositional) {
    return "ERR an item needs namespace identifier limit duration_ms";
  }
  request = {.ns = arguments[0], .identifier = arguments[1]};
  int64_t duration = 0;
  RespError error = read_name("namespace", request.ns);
  if (error.empty()) error = read_name("identifier", request.identifier);
  if (error.empty()) {
    error = read_count("limit", arguments[2], {1, kMaxLimit}, request.limit);
  }
  if (error.empty()) {
    error = read_number("duration_ms", arguments[3], {kMinDuration.count(), kMaxDuration.count()},
                        duration);
  }
  request.duration = Millis(duration);
  enum Option : unsigned { kCost = 1, kBurst = 2, kAlgorithm = 4, kConsistency = 8 };
  unsigned seen = 0;
  const auto again = [&seen](Option option) {
    const bool before = (seen & option) != 0;
    seen |= option;
    return before;
  };
  size_t at = kPositional;
  for (; error.empty() && at < arguments.size(); at += 2) {
    const std::string_view option = arguments[at];
    if (is_word(option, "ITEM")) break;
    if (at + 1 == arguments.size()) return "ERR " + quoted(option) + " needs a value";
    const std::string_view value = arguments[at + 1];
    if (is_word(option, "COST")) {
      if (again(kCost)) return given_twice("COST");
      error = read_count("COST", value, {0, kMaxLimit}, request.cost);
    } else if (is_word(option, "BURST")) {
      if (again(kBurst)) return given_twice("BURST");
      error = read_count("BURST", value, {1, kMaxLimit}, request.burst.emplace());
    } else if (is_word(option, "ALGORITHM")) {
      if (again(kAlgorithm)) return given_twice("ALGORITHM");
      error = read_algorithm(value, request);
    } else if (is_word(option, "CONSISTENCY")) {
      if (again(kConsistency)) return given_twice("CONSISTENCY");
      request.consistency = consistency_from(value);
      if (!request.consistency) {
        error = "ERR CONSISTENCY is " + quoted(value) + ": use " + std::string(kConsistencyNames);
      }
    } else {
      return "ERR " + quoted(option) +
             " is not an option: use COST, ALGORITHM, BURST or CONSISTENCY";
    }
  }
  used = at;
  return error;
}

void write_verdict(const Verdict& verdict, RespWriter& writer) {
  writer.map(6);
  writer.bulk("success");
  writer.boolean(verdict.admitted());
  writer.bulk("limit");
  writer.integer(verdict.limit);
  writer.bulk("remaining");
  writer.integer(verdict.remaining);
  writer.bulk("reset");
  writer.integer(verdict.reset.time_since_epoch().count());
  writer.bulk("retry_after");
  writer.integer(verdict.retry_after ? verdict.retry_after->count() : -1);
  writer.bulk("basis");
  writer.bulk(to_string(verdict.basis));
}

}  // namespace

bool is_word(std::string_view word, std::string_view name) {
  if (word.size() != name.size()) return false;
  if (word == name) return true;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i] >= 'a' && word[i] <= 'z' ? static_cast<char>(word[i] - 32) : word[i];
    if (c != name[i]) return false;
  }
  return true;
}

RespError read_throttle(Arguments arguments, Request& request, HashedKey& hashed) {
  if (arguments.size() != 5 && arguments.size() != 6) {
    return wrong_number_of_arguments("cl.throttle") +
           ": CL.THROTTLE key max_burst count period [quantity]";
  }
  return read_gcra_arguments<kThrottle>(arguments, request, hashed);
}

RespError read_gcra(Arguments arguments, Request& request, HashedKey& hashed) {
  if (arguments.size() < 5 || arguments.size() > 7) {
    return wrong_number_of_arguments("gcra") +
           ": GCRA key max-burst tokens-per-period period [TOKENS count]";
  }
  if (arguments.size() > 5 && !is_word(arguments[5], "TOKENS")) {
    return "ERR " + quoted(arguments[5]) + " is not an option: use TOKENS";
  }
  if (arguments.size() == 6) return "ERR 'TOKENS' needs a value";
  return read_gcra_arguments<kGcra>(arguments, request, hashed);
}

RespError read_throttle_key(std::string_view key, Request& request, HashedKey& hashed) {
  request = {.limit = 1,
             .duration = kMinDuration,
             .cost = 0,
             .algorithm = Algorithm::kGcra,
             .across_durations = true};
  set_key(key, request, hashed);
  return read_key(key);
}

void answer_throttle(Instant now, const Verdict& verdict, RespWriter& writer) {
  writer.integers<5>({verdict.admitted() ? 0 : 1, static_cast<int64_t>(verdict.limit),
                      static_cast<int64_t>(verdict.remaining),
                      verdict.retry_after ? seconds_up(*verdict.retry_after) : -1,
                      seconds_up(verdict.reset - now.wall)});
}

RespError read_limit(Arguments arguments, Request& request) {
  size_t used = 0;
  const Arguments item = arguments.subspan(1);
  RespError error = read_item(item, request, used);
  if (error.empty() && used != item.size()) {
    error = "ERR " + quoted(item[used]) + " belongs to WEIR.MULTI";
  }
  return error;
}

RespError read_peek(Arguments arguments, Request& request) {
  RespError error = read_limit(arguments, request);
  for (size_t at = 5; error.empty() && at < arguments.size(); at += 2) {
    if (is_word(arguments[at], "COST")) error = "ERR WEIR.PEEK consumes nothing: leave COST out";
  }
  request.cost = 0;
  return error;
}

void answer_limit(const Verdict& verdict, RespWriter& writer) {
  write_verdict(verdict, writer);
}

RespError read_multi(Arguments arguments, std::vector<Request>& requests) {
  requests.clear();
  Arguments rest = arguments.subspan(1);
  if (rest.empty()) return wrong_number_of_arguments("weir.multi");
  while (!rest.empty()) {
    if (!is_word(rest[0], "ITEM")) return "ERR expected ITEM, got " + quoted(rest[0]);
    if (requests.size() == kMaxBatch) {
      return "ERR more than " + std::to_string(kMaxBatch) + " items";
    }
    rest = rest.subspan(1);
    size_t used = 0;
    RespError error = read_item(rest, requests.emplace_back(), used);
    if (!error.empty()) {
      return error + " (item " + std::to_string(requests.size()) + ")";
    }
    rest = rest.subspan(used);
  }
  return {};
}

void answer_multi(const BatchVerdict& verdict, RespWriter& writer) {
  writer.map(2);
  writer.bulk("success");
  writer.boolean(verdict.admitted());
  writer.bulk("limits");
  writer.array(verdict.items.size());
  for (const Verdict& item : verdict.items) write_verdict(item, writer);
}

}  // namespace weir::frontends
