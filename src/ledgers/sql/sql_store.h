// A ledger store in SQL, for either dialect.
//
// A publish is one transaction. It writes rows in the order of their keys, so that concurrent
// publishes rarely deadlock; after a deadlock the store retries. A transaction that takes too long
// is rolled back, since changes_since() looks back only for a limited time.
//
// sql_publish.cc, sql_read.cc, sql_clean.cc and sql_tables.cc implement one concern each; the rest
// is in sql_store.cc. One thread at a time.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ledgers/rows.h"
#include "ledgers/sql/key_hash.h"
#include "ledgers/sql/ledger_store.h"
#include "ledgers/sql/schema.h"
#include "ledgers/sql/sql_link.h"

namespace weir::ledgers {

class SqlStore final : public LedgerStore {
 public:
  // `address` names the store in errors; it contains no secrets.
  SqlStore(const Clock& clock, Dialect dialect, std::unique_ptr<SqlLink> link, std::string address,
           StoreOptions options);

  [[nodiscard]] Result<size_t> publish(const LedgerNews& batch) override;
  [[nodiscard]] Result<LedgerChanges> changes_since(LedgerCursor cursor) override;
  [[nodiscard]] Result<LedgerPage> read_page(const LedgerPosition& position) override;
  [[nodiscard]] Result<LedgerFleet> heartbeat(const LedgerRegion& self,
                                              const SyncRules& rules) override;
  [[nodiscard]] Result<LedgerCleaning> clean(size_t most) override;
  [[nodiscard]] Result<WallTime> dry_run() override;
  [[nodiscard]] Result<RegionLease> acquire_region(const std::string& region,
                                                   const std::string& holder,
                                                   const RegionLease& expired) override;
  void release_region(const std::string& region, const std::string& holder) override;
  [[nodiscard]] Result<int64_t> migrate() override;
  [[nodiscard]] Result<WallTime> time() override;

  [[nodiscard]] LedgerError last_error_kind() const override { return last_error_kind_; }
  [[nodiscard]] uint64_t connections() const override { return link_->connections(); }
  [[nodiscard]] uint64_t retries() const override { return retries_; }

 private:
  using Failure = std::optional<SqlFailure>;
  struct Inserts;
  struct ExpiredRow;
  // The statements that delete the expired rows of one table; see SqlTexts.
  struct CleanTexts {
    const std::string& delete_expired;
    const std::string& list_expired;
    const std::string& delete_head;
    const std::string& delete_group;
  };

  // Creates the tables of a file that has none.
  [[nodiscard]] Failure ensure_tables();
  [[nodiscard]] Failure run(std::span<const SqlStatement> statements,
                            const SqlLink::EachRow& each = {});
  // Retries a few times while the call fails because of a deadlock.
  [[nodiscard]] Failure retry_deadlocks(const std::function<Failure()>& call);
  // The prefix for a statement that must not wait for locks; empty if the server does not support
  // it.
  [[nodiscard]] std::string no_wait() const;
  [[nodiscard]] Error to_error(const SqlFailure& failure);
  [[nodiscard]] std::string lease_name(const std::string& region) const;

  // `batch` must outlive the result.
  [[nodiscard]] Inserts make_inserts(const LedgerNews& batch) const;
  [[nodiscard]] Failure insert(const Inserts& inserts);

  [[nodiscard]] Failure clean_table(const CleanTexts& texts, size_t most, LedgerCleaning& cleaning);
  [[nodiscard]] Failure delete_expired(const CleanTexts& texts, size_t most,
                                       LedgerCleaning& cleaning);
  [[nodiscard]] Failure delete_unlocked(const CleanTexts& texts, size_t most,
                                        LedgerCleaning& cleaning);
  [[nodiscard]] Failure delete_rows(std::span<const ExpiredRow> rows, const CleanTexts& texts,
                                    LedgerCleaning& cleaning);

  [[nodiscard]] Failure create_tables(int64_t& version);
  [[nodiscard]] Failure dry_run(WallTime& now);

  const Clock& clock_;
  const Dialect dialect_;
  const SqlTexts texts_;
  const std::unique_ptr<SqlLink> link_;
  const std::string address_;
  const std::string holder_;  // of the cleaning lease
  const std::function<void(Millis)> pause_;
  const KeyHasher hash_;
  uint64_t random_;
  bool has_tables_;
  MonoTime locked_at_{};              // when a publish last met a locked row
  size_t max_changes_ = kMaxChanges;  // requested at once
  LedgerError last_error_kind_ = LedgerError::kOther;
  uint64_t retries_ = 0;
};

}  // namespace weir::ledgers
