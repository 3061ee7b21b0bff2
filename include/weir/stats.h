// Totals and gauges of a limiter, for metrics. All counters count from the start of the process.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/request.h"
#include "weir/time.h"

namespace weir {

// Reads of the origin before a decision, of one kind.
struct ReadStats {
  uint64_t asked = 0;
  uint64_t failed = 0;  // of those, failed or missed the read deadline
};

// Bytes allocated now, by purpose, and the limit for their sum.
struct MemoryStats {
  uint64_t limit = 0;
  uint64_t table = 0;    // slots and the lists of slots
  uint64_t annexes = 0;  // rings and logs
  uint64_t keys = 0;     // names of more than 56 bytes
  uint64_t sketch = 0;
  uint64_t regions = 0;  // counts of other regions

  [[nodiscard]] uint64_t used() const { return table + annexes + keys + sketch + regions; }
};

struct LimiterStats {
  uint64_t admitted = 0;
  uint64_t denied = 0;
  uint64_t degraded = 0;     // of admitted and denied: decided on incomplete information
  uint64_t tuples = 0;       // in memory now
  uint64_t evicted = 0;      // removed to free space; the origin has their counts
  uint64_t expired = 0;      // removed because they could influence no decision any more
  uint64_t sketched = 0;     // decisions in the sketch, because the table or `memory` was full
  uint64_t no_memory = 0;    // of those, because `memory` was used up; plus decisions of logs that
                             // could not grow to the requested limit
  ReadStats cold{};          // reads because the tuple was unknown
  ReadStats stale{};         // reads because the known counts were too old
  ReadStats steps{};         // questions to the origin whether requests may be admitted
  uint64_t unread = 0;       // decisions without the read that they required
  uint64_t made_strict = 0;  // tuples of which the origin decides every admission for a while
  uint64_t replayed = 0;     // cells written to the origin and acknowledged
  uint64_t replay_errors = 0;  // failed messages; their cells are sent again
  uint64_t late_replays = 0;   // cells that expired before they could be written
  uint64_t healed = 0;         // cells of which the origin had lost a part
  uint64_t unacked = 0;        // tuples with counts that the origin has not acknowledged
  Nanos replay_lag{0};         // age of the oldest of them
  uint64_t rebuilt = 0;        // tuples with a new state: another rate, or the clock was set back
  uint64_t memory_bytes = 0;   // reserved by the table alone
  MemoryStats memory{};
};

// The most that all regions together admit in a namespace, as a multiple of the limit, without
// requests in flight. docs/ledger.md derives it.
struct NamespaceBound {
  std::string workspace;
  std::string ns;
  double bound = 0;  // fixed_window, sliding_window: in one window
  // gcra, token_bucket: of the burst, above rate x time, in a time in which a burst drains.
  double backlog_bound = 0;
  double log_bound = 0;  // sliding_window_strict, sliding_log: in a time shorter than the duration

  [[nodiscard]] double of(Algorithm algorithm) const {
    switch (algorithm) {
      case Algorithm::kGcra:
      case Algorithm::kTokenBucket: return backlog_bound;
      case Algorithm::kSlidingWindowStrict:
      case Algorithm::kSlidingLog: return log_bound;
      case Algorithm::kSlidingWindow:
      case Algorithm::kFixedWindow: break;
    }
    return bound;
  }
};

// The exchange of counts with other regions.
struct SyncStats {
  // Rows written, by reason.
  uint64_t presence = 0;
  uint64_t contended = 0;
  uint64_t exhaustion = 0;
  uint64_t roll_over = 0;
  uint64_t publish_errors = 0;  // failed messages; their rows are sent again
  uint64_t dropped = 0;         // rows that the ledger rejects
  uint64_t left_out = 0;        // rows that could not be queued: the queue or `memory` was full
  uint64_t waiting = 0;         // rows in the queue now
  Nanos publish_lag{0};         // age of the oldest of them
  uint64_t imported = 0;        // rows read from the ledger, by the bridge
  uint64_t applied = 0;         // rows of tuples that this process serves
  uint64_t import_errors = 0;
  uint64_t last_import = 0;      // rows in the last reply
  uint64_t invalid = 0;          // rows with impossible values, which were ignored
  uint64_t no_room = 0;          // tuples of other regions for which there was no space
  uint64_t messages_missed = 0;  // gaps in the messages of the bridge
  uint64_t keys = 0;             // tuples of this process that other regions may count, too
  uint64_t lost = 0;             // times that the ledger lost the end of our feed
  Nanos import_lag{0};           // since the request of the last successful read
  Nanos write_lag{0};            // since the ledger last accepted a write; 0: it accepts writes
  Nanos full_read_age{0};        // since the last read of all rows of a region
  Nanos full_read_took{0};
  uint64_t full_reads = 0;
  uint64_t deleted = 0;    // expired rows, by this process
  uint32_t regions = 0;    // in the ledger; 0: unknown
  double budget_used = 0;  // 0 to 1
  // As in NamespaceBound: of every namespace that is not listed, and of those with wider bounds.
  double bound = 0;
  double backlog_bound = 0;
  double log_bound = 0;
  std::vector<NamespaceBound> wider_bounds = {};
  bool rules_differ = false;  // the ledger's rules differ from those in this process's options
  bool ready = false;         // the region knows all rows
  bool bridge = false;        // this process is the bridge of its region

  [[nodiscard]] double bound_of(std::string_view workspace, std::string_view ns,
                                Algorithm algorithm = Algorithm::kFixedWindow) const {
    for (const NamespaceBound& each : wider_bounds) {
      if (each.workspace == workspace && each.ns == ns) return each.of(algorithm);
    }
    const NamespaceBound others{.workspace = {},
                                .ns = {},
                                .bound = bound,
                                .backlog_bound = backlog_bound,
                                .log_bound = log_bound};
    return others.of(algorithm);
  }
  [[nodiscard]] double widest_bound() const {
    double widest = bound;
    for (const NamespaceBound& each : wider_bounds) widest = std::max(widest, each.bound);
    return widest;
  }
};

}  // namespace weir
