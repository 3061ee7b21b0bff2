// The calls on workspaces: only the root key knows of them.

#include <algorithm>
#include <array>
#include <utility>

#include "catalog/changes.h"
#include "frontends/http/body_fields.h"
#include "frontends/http/catalog_calls.h"
#include "frontends/http/catalog_reply.h"

namespace weir::frontends {
namespace {

std::string to_json(const catalog::Workspace& workspace) {
  return JsonObject().add("workspaceId", workspace.id).add("name", workspace.name).text();
}

CatalogReply create_workspace(const CatalogCall& call) {
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
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const auto cursor = fields.optional_text("cursor");
  const int64_t most = fields.optional_number("limit", kPageRange).value_or(kDefaultPage);
  if (!fields.finish()) return invalid(std::move(problems));
  std::vector<const catalog::Workspace*> all;
  for (const auto& [id, view] : call.snapshot.workspaces()) all.push_back(&view->record);
  std::ranges::sort(all, {}, [](const auto* each) { return std::string_view(each->id); });
  CatalogReply reply;
  set_page(
      std::span<const catalog::Workspace* const>(all), cursor, most,
      [](const auto* each) { return std::string_view(each->id); },
      [](const auto* each) { return to_json(*each); }, reply);
  return reply;
}

CatalogReply delete_workspace(const CatalogCall& call) {
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

constexpr std::array kWorkspaceCalls{
    CatalogOperation{"/v2/workspaces.createWorkspace", std::nullopt, &create_workspace},
    CatalogOperation{"/v2/workspaces.listWorkspaces", std::nullopt, &list_workspaces},
    CatalogOperation{"/v2/workspaces.deleteWorkspace", std::nullopt, &delete_workspace},
};

}  // namespace

std::span<const CatalogOperation> workspace_calls() {
  return kWorkspaceCalls;
}

}  // namespace weir::frontends
