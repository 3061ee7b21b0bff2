#include "frontends/http/catalog_reply.h"

#include <utility>

namespace weir::frontends {

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

CatalogReply forbidden(catalog::Verb verb, std::string_view target) {
  return failed(HttpError::kForbidden,
                "the key lacks the permission " + catalog::permission_for(verb, target));
}

std::optional<CatalogReply> refusal_of(const CatalogOperation& operation, const Access& access) {
  if (!operation.verb) {
    if (access.is_root()) return std::nullopt;
    return failed(HttpError::kForbidden, "only the root key may use workspaces");
  }
  if (access.permissions().may_somewhere(*operation.verb)) return std::nullopt;
  return forbidden(*operation.verb);
}

catalog::Author author_of(const CatalogCall& call) {
  return {.actor = call.access.actor(), .now = call.now};
}

FoundNamespace find_namespace(const CatalogCall& call, catalog::Verb verb, std::string_view name) {
  const catalog::NamespaceView* const view = call.access.workspace().find(name);
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

CatalogReply refused(const Error& error) {
  if (error.field.empty()) {
    return failed(HttpError::kConflict, error.detail + (error.fix.empty() ? "" : ": " + error.fix));
  }
  BodyProblems problems;
  problems.push_back(
      {.location = "body." + error.field, .message = error.detail, .fix = error.fix});
  return invalid(std::move(problems));
}

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

}  // namespace weir::frontends
