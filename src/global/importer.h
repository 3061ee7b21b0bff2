// Imports the counts that other regions published.
//
// All counts merge by max, so rows may arrive twice, late or out of order. The rows of our own
// region are imported, too: they tell what siblings published, and what this process published
// before it was restarted.
//
// Only from the thread that runs the sync.

#pragma once

#include <cstdint>

#include "global/global_state.h"
#include "global/publish_trigger.h"
#include "global/regions.h"
#include "memory/tuple_store.h"

namespace weir::global {

class Importer {
 public:
  Importer(const memory::TupleStore& tuples, GlobalState& global, const Regions& regions,
           PublishTrigger& trigger)
      : tuples_(tuples), remote_(global.remote), regions_(regions), trigger_(trigger) {}

  void merge(Instant now, const LedgerNews& changes);

  // Brackets a full read. A row that was published before the read began and that the read does not
  // have was lost by the ledger; it counts as unpublished and is published again. Beginning takes
  // constant time.
  void begin_full_read(Instant now);
  void end_full_read(Instant now);

  struct Stats {
    uint64_t imported = 0;  // rows and presences
    uint64_t invalid = 0;
    uint64_t entries = 0;   // created for tuples without traffic here
    uint64_t no_space = 0;  // rows for which there was no space
    uint64_t lost = 0;      // entries of which the ledger lost something
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  // As of the last full read: whether there has been space for all rows since, and until when some
  // row of our region matters.
  [[nodiscard]] bool has_all() const { return stats_.no_space == no_space_accepted_; }
  [[nodiscard]] WallTime own_rows_until() const { return own_rows_until_; }

 private:
  void merge(Instant now, const LedgerRow& row);
  void merge(Instant now, const LedgerPresence& presence);
  // Whether something was published before the full read began and the read did not have it.
  [[nodiscard]] bool has_lost(Instant now, const RemoteEntry& entry) const;
  [[nodiscard]] bool is_lost(Instant now, const RemoteEntry& entry, const RemoteCell& cell) const;
  [[nodiscard]] bool is_presence_lost(Instant now, const RemoteEntry& entry) const;
  [[nodiscard]] RemoteEntry* entry_of(const LedgerKey& key, const std::string& region)
      WEIR_REQUIRES(remote_.mutex());

  const memory::TupleStore& tuples_;
  RemoteCounts& remote_;
  const Regions& regions_;
  PublishTrigger& trigger_;
  MonoTime full_read_began_{};
  uint64_t no_space_before_ = 0;    // when the full read began
  uint64_t no_space_accepted_ = 0;  // the full read had space for these rows
  WallTime own_rows_until_{};
  uint32_t full_read_ = 0;  // the number of the full read in progress, or of the last
  Stats stats_;
};

}  // namespace weir::global
