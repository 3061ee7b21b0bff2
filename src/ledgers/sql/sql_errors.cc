#include "ledgers/sql/sql_errors.h"

namespace weir::ledgers {
namespace {

std::string general_remedy(LedgerError kind, const std::string& address) {
  switch (kind) {
    case LedgerError::kBadRows: return "publish fewer rows at once, or leave out the bad row";
    case LedgerError::kMissingTables: return "run: weir migrate --ledger " + address;
    case LedgerError::kReadOnly: return "name a server that can be written to";
    case LedgerError::kFull: return "give " + address + " more space";
    case LedgerError::kRefused: return "check user, password, database and TLS";
    case LedgerError::kDeadlock:
    case LedgerError::kLocked: return "try again later: another process has locked the same rows";
    default: return "check that " + address + " is up and reachable";
  }
}

// The remedy for a file; empty if it is the general one.
std::string_view file_remedy(LedgerError kind) {
  switch (kind) {
    case LedgerError::kUnreachable:
      return "check that its folder exists, that this user may write to it, and that its disk "
             "works "
             "and is not read-only";
    case LedgerError::kTimeout:
      return "another process has locked it: find the process that has the file open";
    case LedgerError::kReadOnly:
      return "give this user write permission on the file and its folder";
    case LedgerError::kFull: return "free space on its disk";
    case LedgerError::kRefused: return "give this user read and write permission on the file";
    case LedgerError::kCorrupt:
      return "move the file away: a new one is made, without the keys, namespaces, overrides, "
             "resets, "
             "audit log and counts of the old one. To keep them, put a backup in its place";
    default: return {};
  }
}

}  // namespace

Error error_of(const SqlFailure& failure, Dialect dialect, const std::string& address) {
  std::string fix = failure.fix;
  if (fix.empty() && dialect == Dialect::kSqlite) fix = file_remedy(failure.kind);
  if (fix.empty()) fix = general_remedy(failure.kind, address);
  const bool rows = failure.kind == LedgerError::kBadRows;
  const bool unanswered = failure.unanswered || failure.kind == LedgerError::kTimeout;
  return {.code = rows         ? ErrorCode::kInvalidArgument
                  : unanswered ? ErrorCode::kTimeout
                               : ErrorCode::kUnavailable,
          .retry = rows ? Retry::kPointless : Retry::kMayHelp,
          .field = rows || failure.kind == LedgerError::kLocked ? "rows" : "",
          .detail = "the ledger failed: " + failure.detail,
          .fix = std::move(fix)};
}

}  // namespace weir::ledgers
