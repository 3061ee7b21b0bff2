// The call that reads the audit log.

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "frontends/http/body_fields.h"
#include "frontends/http/catalog_calls.h"
#include "frontends/http/catalog_reply.h"

namespace weir::frontends {
namespace {

using catalog::Verb;

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

constexpr std::array kAuditCalls{
    CatalogOperation{"/v2/audit.listEntries", &list_audit},
};

}  // namespace

std::span<const CatalogOperation> audit_calls() {
  return kAuditCalls;
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
