// A ledger in memory: for regions of one process, for tests, and for the simulator.

#pragma once

#include <memory>

#include "weir/clock.h"
#include "weir/ledger.h"

namespace weir::ledgers {

// Safe from any thread; replies before the call returns. `clock` is the clock of the store: it sets
// `next` and the expiry of rows. After it steps back, changes carry the new time, and `next` is
// before the cursor.
class MemoryLedger final : public GlobalLedger {
 public:
  explicit MemoryLedger(const Clock& clock);
  ~MemoryLedger() override;

  // The same store for another process; only one of them cleans.
  [[nodiscard]] std::shared_ptr<MemoryLedger> another_client() const;

  void publish(LedgerNews batch, PublishReply reply) override;
  void changes_since(LedgerCursor cursor, ChangesReply reply) override;
  void read_page(LedgerPosition position, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;

  // Deletes everything, like a new store.
  void clear();
  // Returns all rows and presences, expired or not.
  [[nodiscard]] LedgerNews contents() const;
  // Replaces the rules.
  void set_rules(SyncRules rules);

 private:
  struct Store;
  explicit MemoryLedger(std::shared_ptr<Store> store);

  const std::shared_ptr<Store> store_;
  const uint64_t client_;  // names this process in the cleaning lease
};

}  // namespace weir::ledgers
