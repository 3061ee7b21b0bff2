// The other regions: the ledger through which they share counts with this one, the thread that
// tells and hears, and what people are told about it. Nothing, where there is no ledger.

#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "ledgers/sql/threaded_ledger.h"
#include "platform/thread_executor.h"
#include "server/config.h"
#include "server/region_claim.h"
#include "weir/limiter.h"

namespace weir::server {

// The ledger with its password, from the address, the file of --ledger-password-file, or
// WEIR_LEDGER_PASSWORD, in this order; none if there is to be none. Throws if a file cannot be
// used.
[[nodiscard]] std::optional<ledgers::LedgerAddress> ledger_of(const Config& config);

// Makes the tables of the ledger, or prints what would. Throws if that fails.
void migrate(const Config& config);
void print_schema(const Config& config);

// Whether the ledger can be used, and what to tell people.
struct LedgerCheck {
  bool usable = false;
  std::string text;
};
[[nodiscard]] LedgerCheck check_ledger(const Config& config);

class OtherRegions {
 public:
  // `folder_trouble`: why the data folder cannot be written to, or nothing.
  OtherRegions(const Clock& clock, const Config& config, const std::string& node,
               const std::string& folder_trouble);
  ~OtherRegions() { stop(); }
  OtherRegions(const OtherRegions&) = delete;
  OtherRegions& operator=(const OtherRegions&) = delete;

  [[nodiscard]] const std::shared_ptr<ledgers::ThreadedLedger>& ledger() const { return ledger_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Claims the region in a ledger that others can reach, and waits for it. Throws
  // std::runtime_error if it is taken.
  void claim_region();
  // What is wrong if another process has claimed the region meanwhile; nothing otherwise.
  [[nodiscard]] std::string conflict() const { return claim_ ? claim_->conflict() : ""; }

  // From here on counts are shared, until leave() or stop().
  void start(Limiter& limiter);
  void stop();

  // Writes what was not written, for a short while; says what is left. Once no request comes any
  // more.
  void leave(Limiter& limiter);

 private:
  void share(Limiter& limiter, MonoTime planned);
  void report(const SyncStats& stats, MonoTime now);

  const Clock& clock_;
  std::string name_ = "none";
  std::shared_ptr<ledgers::ThreadedLedger> ledger_;
  std::unique_ptr<RegionClaim> claim_;  // none: nobody else can reach the ledger
  platform::ThreadExecutor sharer_;
  std::atomic<bool> leaving_{false};
  bool running_ = false;
  // On the sharer's thread.
  bool was_received_ = true;
  bool was_written_ = true;
  bool acked_of_rules_ = false;
};

}  // namespace weir::server
