// The ledger that this region shares with other regions: its connections, the claim of the
// region's name, and the log lines about its state. Empty for a process without a ledger.

#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ledgers/sql/threaded_ledger.h"
#include "server/config.h"
#include "server/region_claim.h"
#include "weir/runner.h"

namespace weir::server {

// The address with its password, from the URL, the file of --ledger-password-file, or
// WEIR_LEDGER_PASSWORD, in this order; none without a ledger. Throws if the file cannot be read.
[[nodiscard]] std::optional<ledgers::LedgerAddress> ledger_of(const Config& config);

// migrate() creates the tables of the ledger, print_schema() prints the SQL for that, and
// clean_ledger() deletes its expired rows and old batches. They throw std::runtime_error if they
// fail.
void migrate(const Config& config);
void print_schema(const Config& config);
void clean_ledger(const Config& config);

// Result of `weir check`: whether the ledger is usable, and the text to print.
struct LedgerCheck {
  bool usable = false;
  std::string text;
};
[[nodiscard]] LedgerCheck check_ledger(const Config& config);

// One thread at a time, except report(const SyncStats&).
class OtherRegions {
 public:
  // `folder_trouble`: why the data folder is not writable; empty if it is.
  OtherRegions(const Clock& clock, const Config& config, const std::string& node,
               const std::string& folder_trouble);
  ~OtherRegions() { stop(); }
  OtherRegions(const OtherRegions&) = delete;
  OtherRegions& operator=(const OtherRegions&) = delete;

  [[nodiscard]] const std::shared_ptr<ledgers::ThreadedLedger>& ledger() const { return ledger_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Claims the region's name in a ledger that other processes can reach, and waits for the reply.
  // Throws std::runtime_error if another process has claimed it.
  void claim_region();
  // The error if another process has claimed the region since; empty otherwise.
  [[nodiscard]] std::string conflict() const { return claim_ ? claim_->conflict() : ""; }

  // Connects to the ledger, until stop().
  void start();
  void stop();

  // Logs each change between reachable and lost, and between writable and read-only, and renews the
  // claim as long as this process is the bridge. Called by the thread that syncs.
  void report(const SyncStats& stats);
  void report(const DrainReport& drained) const;

 private:
  static constexpr size_t kMaxWriteErrorsLogged = 5;

  const Clock& clock_;
  std::string name_ = "none";
  std::shared_ptr<ledgers::ThreadedLedger> ledger_;
  std::unique_ptr<RegionClaim> claim_;  // none: no other process can reach the ledger
  bool running_ = false;
  // Of the thread that syncs.
  bool was_readable_ = true;
  std::set<std::string> write_errors_;  // that were logged since it accepted writes
  bool logged_rules_ = false;
};

}  // namespace weir::server
