#include "frontends/resolve.h"

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
  request.limit = override.limit;
  request.duration = override.duration;
  if (!has_burst(request.algorithm)) return;
  if (override.burst) {
    request.burst = override.burst;
  } else if (request.burst && *request.burst > override.limit) {
    request.burst = override.limit;
  }
}

}  // namespace

Resolved resolve(const Access& access, catalog::Verb verb, catalog::Catalog& catalog,
                 Request& request, Identifiers& identifiers) {
  using catalog::CatalogState;
  const catalog::WorkspaceView& workspace = access.workspace();
  request.workspace = catalog::tuple_workspace(workspace.record.id);
  Resolved resolved;
  const auto found = workspace.by_name.find(request.ns);
  if (found == workspace.by_name.end()) [[unlikely]] {
    // A key with rights on single namespaces may name one by its id.
    resolved.ns = workspace.find(request.ns);
    if (resolved.ns != nullptr) request.ns = resolved.ns->record.name;
  } else {
    resolved.ns = found->second.get();
  }
  if (resolved.ns == nullptr) {
    const CatalogState state = catalog.state();
    const bool known = state == CatalogState::kReady;
    const bool may_create = access.permissions().may(catalog::Verb::kCreateNamespace);
    // While the catalog does not answer, the namespace may exist.
    if (!access.permissions().may(verb) || (known && !may_create) ||
        request.ns.starts_with(catalog::kNamespaceIds)) {
      resolved.resolution = Resolution::kUnknown;
      return resolved;
    }
    if (known && workspace.by_id.size() < catalog::kMaxNamespaces) {
      catalog.create_namespace(workspace.record.id, request.ns, access.actor());
    }
  } else {
    const catalog::Namespace& record = resolved.ns->record;
    if (!access.permissions().may(verb, record.id)) [[unlikely]] {
      resolved.resolution =
          access.permissions().knows(record.id) ? Resolution::kForbidden : Resolution::kUnknown;
      return resolved;
    }
    if (record.deleted) [[unlikely]] {
      resolved.resolution = Resolution::kGone;
      return resolved;
    }
    take_values(resolved.ns->values, request);
    if (resolved.ns->overrides != nullptr) {
      resolved.override = resolved.ns->overrides->find(request.identifier);
      if (resolved.override != nullptr) take_override(*resolved.override, request);
    }
  }
  if (resolved.ns != nullptr && resolved.ns->resets != nullptr) {
    const auto reset = resolved.ns->resets->find(request.identifier);
    if (reset != resolved.ns->resets->end()) {
      request.identifier =
          identifiers.emplace_back(identifier_after(request.identifier, reset->second.epoch));
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
  }
  return resolved;
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
