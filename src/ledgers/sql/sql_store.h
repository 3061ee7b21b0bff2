// A ledger store in SQL, for either dialect.
//
// A publish is one transaction. It writes rows in the order of their keys, so that concurrent
// publishes rarely deadlock; after a deadlock the store retries. Then it raises the head of the
// feed: the lock on that row makes other publishes of the region wait until the commit, so that
// batches are numbered in the order of the commits and without gaps.
//
// sql_publish.cc, sql_read.cc, sql_clean.cc and sql_tables.cc implement one concern each; the rest
// is in sql_store.cc. One thread at a time.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ledgers/rows.h"
#include "ledgers/sql/key_hash.h"
#include "ledgers/sql/ledger_store.h"
#include "ledgers/sql/schema.h"
#include "ledgers/sql/sql_link.h"
#include "ledgers/sql/sql_texts.h"

namespace weir::ledgers {

// Of all feeds together, in one reply.
inline constexpr size_t kMaxBatches = 512;

class SqlStore final : public LedgerStore {
 public:
  // `address` names the store in errors; it contains no secrets.
  SqlStore(const Clock& clock, Dialect dialect, std::unique_ptr<SqlLink> link, std::string address,
           StoreOptions options);

  [[nodiscard]] Result<FeedPosition> publish(const std::string& region, FeedPosition known,
                                             const std::vector<LedgerRow>& rows) override;
  [[nodiscard]] Result<FeedChanges> read_feeds(const std::vector<RegionFeed>& after) override;
  [[nodiscard]] Result<LedgerPage> read_page(const std::string& region,
                                             const LedgerPosition& position) override;
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
  struct Publication;
  struct ExpiredRow;

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

  // The arguments must outlive the result.
  [[nodiscard]] Publication make_publication(const std::string& region, FeedPosition known,
                                             const std::vector<LedgerRow>& rows);
  void add_cells(const std::vector<LedgerRow>& rows, Publication& publication) const;
  [[nodiscard]] Failure commit(const Publication& publication, FeedPosition& at);

  // Adds to `deleted`.
  [[nodiscard]] Failure delete_old(const std::string& sql, size_t most, size_t& deleted);
  [[nodiscard]] Failure delete_unlocked_cells(size_t most, size_t& deleted);
  [[nodiscard]] Failure delete_cells(std::span<const ExpiredRow> rows, size_t& deleted);

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
  size_t max_batches_ = kMaxBatches;  // requested at once
  LedgerError last_error_kind_ = LedgerError::kOther;
  uint64_t retries_ = 0;
};

}  // namespace weir::ledgers
