// The port to a store of the catalog. One thread at a time; calls block.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catalog/catalog_row.h"
#include "catalog/records.h"
#include "weir/error.h"

namespace weir::catalog {

enum class Existing : uint8_t { kReplace, kKeep };

// Whether a write has failed because a row was not the expected one.
[[nodiscard]] inline bool is_conflict(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument && error.field == "expected";
}

struct CatalogWrite {
  CatalogRow row = {};
  Existing existing = Existing::kReplace;  // what happens to a row with the same id
  AuditEntry audit = {};                   // revision and time are set by the store
  // Set: the transaction fails unless the store has this row, of any revision, when it writes.
  std::optional<CatalogRow> expected = {};
};

// The last transaction of a store. The nonce is random: another database, or an older backup that
// was written to again, has another one for the same revision.
struct CatalogHead {
  uint64_t revision = 0;  // 0: none
  uint64_t nonce = 0;
  friend bool operator==(const CatalogHead&, const CatalogHead&) = default;
};

// Where a page of rows ends.
struct CatalogPosition {
  uint64_t revision = 0;
  std::string id = {};  // empty: before the first row of this revision
  friend auto operator<=>(const CatalogPosition&, const CatalogPosition&) = default;
};

// Which entries of the audit log have expired.
struct AuditBounds {
  WallTime before{};           // all that are older
  uint64_t resets_before = 0;  // those of resets that have a smaller revision
};

class CatalogStore {
 public:
  virtual ~CatalogStore() = default;

  // Writes all rows in one transaction; returns its revision. Transactions have growing revisions
  // in the order of their commits. The error may be a conflict.
  [[nodiscard]] virtual Result<uint64_t> write(std::span<const CatalogWrite> writes) = 0;

  // The last transaction, and the nonce that the transaction with the revision `known` has now; 0
  // if there is none.
  struct Heads {
    CatalogHead last = {};
    uint64_t known_nonce = 0;
  };
  [[nodiscard]] virtual Result<Heads> read_heads(uint64_t known) = 0;
  // The rows behind a position, in the order of revision and id.
  [[nodiscard]] virtual Result<std::vector<CatalogRow>> read_after(const CatalogPosition& position,
                                                                   size_t most) = 0;
  // The entries of a workspace (empty: of all) before a position, the newest first.
  [[nodiscard]] virtual Result<std::vector<AuditEntry>> read_audit(const std::string& workspace,
                                                                   const AuditPosition& before,
                                                                   size_t most) = 0;
  // None: there is no such row.
  [[nodiscard]] virtual Result<std::optional<CatalogRow>> read_row(const std::string& id) = 0;

  // Deletion in steps, so that no call takes long: each looks at the next `most` rows behind a
  // position and deletes those that have expired.
  struct CleanedRows {
    size_t deleted = 0;
    std::string last = {};  // the id of the last row; empty: that was the last one of all
  };
  // Overrides and keys that were deleted before `before`, and resets that were made kResetKept
  // earlier.
  [[nodiscard]] virtual Result<CleanedRows> clean_rows(const std::string& after, WallTime before,
                                                       size_t most) = 0;
  struct CleanedAudit {
    size_t deleted = 0;
    uint64_t last = 0;  // the revision of the last entry that is not looked at again
    bool more = false;
  };
  // Not the entries of the last transaction, which have its nonce.
  [[nodiscard]] virtual Result<CleanedAudit> clean_audit(uint64_t after, const AuditBounds& bounds,
                                                         size_t most) = 0;
};

}  // namespace weir::catalog
