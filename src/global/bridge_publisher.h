// The part of the bridge that publishes the counts of due tuples to the ledger.
//
// A round reads the due tuples, takes as many as the row budget allows, reads their counts from the
// origin, writes them to the ledger, and notes at the origin what was written. A tuple leaves the
// due set only after that, and only if it did not become due again meanwhile. So a bridge that dies
// at any point loses nothing: the next one repeats the round, and rows merge.
//
// Only from the thread that runs the sync.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "global/bridge_importer.h"
#include "global/completion_queue.h"
#include "global/due_backlog.h"
#include "global/periodic_task.h"
#include "global/publish_rule.h"
#include "global/regions.h"
#include "global/row_budget.h"
#include "weir/ledger.h"
#include "weir/limiter.h"
#include "weir/origin.h"

namespace weir::global {

class BridgePublisher {
 public:
  BridgePublisher(BridgeIdentity identity, std::shared_ptr<GlobalLedger> ledger,
                  std::shared_ptr<CompletionQueue> completions, Regions& regions,
                  BridgeImporter& importer, BridgeImporter::Notify notify);

  // Begins anew with this store, which must outlive its use.
  void use(BridgeStore& store);
  // While this process is the bridge.
  void run(Instant now, Flush flush);
  // This process is not the bridge any more.
  void stop();
  struct Stats {
    std::array<uint64_t, kPublishReasons> rows{};  // by reason
    uint64_t errors = 0;
    uint64_t dropped = 0;  // rows that the ledger rejects
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] const RowBudget& budget() const { return budget_; }
  // Due tuples; at least one while a call is in flight. And how long the oldest has waited.
  [[nodiscard]] size_t waiting() const {
    return std::max<size_t>(backlog_.size(), is_idle() ? 0 : 1);
  }
  [[nodiscard]] Nanos lag(MonoTime now) const;
  // Visits the tenants with a due tuple that has waited for longer than that.
  void each_late_tenant(MonoTime now, Nanos longer_than,
                        const std::function<void(const Tenant&)>& visit) const;
  // There may be due tuples at the origin that this process has not read for lack of space.
  [[nodiscard]] bool is_full() const { return backlog_.size() >= kMaxBacklog; }
  [[nodiscard]] bool is_idle() const { return !task_.in_flight() && chunks_.empty(); }
  // When the ledger last accepted rows, and since when it accepts none.
  [[nodiscard]] MonoTime written_at() const { return written_at_; }
  [[nodiscard]] std::optional<MonoTime> failing_since() const { return failing_since_; }

 private:
  struct OwnRow {
    int64_t sequence = 0;
    Count count = 0;
    Count limit = 0;
    WallTime leased_until{};
    PublishReason reason = PublishReason::kNone;
  };
  struct TupleRows {
    std::string tuple;
    std::vector<DueTuple> due;  // the entries to remove
    std::vector<OwnRow> rows;
  };
  using Chunk = std::vector<TupleRows>;
  static constexpr Nanos kRetry = Millis(500);
  static constexpr size_t kMaxBacklog = 50'000;  // more stay in the due set

  void begin_feed(Instant now);
  void read_due(Instant now);
  void on_due(Instant now, WallTime by, const std::vector<DueTuple>& due);
  void choose(Instant now);
  void on_tuples(Instant now, const std::vector<TupleCounts>& tuples);
  [[nodiscard]] std::vector<OwnRow> rows_of(Instant now, const TupleRows& chosen,
                                            const TupleCounts& counts) const;
  [[nodiscard]] bool has_row() const { return flush_ == Flush::kAll || budget_.has_rows(1); }
  void send_next(Instant now);
  [[nodiscard]] std::optional<FeedPosition> next_number() const;
  [[nodiscard]] bool is_reserved(FeedPosition at, MonoTime now) const;
  void reserve(Instant now, FeedPosition at, std::function<void(Instant)> done);
  void end_failure_if_empty();
  void on_committed(Instant now, FeedPosition known, FeedPosition at);
  void on_failed(Instant now, const Error& error);
  void note_published(Instant now, std::function<void(Instant)> done);
  void update_counts(Instant now, const std::vector<TupleChange>& changes,
                     std::function<void(Instant)> done);
  void on_unnoted(Instant now);
  void finish(Instant now, const Chunk& chunk, const std::vector<TupleCounts>& tuples);
  void tell_published(Instant now, const Chunk& done, const std::vector<TupleCounts>& tuples);
  void put_back(const Chunk& chunk, MonoTime not_before);
  void put_back_all(MonoTime not_before);
  void note_waits(MonoTime now);
  void read_records(Instant now);
  void on_records(Instant now, const std::vector<std::string>& records);
  [[nodiscard]] std::vector<LedgerRow> ledger_rows(const Chunk& chunk) const;
  [[nodiscard]] std::vector<TupleChange> changes_of(const Chunk& chunk) const;
  [[nodiscard]] static size_t rows_in(const Chunk& chunk);

  const BridgeIdentity identity_;
  const std::shared_ptr<GlobalLedger> ledger_;
  Regions& regions_;
  BridgeImporter& importer_;
  const BridgeImporter::Notify notify_;
  BridgeStore* store_ = nullptr;

  PeriodicTask task_;
  DueBacklog backlog_;
  RowBudget budget_;
  Flush flush_ = Flush::kDue;
  WallTime read_until_{};
  Chunk current_;             // of the call in flight
  std::deque<Chunk> chunks_;  // to be published next
  // Rows of the last minute are being written again, and none has failed; one batch was written.
  bool repeats_records_ = false;
  bool repeated_any_ = false;
  // The last number in our feed that a batch may have got, as far as this process knows.
  FeedPosition used_;
  // The number of the last record, and when it was sent to the origin.
  FeedPosition reserved_;
  MonoTime reserved_at_{};
  MonoTime repeat_after_{};  // until then other rows go first
  bool needs_rows_ = false;  // the row budget was too small in the last round
  MonoTime written_at_{};
  std::optional<MonoTime> failing_since_;
  Stats stats_;
};

}  // namespace weir::global
