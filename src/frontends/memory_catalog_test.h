// A store of the catalog in memory that can fail.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog_store.h"

namespace weir::frontends {

class MemoryCatalog final : public catalog::CatalogStore {
 public:
  bool fails = false;
  std::function<void()> on_page = {};  // while rows are read

  Result<uint64_t> write(std::span<const catalog::CatalogWrite> writes) override {
    if (fails) return failure();
    ++revision_;
    for (const catalog::CatalogWrite& write : writes) {
      rows.push_back(write.row);
      rows.back().revision = revision_;
      audit_.push_back(write.audit);
      audit_.back().revision = revision_;
      audit_.back().position = audit_.size();
    }
    return revision_;
  }
  Result<Heads> read_heads(uint64_t known) override {
    if (fails) return failure();
    return Heads{.last = {.revision = revision_, .nonce = revision_}, .known_nonce = known};
  }
  Result<std::vector<catalog::CatalogRow>> read_after(const catalog::CatalogPosition& at,
                                                      size_t) override {
    if (on_page) on_page();
    std::vector<catalog::CatalogRow> behind;
    for (const catalog::CatalogRow& row : rows) {
      if (row.revision > at.revision) behind.push_back(row);
    }
    return behind;
  }
  Result<std::vector<catalog::AuditEntry>> read_audit(const std::string&,
                                                      const catalog::AuditPosition& before,
                                                      size_t most) override {
    std::vector<catalog::AuditEntry> entries;
    for (auto at = audit_.rbegin(); at != audit_.rend() && entries.size() < most; ++at) {
      const bool is_before = at->revision != before.revision ? at->revision < before.revision
                                                             : at->position < before.position;
      if (is_before) entries.push_back(*at);
    }
    return entries;
  }
  Result<std::optional<catalog::CatalogRow>> read_row(const std::string& id) override {
    std::optional<catalog::CatalogRow> found;
    for (const catalog::CatalogRow& row : rows) {
      if (row.id == id) found = row;
    }
    return found;
  }
  Result<CleanedRows> clean_rows(const std::string&, WallTime, size_t) override {
    return CleanedRows{};
  }
  Result<CleanedAudit> clean_audit(uint64_t, const catalog::AuditBounds&, size_t) override {
    return CleanedAudit{};
  }

  std::vector<catalog::CatalogRow> rows;

 private:
  static Error failure() {
    return {.code = ErrorCode::kUnavailable,
            .retry = Retry::kMayHelp,
            .detail = "the database is down",
            .fix = "start it"};
  }

  uint64_t revision_ = 0;
  std::vector<catalog::AuditEntry> audit_;
};

}  // namespace weir::frontends
