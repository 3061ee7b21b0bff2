#include "frontends/http/catalog_api.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "catalog/changes.h"
#include "frontends/bytes.h"
#include "frontends/http/body_fields.h"
#include "frontends/http/json_text.h"
#include "frontends/resolve.h"

namespace weir::frontends {
namespace {

using catalog::Author;
using catalog::NamespaceView;
using catalog::Verb;

constexpr Range kPageRange{1, 100};
constexpr int64_t kDefaultPage = 50;
constexpr Range kLimitRange{1, kMaxLimit};
constexpr Range kDurationRange{kMinDuration.count(), kMaxDuration.count()};
constexpr Range kOverrideDuration{1000, kMaxDuration.count()};
constexpr std::string_view kAlgorithms =
    "sliding_window, sliding_window_strict, fixed_window, sliding_log, gcra or token_bucket";
constexpr std::string_view kConsistencies = "converge, exact or relaxed";

// Builds a JSON object.
class JsonObject {
 public:
  JsonObject() { out_.append('{'); }
  JsonObject& add(std::string_view name, std::string_view text) {
    key(name);
    append_json(out_, text);
    return *this;
  }
  JsonObject& add(std::string_view name, uint64_t number) {
    key(name);
    out_.append(number);
    return *this;
  }
  JsonObject& add_flag(std::string_view name, bool value) {
    key(name);
    out_.append(value ? std::string_view("true") : "false");
    return *this;
  }
  JsonObject& add_raw(std::string_view name, std::string_view json) {
    key(name);
    out_.append(json);
    return *this;
  }
  template <typename Number>
  JsonObject& add_optional(std::string_view name, const std::optional<Number>& number) {
    if (number) add(name, static_cast<uint64_t>(*number));
    return *this;
  }
  [[nodiscard]] std::string text() {
    out_.append('}');
    return std::string(out_.unread());
  }

