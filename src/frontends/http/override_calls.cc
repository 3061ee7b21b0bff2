// The calls on overrides, and the reset of an identifier.

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "catalog/changes.h"
#include "catalog/checks.h"
#include "frontends/http/body_fields.h"
#include "frontends/http/catalog_calls.h"
#include "frontends/http/catalog_reply.h"
#include "frontends/reset_bound.h"
#include "frontends/resolve.h"

namespace weir::frontends {
namespace {

using catalog::NamespaceView;
using catalog::Verb;

constexpr Range kOverrideDuration{1000, kMaxDuration.count()};

std::string to_json(const catalog::Namespace& ns, const catalog::Override& override) {
  JsonObject object;
  object.add("overrideId", override.id.text())
      .add("namespaceId", ns.id)
      .add("identifier", override.identifier)
      .add("limit", override.limit)
      .add("duration", static_cast<uint64_t>(override.duration.count()));
  return object.add_optional("burst", override.burst).text();
}

CatalogReply set_override(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("namespace");
  const std::string identifier = fields.text("identifier");
  const int64_t limit = fields.number("limit", {0, kMaxLimit});
  const int64_t duration = fields.number("duration", kOverrideDuration);
  const auto burst = fields.optional_number("burst", kLimitRange);
  if (!fields.finish()) return invalid(std::move(problems));

  CatalogReply reply;
  catalog::Namespace ns;
  if (call.access.workspace().find(name) == nullptr && !name.starts_with(catalog::kNamespaceIds) &&
      call.access.permissions().may(Verb::kSetOverride) &&
      call.access.permissions().may(Verb::kCreateNamespace)) {
    if (const auto error = catalog::refuse_namespace(call.access.workspace())) {
      return refused(*error);
    }
    ns = catalog::new_namespace(call.access.workspace().record.id, name, call.now);
    reply.writes.push_back(catalog::set_namespace(author_of(call), ns, "namespace.create"));
    reply.writes.back().existing = catalog::Existing::kKeep;
  } else {
    const FoundNamespace found = find_namespace(call, Verb::kSetOverride, name);
    if (found.refusal) return *found.refusal;
    ns = found.view->record;
  }
  catalog::OverrideValues values{
      .identifier = identifier, .limit = static_cast<Count>(limit), .duration = Millis(duration)};
  if (burst) values.burst = static_cast<Count>(*burst);
  const NamespaceView* const known = call.access.workspace().find(ns.name);
  if (const auto error = catalog::error_in(call.access.workspace(), known, values)) {
    return refused(*error);
  }
  const auto prior =
      known != nullptr ? known->before_override(identifier) : catalog::PriorOverride{};
  reply.writes.push_back(catalog::set_override(author_of(call), ns, values, prior));
  reply.data = JsonObject().add("overrideId", reply.writes.back().row.id).text();
  return reply;
}

// The override that a body names by namespace and identifier.
struct FoundOverride {
  const catalog::Namespace* ns = nullptr;
  const catalog::Override* override = nullptr;
  std::optional<CatalogReply> refusal{};
};

FoundOverride find_override(const CatalogCall& call, Verb verb) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("namespace");
  const std::string identifier = fields.text("identifier");
  if (!fields.finish()) return {.refusal = invalid(std::move(problems))};
  const FoundNamespace found = find_namespace(call, verb, name);
  if (found.refusal) return {.refusal = found.refusal};
  const catalog::Override* const override =
      found.view->overrides ? found.view->overrides->find_exact(identifier) : nullptr;
  if (override != nullptr) return {.ns = &found.view->record, .override = override};
  return {.refusal =
              failed(HttpError::kNotFound, "there is no override of \"" + identifier.substr(0, 64) +
                                               "\" in this namespace")};
}

CatalogReply get_override(const CatalogCall& call) {
  const FoundOverride found = find_override(call, Verb::kReadOverride);
  if (found.refusal) return *found.refusal;
  return {.data = to_json(*found.ns, *found.override)};
}

CatalogReply delete_override(const CatalogCall& call) {
  const FoundOverride found = find_override(call, Verb::kDeleteOverride);
  if (found.refusal) return *found.refusal;
  CatalogReply reply;
  reply.writes.push_back(catalog::delete_override(author_of(call), *found.ns, *found.override));
  return reply;
}

CatalogReply list_overrides(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("namespace");
  const auto cursor = fields.optional_text("cursor");
  const int64_t most = fields.optional_number("limit", kPageRange).value_or(kDefaultPage);
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundNamespace found = find_namespace(call, Verb::kReadOverride, name);
  if (found.refusal) return *found.refusal;
  std::span<const std::shared_ptr<const catalog::Override>> all;
  if (found.view->overrides) all = found.view->overrides->all();
  CatalogReply reply;
  set_page(
      all, cursor, most, [](const auto& each) { return each->id.text(); },
      [&](const auto& each) { return to_json(found.view->record, *each); }, reply);
  return reply;
}

CatalogReply reset(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("namespace");
  const std::string identifier = fields.text("identifier", {1, kMaxResetBytes});
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundNamespace found = find_namespace(call, Verb::kReset, name);
  if (found.refusal) return *found.refusal;
  const std::string full = reset_refusal(*found.view, identifier);
  if (!full.empty()) return failed(HttpError::kConflict, full);
  CatalogReply reply;
  reply.writes.push_back(
      catalog::reset_identifier(author_of(call), found.view->record, identifier, call.random()));
  return reply;
}

constexpr std::array kOverrideCalls{
    CatalogOperation{"/v2/ratelimit.setOverride", Verb::kSetOverride, &set_override},
    CatalogOperation{"/v2/ratelimit.getOverride", Verb::kReadOverride, &get_override},
    CatalogOperation{"/v2/ratelimit.listOverrides", Verb::kReadOverride, &list_overrides},
    CatalogOperation{"/v2/ratelimit.deleteOverride", Verb::kDeleteOverride, &delete_override},
    CatalogOperation{"/v2/ratelimit.reset", Verb::kReset, &reset},
};

}  // namespace

std::span<const CatalogOperation> override_calls() {
  return kOverrideCalls;
}

}  // namespace weir::frontends
