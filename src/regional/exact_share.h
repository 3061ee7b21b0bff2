// What a process may decide by itself of a tuple whose whole state the origin keeps: gcra,
// token_bucket, sliding_window_strict and sliding_log. The rules are those of windows: an allowance
// of a quarter of its share of the remaining limit, as long as the last answer is fresh and no
// request was refused; and denials that the origin has announced.
//
// Pure, but for the words of the tuple.

#pragma once

#include <algorithm>
#include <optional>

#include "memory/exact_use.h"
#include "memory/slot.h"
#include "regional/allowance.h"
#include "regional/freshness.h"

namespace weir::regional {

// Longer times are cut to a year.
inline constexpr Millis kLongestWait{int64_t{1} << 35};

// The time after which nothing counts any more of what was admitted now: the duration, and of a
// backlog the time in which a full burst drains.
[[nodiscard]] inline Millis horizon_of(const memory::Query& query) {
  if (memory::class_of(query.algorithm) != memory::CellClass::kBacklog) return query.duration;
  constexpr auto kLongest = static_cast<uint64_t>(kLongestWait.count());
  const uint64_t ms =
      base::mul_div(query.ask.capacity, static_cast<uint64_t>(query.duration.count()), query.limit);
  return Millis(static_cast<int64_t>(std::clamp<uint64_t>(ms, 1, kLongest)));
}

// For how long all processes ask about every request after a refusal: in windows, the rest of one
// and the next.
[[nodiscard]] inline Millis strict_for(const memory::Query& query) {
  constexpr Millis kLongest = std::chrono::hours(1);
  return std::min(2 * std::min(horizon_of(query), kLongest), kLongest);
}

// How long an answer is used. Short horizons do not shorten it below the time in which a process
// tells the origin what it admitted: the allowance bounds that, not the age of the answer.
[[nodiscard]] inline Nanos exact_freshness(const memory::Query& query, Millis longest,
                                           Millis told_within) {
  return std::max<Nanos>(fresh_for(horizon_of(query), longest),
                         std::min(Nanos(told_within), Nanos(longest)));
}

// What a process will have admitted in all, at most, without asking; none: it must ask.
[[nodiscard]] inline std::optional<Count> allowance_limit(
    const memory::ExactUse& use, const memory::Query& query, MonoTime now,
    const std::optional<Allowance>& allowance) {
  const memory::ExactUse::Known known = use.known();
  const bool strict = known.strict && !base::mutated(base::Mutation::kRefusalsPrivate);
  const bool fresh =
      known.fresh_until > now || base::mutated(base::Mutation::kAllowanceWithoutExpiry);
  if (!allowance || strict || !fresh) return std::nullopt;
  // `used` is of this capacity: another one may be less than what counts.
  if (known.capacity != query.ask.capacity) return std::nullopt;
  const Count left = base::saturating_sub(query.ask.capacity, known.used);
  const Count taken = base::saturating_sub(use.own() + query.ask.cost, known.acked);
  if (!allowance->covers(taken, left)) return std::nullopt;
  const bool whole = base::mutated(base::Mutation::kAllowanceOfWholeRemainder);
  const uint64_t parts = whole ? allowance->parts / kAllowanceParts : allowance->parts;
  return known.acked + left / std::max<uint64_t>(parts, 1);
}

// The denial of a request that the origin denies at least until `denial` ends, which it announced
// for this cost or a smaller one; none: it might admit the request.
[[nodiscard]] inline std::optional<memory::CellDecision> standing_denial(
    const memory::ExactUse& use, const memory::ExactUse::Denial& denial, const memory::Query& query,
    MonoTime now) {
  if (denial.until <= now || query.ask.cost < denial.cost) return std::nullopt;
  const memory::ExactUse::Known known = use.known();
  if (known.capacity != query.ask.capacity) return std::nullopt;
  memory::CellDecision result;
  const auto wait = std::max(std::chrono::ceil<Millis>(denial.until - now), Millis(1));
  result.decision.outcome = Outcome::kDenied;
  result.decision.remaining = std::min(denial.remaining, query.ask.cost - 1);
  result.decision.retry_at = query.now + wait;
  const bool drains = memory::class_of(query.algorithm) == memory::CellClass::kBacklog;
  memory::Query used = query;
  used.ask.capacity = known.used;
  result.decision.reset = query.now + std::max(wait, drains ? horizon_of(used) : query.duration);
  result.evidence.siblings = known.used;
  return result;
}

// The denial of a request of which the origin has announced until when it denies it; none: the
// origin must be asked. A larger cost is denied for longer, and how much longer only the origin
// knows. Of costs above 1 the answer must be fresh: since then a smaller cost may have passed.
[[nodiscard]] inline std::optional<memory::CellDecision> known_denial(const memory::ExactUse& use,
                                                                      const memory::Query& query,
                                                                      MonoTime now) {
  const memory::ExactUse::Denial denial = use.denial();
  if (denial.cost != query.ask.cost) return std::nullopt;
  if (denial.cost > 1 && use.known().fresh_until <= now) return std::nullopt;
  return standing_denial(use, denial, query, now);
}

}  // namespace weir::regional