 private:
  void key(std::string_view name) {
    if (!first_) out_.append(',');
    first_ = false;
    out_.append_all('"', name, std::string_view("\":"));
  }
  Bytes out_;
  bool first_ = true;
};

std::string json_array(std::span<const std::string> items) {
  std::string text = "[";
  for (const std::string& item : items) text += (text.size() > 1 ? "," : "") + item;
  return text + "]";
}

std::string json_texts(std::span<const std::string> texts) {
  Bytes out;
  out.append('[');
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.append(',');
    append_json(out, texts[i]);
  }
  out.append(']');
  return std::string(out.unread());
}

CatalogReply failed(HttpError error, std::string detail) {
  return {.error = error, .detail = std::move(detail)};
}

CatalogReply invalid(BodyProblems problems) {
  std::string detail =
      problems.size() == 1 ? problems[0].message : "the body has several problems; see errors";
  return {.error = HttpError::kInvalidBody,
          .detail = std::move(detail),
          .problems = std::move(problems)};
}

CatalogReply forbidden(Verb verb, std::string_view target = {}) {
  return failed(HttpError::kForbidden,
                "the key lacks the permission " + catalog::permission_for(verb, target));
}

Author author_of(const CatalogCall& call) {
  return {.actor = call.access.actor(), .now = call.now};
}

// A namespace on which the key has a right, or the reply that refuses it.
struct FoundNamespace {
  const NamespaceView* view = nullptr;
  std::optional<CatalogReply> refusal{};
};

FoundNamespace find_namespace(const CatalogCall& call, Verb verb, std::string_view name) {
  const NamespaceView* const view = call.access.workspace().find(name);
  const catalog::PermissionSet& rights = call.access.permissions();
  if (view == nullptr || !rights.knows(view->record.id)) {
    return {.refusal =
                failed(HttpError::kNotFound, "namespace is \"" + std::string(name.substr(0, 64)) +
                                                 "\", which does not exist in this workspace")};
  }
  if (!rights.may(verb, view->record.id)) return {.refusal = forbidden(verb, view->record.id)};
  if (view->record.deleted) {
    return {.refusal = failed(HttpError::kGone, "the namespace \"" + view->record.name +
                                                    "\" was deleted: create it again")};
  }
  return {.view = view};
}

// The page of `all` behind the cursor; `id_of` gives the cursor of an item.
template <typename Item, typename IdOf, typename ToJson>
void set_page(std::span<const Item> all, const std::optional<std::string>& cursor, int64_t most,
              const IdOf& id_of, const ToJson& to_json, CatalogReply& reply) {
  auto at = all.begin();
  if (cursor) {
    at = std::ranges::find_if(all, [&](const Item& item) { return id_of(item) == *cursor; });
    // The item of the cursor was deleted meanwhile: the items are in the order of their ids.
    at = at != all.end()
             ? at + 1
             : std::ranges::find_if(all, [&](const Item& item) { return id_of(item) > *cursor; });
  }
  std::vector<std::string> items;
  std::string last;
  for (; at != all.end() && std::cmp_less(items.size(), most); ++at) {
    items.push_back(to_json(*at));
    last = id_of(*at);
  }
  reply.data = json_array(items);
  JsonObject pagination;
  if (at != all.end()) pagination.add("cursor", last);
  reply.pagination = pagination.add_flag("hasMore", at != all.end()).text();
}

// Overrides.

std::string to_json(const catalog::Override& override) {
  JsonObject object;
  object.add("overrideId", override.id)
      .add("namespaceId", override.namespace_id)
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
  if (known != nullptr && known->overrides) {
    const std::string refusal = known->overrides->refusal_of(identifier);
    if (!refusal.empty()) return failed(HttpError::kConflict, refusal);
  }
  const bool is_log = known != nullptr && known->values.algorithm == Algorithm::kSlidingLog;
  if (is_log && values.limit > kMaxLogLimit) {
    problems.push_back({.location = "body.limit",
                        .message = "limit is " + std::to_string(limit),
                        .fix = "choose at most " + std::to_string(kMaxLogLimit) +
                               ": the namespace uses sliding_log"});
    return invalid(std::move(problems));
  }
  const auto prior =
      known != nullptr ? known->before_override(identifier) : catalog::PriorOverride{};
  reply.writes.push_back(catalog::set_override(author_of(call), ns, values, prior));
  reply.data = JsonObject().add("overrideId", reply.writes.back().row.id).text();
  return reply;
}

// The override that a body names by namespace and identifier.
struct FoundOverride {
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
  if (override != nullptr) return {.override = override};
  return {.refusal =
              failed(HttpError::kNotFound, "there is no override of \"" + identifier.substr(0, 64) +
                                               "\" in this namespace")};
}

CatalogReply get_override(const CatalogCall& call) {
  const FoundOverride found = find_override(call, Verb::kReadOverride);
  if (found.refusal) return *found.refusal;
  return {.data = to_json(*found.override)};
}

CatalogReply delete_override(const CatalogCall& call) {
  const FoundOverride found = find_override(call, Verb::kDeleteOverride);
  if (found.refusal) return *found.refusal;
  CatalogReply reply;
  reply.writes.push_back(catalog::delete_override(author_of(call), *found.override));
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
  std::vector<const catalog::Override*> all;
  if (found.view->overrides) {
    for (const auto& each : found.view->overrides->all()) all.push_back(each.get());
  }
  std::ranges::sort(all, {}, [](const auto* each) { return std::string_view(each->id); });
  CatalogReply reply;
  set_page<const catalog::Override*>(
      all, cursor, most, [](const auto* each) { return each->id; },
      [](const auto* each) { return to_json(*each); }, reply);
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
  CatalogReply reply;
  reply.writes.push_back(
      catalog::reset_identifier(author_of(call), found.view->record, identifier, call.random()));
  return reply;
}

// Namespaces.

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
  values.algorithm = fields.optional_choice("algorithm", algorithm_from, kAlgorithms);
  values.consistency = fields.optional_choice("consistency", consistency_from, kConsistencies);
  if (limit) values.limit = static_cast<Count>(*limit);
  if (duration) values.duration = Millis(*duration);
  if (burst) values.burst = static_cast<Count>(*burst);
  if (fields.has("limit") != fields.has("duration")) {
    fields.add(fields.has("limit") ? "duration" : "limit", "is missing",
               "give limit and duration together");
  }
  const bool takes_burst =
      values.algorithm == Algorithm::kGcra || values.algorithm == Algorithm::kTokenBucket;
  if (burst && !takes_burst) {
    fields.add("burst", "is set without gcra or token_bucket",
               "set algorithm to gcra or token_bucket, or remove burst");
  }
  if (values.algorithm == Algorithm::kSlidingLog && values.limit.value_or(0) > kMaxLogLimit) {
    fields.add("limit", "is " + std::to_string(*values.limit),
               "choose at most " + std::to_string(kMaxLogLimit) + " for sliding_log");
  }
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
  const NamespaceView* const known = call.access.workspace().find(name);
  if (known != nullptr && !known->record.deleted && known->record.created != WallTime{}) {
    return failed(HttpError::kConflict,
                  "the namespace \"" + name + "\" exists: use ratelimit.updateNamespace");
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
    if (view->record.deleted) continue;
    if (call.access.permissions().may(Verb::kReadNamespace, id)) all.push_back(view.get());
  }
  std::ranges::sort(all, {}, [](const auto* each) { return std::string_view(each->record.id); });
  CatalogReply reply;
  set_page<const NamespaceView*>(
      all, cursor, most, [](const auto* each) { return each->record.id; },
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

// Keys.

std::string to_json(const catalog::Key& key) {
  JsonObject object;
  object.add("keyId", key.id)
      .add("workspaceId", key.workspace)
      .add("name", key.name)
      .add("start", key.start)
      .add_raw("permissions", json_texts(key.permissions))
      .add("createdAt", static_cast<uint64_t>(key.created.time_since_epoch().count()));
  if (key.expires) {
    object.add("expires", static_cast<uint64_t>(key.expires->time_since_epoch().count()));
  }
  return object.add_optional("perSecond", key.per_second).text();
}

catalog::KeyBits random_bits(const CatalogCall& call) {
  return {call.random(), call.random(), call.random()};
}

// The workspace of a call that names one, which only the root key may.
struct FoundWorkspace {
  std::string id;
  std::optional<CatalogReply> refusal{};
};

FoundWorkspace find_workspace(const CatalogCall& call, const std::optional<std::string>& id) {
  if (!id) return {.id = call.access.workspace().record.id};
  const bool own = *id == call.access.workspace().record.id;
  if (own || (call.access.is_root() && call.snapshot.find_workspace(*id) != nullptr)) {
    return {.id = *id};
  }
  return {.id = {},
          .refusal = failed(HttpError::kNotFound,
                            "workspaceId is \"" + id->substr(0, 64) + "\", which does not exist")};
}

CatalogReply create_key(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("name");
  const std::vector<std::string> permissions = fields.texts("permissions");
  const auto expires = fields.optional_number("expires", {0, int64_t{1} << 53});
  const auto per_second = fields.optional_number("perSecond", kLimitRange);
  const auto workspace_id = fields.optional_text("workspaceId");
  const auto rights = catalog::PermissionSet::parse(permissions);
  if (!rights) fields.add("permissions", rights.error().detail.substr(12), rights.error().fix);
  if (expires && WallTime(Millis(*expires)) <= call.now) {
    fields.add("expires", "is in the past", "give the Unix time in ms");
  }
  if (!fields.finish()) return invalid(std::move(problems));
  if (!call.access.permissions().may(Verb::kCreateKey)) return forbidden(Verb::kCreateKey);
  if (!call.access.permissions().covers(*rights)) {
    return failed(HttpError::kForbidden,
                  "a key cannot create a key with permissions that it does not have");
  }
  const FoundWorkspace workspace = find_workspace(call, workspace_id);
  if (workspace.refusal) return *workspace.refusal;
  catalog::KeyValues values{.workspace = workspace.id, .name = name, .permissions = permissions};
  if (expires) values.expires = WallTime(Millis(*expires));
  if (per_second) values.per_second = static_cast<Count>(*per_second);
  // A key gives no more than it has.
  const auto bound = [](auto& value, const auto& most) {
    if (most && (!value || *value > *most)) value = most;
  };
  bound(values.expires, call.access.expires());
  bound(values.per_second, call.access.per_second());
  catalog::NewKey fresh = catalog::create_key(author_of(call), values, random_bits(call));
  CatalogReply reply;
  reply.data = JsonObject().add("keyId", fresh.key.id).add("key", fresh.secret).text();
  reply.writes.push_back(std::move(fresh.write));
  return reply;
}

struct FoundKey {
  const catalog::KeyView* key = nullptr;
  std::optional<CatalogReply> refusal{};
};

FoundKey find_key(const CatalogCall& call, Verb verb, std::string_view id) {
  if (!call.access.permissions().may(verb)) return {.refusal = forbidden(verb)};
  const catalog::KeyView* const key = call.snapshot.find_key_by_id(id);
  const bool visible =
      key != nullptr &&
      (call.access.is_root() || key->record.workspace == call.access.workspace().record.id);
  if (visible) return {.key = key};
  return {.refusal =
              failed(HttpError::kNotFound, "keyId is \"" + std::string(id.substr(0, 64)) +
                                               "\", which does not exist in this workspace")};
}

CatalogReply get_key(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string id = fields.text("keyId");
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundKey found = find_key(call, Verb::kReadKey, id);
  if (found.refusal) return *found.refusal;
  return {.data = to_json(found.key->record)};
}

CatalogReply list_keys(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const auto cursor = fields.optional_text("cursor");
  const int64_t most = fields.optional_number("limit", kPageRange).value_or(kDefaultPage);
  const auto workspace_id = fields.optional_text("workspaceId");
  if (!fields.finish()) return invalid(std::move(problems));
  if (!call.access.permissions().may(Verb::kReadKey)) return forbidden(Verb::kReadKey);
  const FoundWorkspace workspace = find_workspace(call, workspace_id);
  if (workspace.refusal) return *workspace.refusal;
  std::vector<const catalog::Key*> all;
  for (const auto& [hash, key] : call.snapshot.keys()) {
    if (key->record.workspace == workspace.id) all.push_back(&key->record);
  }
  std::ranges::sort(all, {}, [](const auto* each) { return std::string_view(each->id); });
  CatalogReply reply;
  set_page<const catalog::Key*>(
      all, cursor, most, [](const auto* each) { return each->id; },
      [](const auto* each) { return to_json(*each); }, reply);
  return reply;
}

CatalogReply revoke_key(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string id = fields.text("keyId");
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundKey found = find_key(call, Verb::kRevokeKey, id);
  if (found.refusal) return *found.refusal;
  CatalogReply reply;
  reply.writes.push_back(catalog::revoke_key(author_of(call), found.key->record));
  return reply;
}

CatalogReply rotate_key(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string id = fields.text("keyId");
  const int64_t grace = fields.optional_number("grace", {0, kMaxDuration.count()}).value_or(0);
  if (!fields.finish()) return invalid(std::move(problems));
  if (!call.access.permissions().may(Verb::kCreateKey)) return forbidden(Verb::kCreateKey);
  const FoundKey found = find_key(call, Verb::kRevokeKey, id);
  if (found.refusal) return *found.refusal;
  if (!call.access.permissions().covers(found.key->permissions)) {
    return failed(HttpError::kForbidden,
                  "a key cannot rotate a key with permissions that it does not have");
  }
  catalog::Rotation rotation =
      catalog::rotate_key(author_of(call), found.key->record, Millis(grace), random_bits(call));
  CatalogReply reply;
  reply.data =
      JsonObject().add("keyId", rotation.fresh.key.id).add("key", rotation.fresh.secret).text();
  reply.writes.push_back(std::move(rotation.fresh.write));
  reply.writes.push_back(std::move(rotation.old));
  return reply;
}

// Workspaces: only the root key knows of them.

std::optional<CatalogReply> refuse_unless_root(const CatalogCall& call) {
  if (call.access.is_root()) return std::nullopt;
  return failed(HttpError::kForbidden, "only the root key may use workspaces");
}

std::string to_json(const catalog::Workspace& workspace) {
  return JsonObject().add("workspaceId", workspace.id).add("name", workspace.name).text();
}

CatalogReply create_workspace(const CatalogCall& call) {
  if (const auto refusal = refuse_unless_root(call)) return *refusal;
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string name = fields.text("name");
  if (!fields.finish()) return invalid(std::move(problems));
  CatalogReply reply;
  reply.writes.push_back(catalog::create_workspace(author_of(call), name, call.random()));
  reply.data = JsonObject().add("workspaceId", reply.writes.back().row.id).text();
  return reply;
}

CatalogReply list_workspaces(const CatalogCall& call) {
  if (const auto refusal = refuse_unless_root(call)) return *refusal;
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const auto cursor = fields.optional_text("cursor");
  const int64_t most = fields.optional_number("limit", kPageRange).value_or(kDefaultPage);
  if (!fields.finish()) return invalid(std::move(problems));
  std::vector<const catalog::Workspace*> all;
  for (const auto& [id, view] : call.snapshot.workspaces()) all.push_back(&view->record);
  std::ranges::sort(all, {}, [](const auto* each) { return std::string_view(each->id); });
  CatalogReply reply;
  set_page<const catalog::Workspace*>(
      all, cursor, most, [](const auto* each) { return each->id; },
      [](const auto* each) { return to_json(*each); }, reply);
  return reply;
}

CatalogReply delete_workspace(const CatalogCall& call) {
  if (const auto refusal = refuse_unless_root(call)) return *refusal;
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string id = fields.text("workspaceId");
  if (id == catalog::kDefaultWorkspace) {
    fields.add("workspaceId", "is the workspace of the root key", "name another one");
  }
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundWorkspace workspace = find_workspace(call, id);
  if (workspace.refusal) return *workspace.refusal;
  CatalogReply reply;
  reply.writes.push_back(
      catalog::delete_workspace(author_of(call), call.snapshot.find_workspace(id)->record));
  return reply;
}

// The audit log.

CatalogReply list_audit(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const auto cursor = fields.optional_text("cursor", {1, 20});
  const int64_t most = fields.optional_number("limit", kPageRange).value_or(kDefaultPage);
  const auto workspace_id = fields.optional_text("workspaceId");
  uint64_t before = uint64_t{1} << 62;
  if (cursor) {
    const auto [end, error] =
        std::from_chars(cursor->data(), cursor->data() + cursor->size(), before);
    if (error != std::errc() || end != cursor->data() + cursor->size() || before >> 62 != 0) {
      fields.add("cursor", "is \"" + *cursor + "\"", "use the cursor of the last page");
    }
  }
  if (!fields.finish()) return invalid(std::move(problems));
  if (!call.access.permissions().may(Verb::kReadAudit)) return forbidden(Verb::kReadAudit);
  const FoundWorkspace workspace = find_workspace(call, workspace_id);
  if (workspace.refusal) return *workspace.refusal;
  CatalogReply reply;
  // A change may have two entries, which are not divided between pages.
  reply.audit = {.workspace = workspace.id,
                 .before = before,
                 .most = static_cast<size_t>(std::max<int64_t>(most, 2))};
  return reply;
}

constexpr std::array kOperations{
    CatalogOperation{"/v2/ratelimit.setOverride", &set_override},
    CatalogOperation{"/v2/ratelimit.getOverride", &get_override},
    CatalogOperation{"/v2/ratelimit.listOverrides", &list_overrides},
    CatalogOperation{"/v2/ratelimit.deleteOverride", &delete_override},
    CatalogOperation{"/v2/ratelimit.reset", &reset},
    CatalogOperation{"/v2/ratelimit.createNamespace", &create_namespace},
    CatalogOperation{"/v2/ratelimit.updateNamespace", &update_namespace},
    CatalogOperation{"/v2/ratelimit.getNamespace", &get_namespace},
    CatalogOperation{"/v2/ratelimit.listNamespaces", &list_namespaces},
    CatalogOperation{"/v2/ratelimit.deleteNamespace", &delete_namespace},
    CatalogOperation{"/v2/keys.createKey", &create_key},
    CatalogOperation{"/v2/keys.getKey", &get_key},
    CatalogOperation{"/v2/keys.listKeys", &list_keys},
    CatalogOperation{"/v2/keys.revokeKey", &revoke_key},
    CatalogOperation{"/v2/keys.rotateKey", &rotate_key},
    CatalogOperation{"/v2/workspaces.createWorkspace", &create_workspace},
    CatalogOperation{"/v2/workspaces.listWorkspaces", &list_workspaces},
    CatalogOperation{"/v2/workspaces.deleteWorkspace", &delete_workspace},
    CatalogOperation{"/v2/audit.listEntries", &list_audit},
};

}  // namespace

std::span<const CatalogOperation> catalog_operations() {
  return kOperations;
}

void complete(const std::vector<catalog::AuditEntry>& entries, CatalogReply& reply) {
  std::vector<std::string> items;
  const bool more = reply.audit && entries.size() >= reply.audit->most;
  // A change may have several entries: those of the last one may be cut, so the next page has them.
  const auto end =
      more && entries.front().revision != entries.back().revision
          ? std::ranges::find(entries, entries.back().revision, &catalog::AuditEntry::revision)
          : entries.end();
  for (const catalog::AuditEntry& entry : std::span(entries.begin(), end)) {
    items.push_back(JsonObject()
                        .add("revision", entry.revision)
                        .add("time", static_cast<uint64_t>(entry.at.time_since_epoch().count()))
                        .add("workspaceId", entry.workspace)
                        .add("actor", entry.actor)
                        .add("action", entry.action)
                        .add("target", entry.target)
                        .add("detail", entry.detail)
                        .text());
  }
  reply.data = json_array(items);
  JsonObject pagination;
  if (more) pagination.add("cursor", std::to_string(std::prev(end)->revision));
  reply.pagination = pagination.add_flag("hasMore", more).text();
}

}  // namespace weir::frontends
