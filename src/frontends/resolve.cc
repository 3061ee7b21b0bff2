#include "frontends/resolve.h"

#include <algorithm>
#include <array>

#include "weir/validate.h"

namespace weir::frontends {
namespace {

bool has_burst(Algorithm algorithm) {
  return algorithm == Algorithm::kGcra || algorithm == Algorithm::kTokenBucket;
}

void take_values(const catalog::LimitValues& values, Request& request) {
  if (values.limit) request.limit = *values.limit;
  if (values.duration) request.duration = *values.duration;
  // The duration is not part of such a key, which only these two algorithms can express.
  if (values.algorithm && (!request.across_durations || has_burst(*values.algorithm))) {
    request.algorithm = *values.algorithm;
    if (!has_burst(request.algorithm)) request.burst.reset();
  }
  if (values.burst && has_burst(request.algorithm)) {
    request.burst = values.burst;
  } else if (values.limit && request.burst && *request.burst > *values.limit) {
    request.burst = values.limit;  // what a request sends does not raise the limit
  }
  if (values.consistency) request.consistency = values.consistency;
}

void take_override(const catalog::Override& override, Request& request) {
  __builtin_prefetch(override.id.text().data());  // for the answer
  request.limit = override.limit;
  request.duration = override.duration;
  if (!has_burst(request.algorithm)) return;
  if (override.burst) {
    request.burst = override.burst;
  } else if (request.burst && *request.burst > override.limit) {
    request.burst = override.limit;
  }
}

// Values of the catalog were checked against those of the namespace, which may have changed since,
// and a request may bring its own algorithm. A request must not fail for that, and a batch not for
// one such item: what cannot be decided as it is named is decided by the nearest that can be.
void make_decidable(Request& request) {
  // sliding_log keeps a stamp for each admission. sliding_window_strict takes any limit and never
  // admits more than it in any window either.
  if (request.algorithm == Algorithm::kSlidingLog) {
    if (request.limit > kMaxLogLimit) request.algorithm = Algorithm::kSlidingWindowStrict;
  } else if (has_burst(request.algorithm)) {
    // A burst of the limit drains within the duration, and these numbers are exact for any of them.
    constexpr Count kExact = Count{1} << 29;
    const bool is_large = request.limit > kExact || request.burst.value_or(0) > kExact;
    if ((is_large || request.consistency == Consistency::kExact) && error_in(request)) {
      request.burst.reset();
      if (error_in(request)) request.limit = std::min(request.limit, kExact);
    }
  }
  // Such a request is not shared, so there is nothing to lose.
  if (request.on_origin_loss && request.consistency == Consistency::kRelaxed &&
      request.algorithm != Algorithm::kSlidingWindow &&
      request.algorithm != Algorithm::kFixedWindow) {
    request.on_origin_loss.reset();
  }
}

// The durations of a request before those of an override.
struct Durations {
  Millis sent{0};
  Millis default_duration{0};  // with the values of the namespace
};

// The durations that applied before the last changes.
class PastList {
 public:
  PastList(WallTime now, const Request& request)
      : now_(now),
        present_(request.duration),
        counts_for_(catalog::counts_for(request.duration, request.limit, request.burst)) {}

  // Whether what was counted before a change may count now.
  [[nodiscard]] bool is_recent(WallTime changed) const {
    return changed != WallTime{} && now_ < catalog::counts_until(changed, counts_for_);
  }
  void add(Millis duration, WallTime until) {
    if (duration == present_ || duration < kMinDuration || duration > kMaxDuration) return;
    changed_ = std::max(changed_, until);
    for (size_t i = 0; i < count_; ++i) {
      if (entries_[i].duration != duration) continue;
      entries_[i].until = std::max(entries_[i].until, until);
      return;
    }
    if (count_ < entries_.size()) {
      entries_[count_++] = {.duration = duration, .until = until};
      return;
    }
    const auto oldest = std::ranges::min_element(entries_, {}, &catalog::PastDuration::until);
    if (oldest->until < until) *oldest = {.duration = duration, .until = until};
  }
  // They applied until `latest` at most.
  void add(const std::vector<catalog::PastDuration>& past, WallTime latest = WallTime::max()) {
    for (const catalog::PastDuration& each : past) add(each.duration, std::min(each.until, latest));
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  // The latest of them.
  [[nodiscard]] PastDurations take() {
    std::sort(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count_),
              [](const auto& a, const auto& b) { return a.until > b.until; });
    PastDurations past{.changed = changed_, .count = std::min(count_, PastDurations::kMost)};
    for (size_t i = 0; i < past.count; ++i) past.durations[i] = entries_[i].duration;
    return past;
  }

