// The calls on keys.

#include <algorithm>
#include <array>
#include <utility>

#include "catalog/changes.h"
#include "catalog/checks.h"
#include "frontends/http/body_fields.h"
#include "frontends/http/catalog_calls.h"
#include "frontends/http/catalog_reply.h"

namespace weir::frontends {
namespace {

using catalog::Verb;

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

// A key gives no more than it has.
catalog::KeyBounds bounds_of(const CatalogCall& call) {
  return {.expires = call.access.expires(), .per_second = call.access.per_second()};
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
  if (!call.access.permissions().covers(*rights)) {
    return failed(HttpError::kForbidden,
                  "a key cannot create a key with permissions that it does not have");
  }
  const FoundWorkspace workspace = find_workspace(call, workspace_id);
  if (workspace.refusal) return *workspace.refusal;
  if (const auto error = catalog::refuse_key(call.snapshot, workspace.id)) return refused(*error);
  catalog::KeyValues values{.workspace = workspace.id, .name = name, .permissions = permissions};
  if (expires) values.expires = WallTime(Millis(*expires));
  if (per_second) values.per_second = static_cast<Count>(*per_second);
  catalog::apply_bounds(values, bounds_of(call));
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
  const FoundWorkspace workspace = find_workspace(call, workspace_id);
  if (workspace.refusal) return *workspace.refusal;
  CatalogReply reply;
  set_page(
      call.snapshot.keys_of(workspace.id), cursor, most,
      [](const auto* each) { return std::string_view(each->record.id); },
      [](const auto* each) { return to_json(each->record); }, reply);
  return reply;
}

CatalogReply revoke_key(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const std::string id = fields.text("keyId");
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundKey found = find_key(call, Verb::kRevokeKey, id);
  if (found.refusal) return *found.refusal;
  if (!call.access.permissions().covers(found.key->permissions)) {
    return failed(HttpError::kForbidden,
                  "a key cannot revoke a key with permissions that it does not have");
  }
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
  const FoundKey found = find_key(call, Verb::kRevokeKey, id);
  if (found.refusal) return *found.refusal;
  if (!call.access.permissions().covers(found.key->permissions)) {
    return failed(HttpError::kForbidden,
                  "a key cannot rotate a key with permissions that it does not have");
  }
  if (catalog::is_expired(found.key->record, call.now)) {
    return failed(HttpError::kConflict,
                  "the key \"" + id + "\" has expired: create another one with keys.createKey");
  }
  // The old key counts until its end.
  if (grace > 0) {
    const auto error = catalog::refuse_key(call.snapshot, found.key->record.workspace);
    if (error) return refused(*error);
  }
  catalog::Rotation rotation = catalog::rotate_key(
      author_of(call), found.key->record, Millis(grace), random_bits(call), bounds_of(call));
  CatalogReply reply;
  reply.data =
      JsonObject().add("keyId", rotation.fresh.key.id).add("key", rotation.fresh.secret).text();
  reply.writes.push_back(std::move(rotation.fresh.write));
  reply.writes.push_back(std::move(rotation.old));
  return reply;
}

constexpr std::array kKeyCalls{
    CatalogOperation{"/v2/keys.createKey", Verb::kCreateKey, &create_key},
    CatalogOperation{"/v2/keys.getKey", Verb::kReadKey, &get_key},
    CatalogOperation{"/v2/keys.listKeys", Verb::kReadKey, &list_keys},
    CatalogOperation{"/v2/keys.revokeKey", Verb::kRevokeKey, &revoke_key},
    CatalogOperation{"/v2/keys.rotateKey", Verb::kCreateKey, &rotate_key},
};

}  // namespace

std::span<const CatalogOperation> key_calls() {
  return kKeyCalls;
}

}  // namespace weir::frontends
