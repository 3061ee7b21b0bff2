#include "catalog/changes.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace weir::catalog {
namespace {

constexpr size_t kMaxDetailBytes = 2000;
constexpr size_t kShownKeyBytes = 12;

AuditEntry entry_of(const Author& author, std::string_view workspace, std::string_view action,
                    std::string_view target, std::string detail) {
  detail.resize(std::min(detail.size(), kMaxDetailBytes));
  return {.workspace = std::string(workspace),
          .actor = std::string(author.actor),
          .action = std::string(action),
          .target = std::string(target),
          .detail = std::move(detail)};
}

std::string text_of(const LimitValues& values) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::string(value);
  };
  if (values.limit) add("limit", std::to_string(*values.limit));
  if (values.duration) add("duration", std::to_string(values.duration->count()));
  if (values.algorithm) add("algorithm", to_string(*values.algorithm));
  if (values.burst) add("burst", std::to_string(*values.burst));
  if (values.consistency) add("consistency", to_string(*values.consistency));
  return text.empty() ? "no values" : text;
}

// The limits and bursts before and after a change.
struct BurstChange {
  std::optional<Count> limit_before{};
  std::optional<Count> burst_before{};
  std::optional<Count> limit_after{};
  std::optional<Count> burst_after{};
};

// A record does not keep the bursts of its past, so the larger one counts for all.
Millis past_counts_for(Millis duration, const BurstChange& change) {
  return std::max(counts_for(duration, change.limit_before.value_or(0), change.burst_before),
                  counts_for(duration, change.limit_after.value_or(0), change.burst_after));
}

BurstChange change_of(const Override* before, const Override& after) {
  BurstChange change{.limit_after = after.limit, .burst_after = after.burst};
  if (before != nullptr) {
    change.limit_before = before->limit;
    change.burst_before = before->burst;
  }
  return change;
}

void drop_past(std::vector<PastDuration>& past, const BurstChange& change, WallTime now) {
  std::erase_if(past, [&](const PastDuration& each) {
    return counts_until(each.until, past_counts_for(each.duration, change)) < now;
  });
}

void add_past(std::vector<PastDuration>& past, Millis duration, WallTime until) {
  for (const PastDuration& each : past) {
    if (each.duration == duration) until = std::max(until, each.until);
  }
  std::erase_if(past, [&](const PastDuration& each) { return each.duration == duration; });
  past.push_back({.duration = duration, .until = until});
  std::ranges::sort(past, std::greater(), &PastDuration::until);
  past.resize(std::min(past.size(), kMostPast));
}

}  // namespace

CatalogWrite create_workspace(const Author& author, std::string_view name, uint64_t random) {
  const Workspace workspace{.id = workspace_id(random), .name = std::string(name)};
  return {.row = row_of(workspace),
          .audit = entry_of(author, workspace.id, "workspace.create", workspace.id,
                            "name " + workspace.name)};
}

CatalogWrite delete_workspace(const Author& author, const Workspace& workspace) {
  Workspace deleted = workspace;
  deleted.deleted = true;
  return {.row = row_of(deleted),
          .audit = entry_of(author, workspace.id, "workspace.delete", workspace.id,
                            "name " + workspace.name)};
}

Namespace new_namespace(std::string_view workspace, std::string_view name, WallTime now) {
  return {.id = namespace_id(workspace, name),
          .workspace = std::string(workspace),
          .name = std::string(name),
          .values = {},
          .created = now};
}

Namespace new_namespace(const Namespace& deleted, WallTime now) {
  Namespace ns = new_namespace(deleted.workspace, deleted.name, now);
  ns.values = deleted.values;
  ns.since = deleted.since;
  ns.past = deleted.past;
  return ns;
}

void replace_values(Namespace& ns, const std::optional<Millis>& applied, const LimitValues& values,
                    WallTime now) {
  if (applied != values.duration) {
    drop_past(ns.past,
              {.limit_before = ns.values.limit,
               .burst_before = ns.values.burst,
               .limit_after = values.limit,
               .burst_after = values.burst},
              now);
    if (applied) add_past(ns.past, *applied, now);
    ns.since = now;
  }
  ns.values = values;
}

CatalogWrite set_namespace(const Author& author, const Namespace& ns, std::string_view action) {
  return {.row = row_of(ns),
          .audit = entry_of(author, ns.workspace, action, ns.id,
                            "name " + ns.name + ", " + text_of(ns.values))};
}

CatalogWrite delete_namespace(const Author& author, const Namespace& ns) {
  Namespace deleted = ns;
  deleted.deleted = true;
  return {.row = row_of(deleted),
          .audit = entry_of(author, ns.workspace, "namespace.delete", ns.id, "name " + ns.name)};
}

