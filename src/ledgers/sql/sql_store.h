// A ledger in SQL: what is said to the store, whichever kind it is.
//
// A publish is one transaction. Its rows go in the order of their keys, so that those who
// publish at once wait for each other in turn; what a deadlock undoes all the same is done
// again here. A transaction that lasts is undone rather than committed: changes_since() looks
// back only so far.

#pragma once

#include <functional>
#include <memory>

#include "ledgers/rows.h"
#include "ledgers/sql/key_hash.h"
#include "ledgers/sql/ledger_store.h"
#include "ledgers/sql/schema.h"
#include "ledgers/sql/sql_link.h"

namespace weir::ledgers {

class SqlStore final : public LedgerStore {
 public:
  // `address` is what errors call the store, without secrets.
  SqlStore(const Clock& clock, Dialect dialect, std::unique_ptr<SqlLink> link, std::string address,
           StoreOptions options);

  [[nodiscard]] Result<size_t> publish(const LedgerNews& news) override;
  [[nodiscard]] Result<LedgerChanges> changes_since(LedgerCursor cursor) override;
  [[nodiscard]] Result<LedgerPage> read_page(const LedgerPosition& place) override;
  [[nodiscard]] Result<LedgerFleet> heartbeat(const LedgerRegion& self,
                                              const SyncRules& rules) override;
  [[nodiscard]] Result<LedgerCleaning> clean(size_t most) override;
  [[nodiscard]] Result<WallTime> rehearse() override;
  [[nodiscard]] Result<RegionHold> hold_region(const std::string& region, const std::string& holder,
                                               const RegionHold& dead) override;
  void release_region(const std::string& region, const std::string& holder) override;
  [[nodiscard]] Result<int64_t> migrate() override;
  [[nodiscard]] Result<WallTime> time() override;

  [[nodiscard]] LedgerError why() const override { return why_; }
  [[nodiscard]] uint64_t connections() const override { return link_->connections(); }
  [[nodiscard]] uint64_t retries() const override { return retries_; }

 private:
  using Failure = std::optional<SqlFailure>;
  struct Inserts;

  // Makes the tables of a file that has none yet.
  [[nodiscard]] Failure make_ready();
  [[nodiscard]] Failure run(std::span<const SqlStatement> statements,
                            const SqlLink::EachRow& each = {});
  [[nodiscard]] Failure insert(const Inserts& inserts);
  [[nodiscard]] Failure create_tables(int64_t& version);
  [[nodiscard]] Failure rehearse(WallTime& now);
  struct Expired;
  [[nodiscard]] Failure clean(const std::string& text, size_t most, LedgerCleaning& cleaning);
  [[nodiscard]] Failure clean_around(const std::string& list, const std::string& head,
                                     const std::string& group, size_t most,
                                     LedgerCleaning& cleaning);
  [[nodiscard]] Failure remove(std::span<const Expired> rows, const std::string& head,
                               const std::string& group, LedgerCleaning& cleaning);
  [[nodiscard]] Inserts inserts_of(const LedgerNews& news) const;
  // Before a statement that is not to wait for others; empty where the store cannot do that.
  [[nodiscard]] std::string no_wait() const;
  // Does it again, a few times, while it fails because of a deadlock.
  [[nodiscard]] Failure insist(const std::function<Failure()>& what);
  [[nodiscard]] std::string name_of_hold(const std::string& region) const;
  [[nodiscard]] Error error_of(const SqlFailure& failure);

  const Clock& clock_;
  const Dialect dialect_;
  const Statements texts_;
  const std::unique_ptr<SqlLink> link_;
  const std::string address_;
  const std::string holder_;
  const std::function<void(Millis)> pause_;
  const KeyHasher hash_;
  uint64_t random_;
  bool ready_;
  MonoTime locked_at_{};                // when others last held a row that was to be written
  size_t most_changes_ = kMostChanges;  // that are asked for at once
  LedgerError why_ = LedgerError::kOther;
  uint64_t retries_ = 0;
};

}  // namespace weir::ledgers
