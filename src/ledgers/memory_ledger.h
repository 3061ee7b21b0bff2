// A ledger in memory: for regions of one process, for tests, and as the store behind the
// simulator's network.

#pragma once

#include <memory>

#include "weir/clock.h"
#include "weir/ledger.h"

namespace weir::ledgers {

// Safe from any thread; replies before the call returns. `clock` is the store's own, and
// nobody else's: `next` and what expires follow it. Where it steps back, changes are told by
// the new time, and `next` is before the cursor.
class MemoryLedger final : public GlobalLedger {
 public:
  explicit MemoryLedger(const Clock& clock);
  ~MemoryLedger() override;

  // The same store as another process sees it: only one of them cleans.
  [[nodiscard]] std::shared_ptr<MemoryLedger> as_seen_by_another() const;

  void publish(LedgerNews news, PublishReply reply) override;
  void changes_since(LedgerCursor cursor, ChangesReply reply) override;
  void read_page(LedgerPosition place, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;

  // Loses everything, as a store that was set up anew.
  void forget_all();
  // Everything in it, expired or not.
  [[nodiscard]] LedgerNews everything() const;
  // Instead of the rules that stand.
  void decree(SyncRules rules);

 private:
  struct Store;
  explicit MemoryLedger(std::shared_ptr<Store> store);

  const std::shared_ptr<Store> store_;
  const uint64_t holder_;  // of the cleaning lease
};

}  // namespace weir::ledgers