CatalogWrite set_override(const Author& author, const Namespace& ns, const OverrideValues& values,
                          const PriorOverride& prior) {
  Override override{.identifier = std::string(values.identifier),
                    .limit = values.limit,
                    .duration = values.duration,
                    .burst = values.burst,
                    .id = override_id(ns.id, values.identifier),
                    .since = author.now};
  if (prior.same != nullptr) {
    override.past = prior.same->past;
    drop_past(override.past, change_of(prior.same, override), author.now);
  }
  const bool exists = prior.same != nullptr && !prior.same->deleted;
  if (exists && prior.same->duration == values.duration) {
    override.since = prior.same->since;
  } else if (prior.same != nullptr) {
    const WallTime until = exists ? author.now : prior.same->since;
    add_past(override.past, prior.same->duration, until);
  }
  if (!exists && prior.weaker != nullptr) {
    add_past(override.past, prior.weaker->duration, author.now);
    std::vector<PastDuration> older = prior.weaker->past;
    drop_past(older, change_of(prior.weaker, override), author.now);
    for (const PastDuration& each : older) add_past(override.past, each.duration, each.until);
  }
  const LimitValues shown{
      .limit = values.limit, .duration = values.duration, .burst = values.burst};
  return {.row = row_of(OverrideRecord{ns.workspace, ns.id, override}),
          .audit = entry_of(author, ns.workspace, "override.set", override.id,
                            text_of(shown) + ", identifier " + override.identifier)};
}

CatalogWrite delete_override(const Author& author, const Namespace& ns, const Override& override) {
  Override deleted = override;
  deleted.deleted = true;
  deleted.since = author.now;
  return {.row = row_of(OverrideRecord{ns.workspace, ns.id, std::move(deleted)}),
          .audit = entry_of(author, ns.workspace, "override.delete", override.id,
                            "identifier " + override.identifier)};
}

CatalogWrite reset_identifier(const Author& author, const Namespace& ns,
                              std::string_view identifier, uint64_t random) {
  const Reset reset{.id = reset_id(ns.id, identifier),
                    .workspace = ns.workspace,
                    .namespace_id = ns.id,
                    .identifier = std::string(identifier),
                    .epoch = random | 1,
                    .kept_until = author.now + kResetKept};
  return {.row = row_of(reset),
          .audit = entry_of(author, ns.workspace, "identifier.reset", reset.id,
                            "identifier " + reset.identifier)};
}

void apply_bounds(KeyValues& values, const KeyBounds& bounds) {
  const auto bound = [](auto& value, const auto& most) {
    if (most && (!value || *value > *most)) value = most;
  };
  bound(values.expires, bounds.expires);
  bound(values.per_second, bounds.per_second);
}

NewKey create_key(const Author& author, const KeyValues& values, const KeyBits& bits) {
  NewKey fresh;
  fresh.secret = rules::make_key("weir_", bits);
  const rules::KeyHash hash = rules::hash_of(fresh.secret);
  fresh.key = {.id = key_id(hash),
               .workspace = std::string(values.workspace),
               .name = std::string(values.name),
               .hash = hash,
               .start = fresh.secret.substr(0, kShownKeyBytes),
               .permissions = values.permissions,
               .created = author.now,
               .expires = values.expires,
               .per_second = values.per_second};
  std::string permissions;
  for (const std::string& each : values.permissions) permissions += " " + each;
  fresh.write = {.row = row_of(fresh.key),
                 .audit = entry_of(author, fresh.key.workspace, "key.create", fresh.key.id,
                                   "name " + fresh.key.name + ", permissions" + permissions)};
  return fresh;
}

CatalogWrite revoke_key(const Author& author, const Key& key) {
  Key revoked = key;
  revoked.revoked = true;
  return {.row = row_of(revoked),
          .audit = entry_of(author, key.workspace, "key.revoke", key.id, "name " + key.name)};
}

Rotation rotate_key(const Author& author, const Key& key, Millis grace, const KeyBits& bits,
                    const KeyBounds& bounds) {
  Rotation rotation;
  KeyValues values{.workspace = key.workspace,
                   .name = key.name,
                   .permissions = key.permissions,
                   .expires = key.expires,
                   .per_second = key.per_second};
  apply_bounds(values, bounds);
  rotation.fresh = create_key(author, values, bits);
  Key old = key;
  old.revoked = grace <= Millis(0);
  old.expires = std::min(author.now + grace, key.expires.value_or(WallTime::max()));
  rotation.old = {.row = row_of(old),
                  .audit = entry_of(author, key.workspace, "key.rotate", key.id,
                                    "replaced by " + rotation.fresh.key.id),
                  .expected = row_of(key)};
  return rotation;
}

}  // namespace weir::catalog
