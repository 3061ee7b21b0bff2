// The call that reads the audit log.

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "frontends/http/body_fields.h"
#include "frontends/http/catalog_calls.h"
#include "frontends/http/catalog_reply.h"

namespace weir::frontends {
namespace {

using catalog::Verb;

// A cursor is "revision.position": a change may have more entries than a page.
std::optional<catalog::AuditPosition> position_of(std::string_view cursor) {
  const size_t dot = cursor.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto read = [](std::string_view text, uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && number >> 62 == 0;
  };
  catalog::AuditPosition position;
  if (!read(cursor.substr(0, dot), position.revision)) return std::nullopt;
  if (!read(cursor.substr(dot + 1), position.position)) return std::nullopt;
  return position;
}

CatalogReply list_audit(const CatalogCall& call) {
  BodyProblems problems;
  BodyFields fields(call.body, problems);
  const auto cursor = fields.optional_text("cursor", {1, 40});
  const int64_t most = fields.optional_number("limit", kPageRange).value_or(kDefaultPage);
  const auto workspace_id = fields.optional_text("workspaceId");
  const auto before = cursor ? position_of(*cursor) : catalog::AuditPosition();
  if (!before) fields.add("cursor", "is \"" + *cursor + "\"", "use the cursor of the last page");
  if (!fields.finish()) return invalid(std::move(problems));
  const FoundWorkspace workspace = find_workspace(call, workspace_id);
  if (workspace.refusal) return *workspace.refusal;
  CatalogReply reply;
  reply.audit = {.workspace = workspace.id, .before = *before, .most = static_cast<size_t>(most)};
  return reply;
}

constexpr std::array kAuditCalls{
    CatalogOperation{"/v2/audit.listEntries", Verb::kReadAudit, &list_audit},
};

}  // namespace

std::span<const CatalogOperation> audit_calls() {
  return kAuditCalls;
}

void complete(const std::vector<catalog::AuditEntry>& entries, CatalogReply& reply) {
  std::vector<std::string> items;
  const size_t count = std::min(entries.size(), reply.audit ? reply.audit->most : 0);
  const bool more = entries.size() > count;
  for (const catalog::AuditEntry& entry : std::span(entries).first(count)) {
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
  if (more && count > 0) {
    const catalog::AuditEntry& last = entries[count - 1];
    pagination.add("cursor", std::to_string(last.revision) + "." + std::to_string(last.position));
  }
  reply.pagination = pagination.add_flag("hasMore", more).text();
}

}  // namespace weir::frontends
