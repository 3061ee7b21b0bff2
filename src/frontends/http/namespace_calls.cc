// The calls on namespaces and their limits.

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "catalog/changes.h"
#include "catalog/checks.h"
#include "frontends/http/body_fields.h"
#include "frontends/http/catalog_calls.h"
#include "frontends/http/catalog_reply.h"
#include "frontends/limit_names.h"

namespace weir::frontends {
namespace {

using catalog::NamespaceView;
using catalog::Verb;

constexpr Range kDurationRange{kMinDuration.count(), kMaxDuration.count()};

std::string to_json(const NamespaceView& view) {
  const catalog::LimitValues& values = view.values;
  JsonObject object;
  object.add("namespaceId", view.record.id)
      .add("name", view.record.name)
      .add("createdAt", static_cast<uint64_t>(view.record.created.time_since_epoch().count()))
      .add_optional("limit", values.limit);
  if (values.duration) object.add("duration", static_cast<uint64_t>(values.duration->count()));
  if (values.algorithm) object.add("algorithm", to_string(*values.algorithm));
  object.add_optional("burst", values.burst);
  if (values.consistency) object.add("consistency", to_string(*values.consistency));
  const size_t overrides = view.overrides ? view.overrides->all().size() : 0;
  return object.add("overrides", overrides).text();
}

// The values in a body; those that were not sent are not set.
catalog::LimitValues read_values(BodyFields& fields) {
  catalog::LimitValues values;
  const auto limit = fields.optional_number("limit", kLimitRange);
  const auto duration = fields.optional_number("duration", kDurationRange);
  const auto burst = fields.optional_number("burst", kLimitRange);
  values.algorithm = fields.optional_choice("algorithm", algorithm_from, kAlgorithmNames);
  values.consistency = fields.optional_choice("consistency", consistency_from, kConsistencyNames);
  if (limit) values.limit = static_cast<Count>(*limit);
  if (duration) values.duration = Millis(*duration);
  if (burst) values.burst = static_cast<Count>(*burst);
  return values;
}

CatalogReply create_namespace(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("name");
  const catalog::LimitValues values = read_values(fields);
  if (name.starts_with(catalog::kNamespaceIds)) {
    fields.add("name", "begins with rlns_", "choose another name: this one looks like an id");
  }
  if (!fields.finish()) return invalid(std::move(problems));
  if (!call.access.permissions().may(Verb::kCreateNamespace)) {
    return forbidden(Verb::kCreateNamespace);
  }
  if (const auto error = catalog::error_in(values)) return refused(*error);
  const NamespaceView* const known = call.access.workspace().find(name);
  if (known != nullptr && !known->record.deleted && known->record.created != WallTime{}) {
    return failed(HttpError::kConflict,
                  "the namespace \"" + name + "\" exists: use ratelimit.updateNamespace");
  }
  if (known == nullptr) {
    if (const auto error = catalog::refuse_namespace(call.access.workspace())) {
      return refused(*error);
    }
  }
  catalog::Namespace ns =
      known == nullptr ? catalog::new_namespace(call.access.workspace().record.id, name, call.now)
                       : catalog::new_namespace(known->record, call.now);
  const auto applied = known == nullptr ? std::nullopt : known->values.duration;
  catalog::replace_values(ns, applied, values, call.now);
  CatalogReply reply;
  reply.writes.push_back(catalog::set_namespace(author_of(call), ns, "namespace.create"));
  reply.data = JsonObject().add("namespaceId", ns.id).text();
  return reply;
}

CatalogReply update_namespace(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("namespace");
  const catalog::LimitValues values = read_values(fields);
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundNamespace found = find_namespace(call, Verb::kUpdateNamespace, name);
  if (found.refusal) return *found.refusal;
  if (const auto error = catalog::error_in(values)) return refused(*error);
  catalog::Namespace ns = found.view->record;
  catalog::replace_values(ns, found.view->values.duration, values, call.now);
  CatalogReply reply;
  reply.writes.push_back(catalog::set_namespace(author_of(call), ns, "namespace.update"));
  return reply;
}

CatalogReply get_namespace(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("namespace");
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundNamespace found = find_namespace(call, Verb::kReadNamespace, name);
  if (found.refusal) return *found.refusal;
  return {.data = to_json(*found.view)};
}

CatalogReply list_namespaces(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const auto cursor = fields.optional_text("cursor");
  const int64_t most = fields.optional_number("limit", kPageRange).value_or(kDefaultPage);
  if (!fields.finish()) return invalid(std::move(problems));
  std::vector<const NamespaceView*> all;
  for (const auto& [id, view] : call.access.workspace().by_id) {
    if (view->record.deleted || (cursor && id <= *cursor)) continue;
    if (call.access.permissions().may(Verb::kReadNamespace, id)) all.push_back(view.get());
  }
  const auto id_of = [](const auto* each) { return std::string_view(each->record.id); };
  // One more than the page: the others only show that there are more.
  const size_t shown = std::min(all.size(), static_cast<size_t>(most) + 1);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(shown), {}, id_of);
  CatalogReply reply;
  set_page(
      std::span<const NamespaceView* const>(all), std::nullopt, most, id_of,
      [](const auto* each) { return to_json(*each); }, reply);
  return reply;
}

CatalogReply delete_namespace(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("namespace");
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundNamespace found = find_namespace(call, Verb::kDeleteNamespace, name);
  if (found.refusal) return *found.refusal;
  CatalogReply reply;
  reply.writes.push_back(catalog::delete_namespace(author_of(call), found.view->record));
  return reply;
}

constexpr std::array kNamespaceCalls{
    CatalogOperation{"/v2/ratelimit.createNamespace", Verb::kCreateNamespace, &create_namespace},
    CatalogOperation{"/v2/ratelimit.updateNamespace", Verb::kUpdateNamespace, &update_namespace},
    CatalogOperation{"/v2/ratelimit.getNamespace", Verb::kReadNamespace, &get_namespace},
    CatalogOperation{"/v2/ratelimit.listNamespaces", Verb::kReadNamespace, &list_namespaces},
    CatalogOperation{"/v2/ratelimit.deleteNamespace", Verb::kDeleteNamespace, &delete_namespace},
};

}  // namespace

std::span<const CatalogOperation> namespace_calls() {
  return kNamespaceCalls;
}

}  // namespace weir::frontends
