#include "decide/validate.h"

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/backlog.h"
#include "memory/memory_plan.h"
#include "memory/tuple_key.h"
#include "regional/query_share.h"
#include "weir/options.h"
#include "weir/validate.h"

namespace weir::decide {
namespace {

// The range of a field's value, and the unit in which errors report it.
struct Range {
  int64_t low = 0;
  int64_t high = 0;
  std::string_view unit = {};
};

std::unique_ptr<Error> refuse(std::string_view field, std::string detail, std::string fix) {
  return std::make_unique<Error>(Error{.code = ErrorCode::kInvalidArgument,
                                       .retry = Retry::kPointless,
                                       .field = std::string(field),
                                       .detail = std::move(detail),
                                       .fix = std::move(fix)});
}

template <std::integral Number>
std::unique_ptr<Error> refuse_number(std::string_view field, Number value, const Range& range) {
  const std::string unit(range.unit);
  return refuse(field, std::string(field) + " is " + std::to_string(value) + unit,
                "choose a " + std::string(field) + " from " + std::to_string(range.low) + " to " +
                    std::to_string(range.high) + unit);
}

template <std::integral Number>
bool outside(Number value, const Range& range) {
  return std::cmp_less(value, range.low) || std::cmp_greater(value, range.high);
}

std::unique_ptr<Error> refuse_name(std::string_view field, std::string_view value, int64_t least) {
  return refuse(
      field, std::string(field) + " has " + std::to_string(value.size()) + " bytes",
      "give it " + std::to_string(least) + " to " + std::to_string(kMaxNameBytes) + " bytes");
}

bool takes_burst(Algorithm algorithm) {
  return algorithm == Algorithm::kGcra || algorithm == Algorithm::kTokenBucket;
}

std::unique_ptr<Error> validate_burst(const Request& request) {
  if (!takes_burst(request.algorithm)) {
    return refuse("burst",
                  "burst is " + std::to_string(*request.burst) + ", but " +
                      std::string(to_string(request.algorithm)) + " has none",
                  "leave burst out, or choose gcra or token_bucket");
  }
  // A burst of 0 would not deny everything but silently halve the rate.
  constexpr Range kBurst{.low = 1, .high = kMaxLimit};
  if (outside(*request.burst, kBurst)) return refuse_number("burst", *request.burst, kBurst);
  return nullptr;
}

std::unique_ptr<Error> validate_pace(const Request& request) {
  const Count limit = request.limit;
  const Count burst = request.burst.value_or(limit);
  const algorithms::Pace pace = algorithms::pace_of(limit, request.duration);
  if (algorithms::representable(pace, limit, burst)) return nullptr;
  return refuse("limit",
                std::to_string(limit) + " per " + std::to_string(request.duration.count()) +
                    " ms with a burst of " + std::to_string(burst) +
                    " is a rate that cannot be represented exactly",
                "choose a limit that shares factors with the duration (a round number), or "
                "a smaller one");
}

std::unique_ptr<Error> validate_past(const PastDurations& past) {
  constexpr Range kCount{.low = 0, .high = PastDurations::kMost};
  constexpr Range kEach{.low = kMinDuration.count(), .high = kMaxDuration.count(), .unit = " ms"};
  constexpr Range kTime{.low = 0, .high = int64_t{1} << 50, .unit = " ms since 1970"};
  const auto count = static_cast<int64_t>(past.count);
  if (outside(count, kCount)) return refuse_number("past.count", count, kCount);
  const int64_t changed = past.changed.time_since_epoch().count();
  if (outside(changed, kTime)) return refuse_number("past.changed", changed, kTime);
  for (size_t i = 0; i < past.count; ++i) {
    const int64_t duration = past.durations[i].count();
    if (outside(duration, kEach)) return refuse_number("past.durations", duration, kEach);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Error> find_error(const Request& request) {
  constexpr Range kLimit{.low = 1, .high = kMaxLimit};
  constexpr Range kLogLimit{.low = 1, .high = kMaxLogLimit};
  constexpr Range kDuration{
      .low = kMinDuration.count(), .high = kMaxDuration.count(), .unit = " ms"};
  constexpr Range kCost{.low = 0, .high = kMaxLimit};

  if (request.workspace.size() > kMaxNameBytes) {
    return refuse_name("workspace", request.workspace, 0);
  }
  if (request.ns.empty() || request.ns.size() > kMaxNameBytes) {
    return refuse_name("namespace", request.ns, 1);
  }
  if (request.identifier.empty() || request.identifier.size() > kMaxNameBytes) {
    return refuse_name("identifier", request.identifier, 1);
  }
  if (static_cast<uint8_t>(request.algorithm) >= kAlgorithmCount) {
    return refuse_number("algorithm", static_cast<int64_t>(request.algorithm),
                         {.low = 0, .high = kAlgorithmCount - 1});
  }
  const Range& limit = request.algorithm == Algorithm::kSlidingLog ? kLogLimit : kLimit;
  if (outside(request.limit, limit)) {
    return refuse_number("limit", request.limit, limit);
  }
  constexpr Range kAnyDuration{
      .low = kMinDuration.count(), .high = kMaxAnyDuration.count(), .unit = " ms"};
  const bool any = request.across_durations && takes_burst(request.algorithm);
  const Range& duration = any ? kAnyDuration : kDuration;
  if (outside(request.duration.count(), duration)) {
    return refuse_number("duration", request.duration.count(), duration);
  }
  if (outside(request.cost, kCost)) {
    return refuse_number("cost", request.cost, kCost);
  }
  if (request.burst.has_value()) {
    if (auto error = validate_burst(request)) return error;
  }
  if (request.across_durations && !takes_burst(request.algorithm)) {
    return refuse("across_durations",
                  std::string(to_string(request.algorithm)) + " has one count per duration",
                  "leave across_durations out, or choose gcra or token_bucket");
  }
  if (request.past != nullptr) {
    if (auto error = validate_past(*request.past)) return error;
  }
  constexpr Range kPolicy{.low = 0, .high = static_cast<int64_t>(OnOriginLoss::kShare)};
  const auto policy = static_cast<int64_t>(request.on_origin_loss.value_or(OnOriginLoss::kLocal));
  if (outside(policy, kPolicy)) return refuse_number("on_origin_loss", policy, kPolicy);
  if (request.on_origin_loss.has_value() && request.consistency == Consistency::kRelaxed &&
      memory::class_of(request.algorithm) != memory::CellClass::kWindow) {
    return refuse("on_origin_loss",
                  "a relaxed " + std::string(to_string(request.algorithm)) +
                      " is not shared through the origin",
                  "leave on_origin_loss out, or choose sliding_window or fixed_window, or the "
                  "consistency converge or exact");
  }
  constexpr Range kConsistency{.low = 0, .high = static_cast<int64_t>(Consistency::kRelaxed)};
  const auto consistency =
      static_cast<int64_t>(request.consistency.value_or(Consistency::kConverge));
  if (outside(consistency, kConsistency)) {
    return refuse_number("consistency", consistency, kConsistency);
  }
  if (request.consistency == Consistency::kExact &&
      !regional::drains_in_time(request.algorithm, request.limit, request.duration,
                                request.burst.value_or(request.limit))) {
    return refuse("burst",
                  "a burst of " + std::to_string(request.burst.value_or(request.limit)) +
                      " does not drain within " + std::to_string(kMaxExactDrain.count()) + " ms",
                  "choose a smaller burst or a higher rate, or leave the consistency exact out");
  }
  if (takes_burst(request.algorithm)) {
    // Above kExact only some paces are representable; which ones needs their common divisor.
    constexpr Count kExact = algorithms::kAlwaysRepresentable;
    if (request.limit > kExact || request.burst.value_or(0) > kExact ||
        request.duration > kMaxDuration) {
      return validate_pace(request);
    }
  }
  return nullptr;
}

std::unique_ptr<Error> validate_sizes(size_t requests, size_t verdicts) {
  if (requests == verdicts) return nullptr;
  return refuse("verdicts",
                "verdicts has " + std::to_string(verdicts) + " elements, but there are " +
                    std::to_string(requests) + " requests",
                "make verdicts as long as requests; nothing was decided");
}

std::unique_ptr<Error> validate_batch_size(size_t items) {
  constexpr Range kItems{.low = 1, .high = kMaxBatch};
  const auto count = static_cast<int64_t>(items);
  return outside(count, kItems) ? refuse_number("requests", count, kItems) : nullptr;
}

namespace {

std::unique_ptr<Error> find_rule_error(const SyncRules& rules) {
  constexpr int64_t kDay = 24LL * 3600 * 1000;
  constexpr Range kPolicy{.low = 0, .high = static_cast<int64_t>(PublishPolicy::kFloor)};
  const auto policy = static_cast<int64_t>(rules.policy);
  if (outside(policy, kPolicy)) return refuse_number("sync.policy", policy, kPolicy);
  const std::pair<std::string_view, uint32_t> parts[] = {
      {"sync.unpublished_permille", rules.unpublished_permille},
      {"sync.slack_permille", rules.slack_permille},
      {"sync.floor_permille", rules.floor_permille}};
  for (const auto& [field, part] : parts) {
    constexpr Range kPart{.low = 0, .high = 1000};
    if (outside(part, kPart)) return refuse_number(field, part, kPart);
  }
  constexpr Range kPause{.low = 1, .high = kDay, .unit = " ms"};
  const int64_t publish = rules.publish_every.count();
  if (outside(publish, kPause)) return refuse_number("sync.publish_every", publish, kPause);
  const int64_t import = rules.import_every.count();
  if (outside(import, kPause)) return refuse_number("sync.import_every", import, kPause);
  constexpr Range kLease{.low = kMinLease.count(), .high = kDay, .unit = " ms"};
  if (outside(rules.lease.count(), kLease)) {
    return refuse_number("sync.lease", rules.lease.count(), kLease);
  }
  constexpr Range kRows{.low = 1, .high = UINT32_MAX};
  if (outside(rules.rows_per_second, kRows)) {
    return refuse_number("sync.rows_per_second", rules.rows_per_second, kRows);
  }
  return nullptr;
}

std::unique_ptr<Error> find_option_error(const Options& options) {
  constexpr Range kReadDeadline{.low = 1, .high = 10'000, .unit = " ms"};
  constexpr Range kFreshness{.low = 10, .high = 60'000, .unit = " ms"};
  constexpr Range kReplayWithin{.low = 0, .high = 10'000, .unit = " ms"};
  constexpr Range kCapacity{.low = 64, .high = int64_t{1} << 28};
  constexpr size_t kMaxRegionBytes = 64;
  const int64_t deadline = options.read_deadline.count();
  if (outside(deadline, kReadDeadline))
    return refuse_number("read_deadline", deadline, kReadDeadline);
  const int64_t freshness = options.max_freshness.count();
  if (outside(freshness, kFreshness)) return refuse_number("max_freshness", freshness, kFreshness);
  const int64_t within = options.replay_within.count();
  if (outside(within, kReplayWithin)) return refuse_number("replay_within", within, kReplayWithin);
  constexpr Range kPolicy{.low = 0, .high = static_cast<int64_t>(OnOriginLoss::kShare)};
  const auto policy = static_cast<int64_t>(options.on_origin_loss);
  if (outside(policy, kPolicy)) return refuse_number("on_origin_loss", policy, kPolicy);
  constexpr Range kConsistency{.low = 0, .high = static_cast<int64_t>(Consistency::kRelaxed)};
  const auto consistency = static_cast<int64_t>(options.consistency);
  if (outside(consistency, kConsistency)) {
    return refuse_number("consistency", consistency, kConsistency);
  }
  constexpr Range kRemoteTuples{.low = 0, .high = int64_t{1} << 28};
  const auto remote = static_cast<int64_t>(options.remote_tuples);
  if (outside(remote, kRemoteTuples)) return refuse_number("remote_tuples", remote, kRemoteTuples);
  const auto capacity = static_cast<int64_t>(memory::memory_plan(options).capacity);
  if (outside(capacity, kCapacity)) return refuse_number("capacity", capacity, kCapacity);
  if (options.ledger == nullptr) return nullptr;
  if (options.region.empty() || options.region.size() > kMaxRegionBytes) {
    return refuse("region", "region has " + std::to_string(options.region.size()) + " bytes",
                  "give it 1 to " + std::to_string(kMaxRegionBytes) + " bytes");
  }
  return find_rule_error(options.sync);
}

}  // namespace
}  // namespace weir::decide

namespace weir {

std::optional<Error> error_in(const Request& request) {
  if (const auto error = decide::validate(request)) return *error;
  return std::nullopt;
}

std::optional<Error> error_in(const Options& options) {
  if (const auto error = decide::find_option_error(options)) return *error;
  return memory::error_in(memory::memory_plan(options));
}

}  // namespace weir