 private:
  const WallTime now_;
  const Millis present_;
  const Millis counts_for_;
  WallTime changed_{};
  size_t count_ = 0;
  std::array<catalog::PastDuration, 4 * catalog::kMostPast> entries_{};
};

// A wildcard may have taken over from others that still exist.
void add_replaced(const catalog::OverrideIndex& overrides, const catalog::Override& present,
                  std::string_view identifier, PastList& list) {
  if (present.identifier == identifier) return;  // it has their durations in its past
  const auto matches = overrides.find_newest(identifier);
  for (const catalog::Override* const other : matches.all()) {
    if (other == &present) continue;
    if (other->since <= present.since) list.add(other->duration, present.since);
    list.add(other->past, present.since);
  }
}

void add_ended(const catalog::OverrideIndex& ended, const catalog::Override* present,
               std::string_view identifier, PastList& list) {
  const bool exact = present != nullptr && present->identifier == identifier;
  const auto matches = ended.find_newest(identifier);
  for (const catalog::Override* const each : matches.all()) {
    // An override of this very identifier applied before and after the end of the other one.
    if (exact && present->since <= each->since) continue;
    if (!list.is_recent(each->since)) continue;
    list.add(each->duration, each->since);
    list.add(each->past);
  }
}

void name_past(WallTime now, const Durations& before, std::string_view identifier,
               const Resolved& resolved, Request& request, Identifiers& storage) {
  const catalog::NamespaceView& ns = *resolved.ns;
  const catalog::Override* const override = resolved.override;
  const bool may_have_ended = ns.ended != nullptr && now < ns.ended_until;
  if (ns.record.since == WallTime{} && override == nullptr && !may_have_ended) [[likely]]
    return;
  PastList list(now, request);
  if (override != nullptr && list.is_recent(override->since)) {
    list.add(before.default_duration, override->since);
    list.add(override->past);
    add_replaced(*ns.overrides, *override, identifier, list);
  }
  if (list.is_recent(ns.record.since)) {
    list.add(ns.record.past);
    if (ns.values.duration) list.add(before.sent, ns.record.since);
  }
  if (may_have_ended) add_ended(*ns.ended, override, identifier, list);
  if (!list.empty()) request.past = &storage.past.emplace_back(list.take());
}

}  // namespace

Resolved resolve_any(Access& access, catalog::Verb verb, catalog::Catalog& catalog,
                     Request& request, Identifiers& identifiers) {
  using catalog::CatalogState;
  const catalog::WorkspaceView& workspace = access.workspace();
  request.workspace = access.tuple_workspace();
  request.past = nullptr;
  Resolved resolved;
  Durations limits;
  if (access.is_last(request.ns)) {
    resolved.ns = access.last();
  } else if (const auto found = workspace.by_name.find(request.ns);
             found != workspace.by_name.end()) {
    resolved.ns = found->second.get();
    access.remember(request.ns, resolved.ns);
  } else {
    // A key with rights on single namespaces may name one by its id.
    resolved.ns = workspace.find(request.ns);
    if (resolved.ns != nullptr) request.ns = resolved.ns->record.name;
  }
  if (resolved.ns == nullptr) {
    const CatalogState state = catalog.state();
    const bool known = state == CatalogState::kReady;
    const bool may_create = access.permissions().may(catalog::Verb::kCreateNamespace);
    // While the catalog does not answer, the namespace may exist.
    if (!access.permissions().may(verb)) {
      resolved.resolution = Resolution::kNoRight;
    } else if (request.ns.starts_with(catalog::kNamespaceIds)) {
      resolved.resolution = Resolution::kUnknownId;
    } else if (known && !may_create) {
      resolved.resolution = Resolution::kUnknown;
    }
    if (resolved.resolution != Resolution::kReady) return resolved;
    // Without a store it does not appear later, but for another snapshot.
    if (state == CatalogState::kNone) access.remember(request.ns, nullptr);
    if (known && workspace.by_id.size() < catalog::kMaxNamespaces) {
      catalog.create_namespace(workspace.record.id, request.ns, access.actor());
    }
  } else {
    const catalog::Namespace& record = resolved.ns->record;
    if (!access.permissions().may(verb, record.id)) [[unlikely]] {
      resolved.resolution =
          access.permissions().knows(record.id) ? Resolution::kForbidden : Resolution::kNoRight;
      return resolved;
    }
    if (record.deleted) [[unlikely]] {
      resolved.resolution = Resolution::kGone;
      return resolved;
    }
    limits.sent = request.duration;
    take_values(resolved.ns->values, request);
    limits.default_duration = request.duration;
    if (resolved.ns->overrides != nullptr) {
      resolved.override = resolved.ns->overrides->find(request.identifier);
      if (resolved.override != nullptr) take_override(*resolved.override, request);
    }
    if (resolved.override != nullptr || !resolved.ns->values.empty()) make_decidable(request);
  }
  const std::string_view identifier = request.identifier;
  if (resolved.ns != nullptr && resolved.ns->resets != nullptr) {
    const auto reset = resolved.ns->resets->find(request.identifier);
    if (reset != resolved.ns->resets->end()) {
      request.identifier = identifiers.after_reset.emplace_back(
          identifier_after(request.identifier, reset->second.epoch));
    }
  }
  if (resolved.override != nullptr && request.limit == 0) {
    // Such a cost never fits.
    resolved.denies_all = verb != catalog::Verb::kReset;
    request.limit = 1;
    request.cost = 2;
    request.burst.reset();
  } else if (verb != catalog::Verb::kReset &&
             (request.limit == 0 || request.duration == Millis(0))) {
    resolved.resolution = Resolution::kNoLimit;
  } else if (resolved.ns != nullptr && !request.across_durations) {
    name_past(access.now(), limits, identifier, resolved, request, identifiers);
  }
  return resolved;
}

std::string why_unknown(Resolution resolution, catalog::Verb verb) {
  if (resolution == Resolution::kUnknownId) return "and an id creates none: use a name";
  const bool creates = resolution == Resolution::kUnknown;
  if (creates) verb = catalog::Verb::kCreateNamespace;
  std::string text = "and the key lacks the permission " + catalog::permission_for(verb);
  if (creates) text += " to create it: " + std::string(kNamespaceRemedy);
  return text;
}

void set_limit_of_zero(Verdict& verdict) {
  verdict.limit = 0;
  verdict.remaining = 0;
}

Request requests_of_key(const Access& access) {
  return {.workspace = "weir",
          .ns = "requests of a key",
          .identifier = access.actor(),
          .limit = access.per_second().value_or(1),
          .duration = Millis(1000),
          .consistency = Consistency::kRelaxed};
}

std::string identifier_after(std::string_view identifier, uint64_t epoch) {
  return std::string(identifier) + "\x1e" + std::to_string(epoch);
}

}  // namespace weir::frontends
