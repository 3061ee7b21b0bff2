#include "catalog/checks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "weir/validate.h"

namespace weir::catalog {
namespace {

Error full(std::string detail, std::string fix) {
  return {.code = ErrorCode::kInvalidArgument,
          .retry = Retry::kPointless,
          .detail = std::move(detail),
          .fix = std::move(fix)};
}

Error wrong(std::string_view field, std::string detail, std::string fix) {
  Error error = full(std::move(detail), std::move(fix));
  error.field = std::string(field);
  return error;
}

bool takes_burst(Algorithm algorithm) {
  return algorithm == Algorithm::kGcra || algorithm == Algorithm::kTokenBucket;
}

// A request with these values.
Request probe_of(const LimitValues& values) {
  Request probe{.ns = "n", .identifier = "i", .limit = 1, .duration = kMinDuration};
  if (values.limit) probe.limit = *values.limit;
  if (values.duration) probe.duration = *values.duration;
  if (values.algorithm) probe.algorithm = *values.algorithm;
  probe.burst = values.burst;
  probe.consistency = values.consistency;
  return probe;
}

Error too_large_for_log(Count limit, std::string_view why) {
  return wrong("limit", "limit is " + std::to_string(limit),
               "choose at most " + std::to_string(kMaxLogLimit) + std::string(why));
}

}  // namespace

std::optional<Error> error_in_name(std::string_view field, std::string_view name) {
  if (!name.empty() && name.size() <= kMaxNameBytes) return std::nullopt;
  return wrong(field, std::string(field) + " has " + std::to_string(name.size()) + " bytes",
               "give it 1 to " + std::to_string(kMaxNameBytes) + " bytes");
}

std::optional<Error> error_in(const LimitValues& values) {
  if (values.limit.has_value() != values.duration.has_value()) {
    const char* const missing = values.limit ? "duration" : "limit";
    return wrong(missing, std::string(missing) + " is missing", "give limit and duration together");
  }
  if (values.burst && !takes_burst(values.algorithm.value_or(Algorithm::kSlidingWindow))) {
    return wrong("burst", "burst is set without gcra or token_bucket",
                 "set algorithm to gcra or token_bucket, or remove burst");
  }
  if (values.algorithm == Algorithm::kSlidingLog && values.limit.value_or(0) > kMaxLogLimit) {
    return too_large_for_log(*values.limit, " for sliding_log");
  }
  return error_in(probe_of(values));
}

std::optional<Error> error_in(const WorkspaceView& workspace, const NamespaceView* ns,
                              const OverrideValues& values) {
  if (auto error = error_in_name("identifier", values.identifier)) return error;
  LimitValues applied = ns != nullptr ? ns->values : LimitValues{};
  if (applied.algorithm == Algorithm::kSlidingLog && values.limit > kMaxLogLimit) {
    return too_large_for_log(values.limit, ": the namespace uses sliding_log");
  }
  // A limit of 0 denies every request before it is decided.
  if (values.limit > 0) {
    applied.limit = values.limit;
    applied.duration = values.duration;
    if (!takes_burst(applied.algorithm.value_or(Algorithm::kSlidingWindow))) {
      applied.burst.reset();
    } else if (values.burst) {
      applied.burst = values.burst;
    } else if (applied.burst) {
      applied.burst = std::min(*applied.burst, values.limit);
    }
    if (auto error = error_in(probe_of(applied))) return error;
  }
  const OverrideIndex* const others = ns != nullptr ? ns->overrides.get() : nullptr;
  if (others != nullptr) {
    const std::string refusal = others->refusal_of(values.identifier);
    if (!refusal.empty()) return full(refusal, {});
  }
  const bool exists = others != nullptr && others->find_exact(values.identifier) != nullptr;
  if (!exists && workspace.override_count >= kMaxOverrides) {
    return full("the workspace has " + std::to_string(workspace.override_count) +
                    " overrides, and at most " + std::to_string(kMaxOverrides) + " can be set",
                "delete some, or use another workspace");
  }
  return std::nullopt;
}

std::optional<Error> refuse_namespace(const WorkspaceView& workspace) {
  const size_t count = workspace.by_id.size();
  if (count < kMaxNamespaces) return std::nullopt;
  return full("the workspace has " + std::to_string(count) +
                  " namespaces, deleted ones included, and at most " +
                  std::to_string(kMaxNamespaces) + " can be created",
              "use one that exists, or another workspace");
}

std::optional<Error> refuse_key(const Snapshot& snapshot, std::string_view workspace) {
  const size_t count = snapshot.keys_of(workspace).size();
  if (count < kMaxKeys) return std::nullopt;
  return full("the workspace has " + std::to_string(count) +
                  " keys, expired ones included, and at most " + std::to_string(kMaxKeys) +
                  " can be created",
              "revoke some, or use another workspace");
}

}  // namespace weir::catalog
