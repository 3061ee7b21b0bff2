// A ledger in memory: for regions of one process, for tests, and for the simulator.

#pragma once

#include <memory>

#include "weir/clock.h"
#include "weir/ledger.h"

namespace weir::ledgers {

// Safe from any thread; replies before the call returns. `clock` is the clock of the store: it sets
// the epochs of feeds and the expiry of rows and batches.
class MemoryLedger final : public GlobalLedger {
 public:
  explicit MemoryLedger(const Clock& clock);
  ~MemoryLedger() override;

  // The same store for another process; only one of them cleans.
  [[nodiscard]] std::shared_ptr<MemoryLedger> another_client() const;

  void publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
               PublishReply reply) override;
  void read_feeds(std::vector<RegionFeed> after, FeedReply reply) override;
  void read_page(std::string region, LedgerPosition position, PageReply reply) override;
  void heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) override;
  void clean(size_t most, CleaningReply reply) override;

  // Deletes everything, like a new store.
  void clear();
  // Returns all rows, expired or not.
  [[nodiscard]] std::vector<LedgerRow> contents() const;
  // Replaces the rules.
  void set_rules(SyncRules rules);
  // Deletes batches of a feed, from `first` to `last`, and keeps their rows.
  void drop_batches(const std::string& region, FeedPosition first, FeedPosition last);

  // A copy of all data. Rows are copied, batches are shared.
  struct Snapshot;
  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot() const;
  // Makes the data those of the snapshot, like a promoted replica that was behind. Epochs that
  // begin later still differ from all earlier ones.
  void restore(const Snapshot& snapshot);

 private:
  struct Store;
  explicit MemoryLedger(std::shared_ptr<Store> store);

  const std::shared_ptr<Store> store_;
  const uint64_t client_;  // names this process in the cleaning lease
};

}  // namespace weir::ledgers
