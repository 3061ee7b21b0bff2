// Hearing what other regions counted.
//
// Everything merges by max, so it does not matter what is heard twice, late or out of order. News
// of our own region counts too: it tells what siblings wrote, and what this process knew before it
// was started.
//
// From the thread that runs the sharing.

#pragma once

#include <cstdint>
#include <memory>

#include "limiter/lookout.h"
#include "limiter/regions.h"
#include "limiter/store.h"

namespace weir::limiter {

class Importer {
 public:
  Importer(std::shared_ptr<Store> store, const Regions& regions, PublishTrigger& trigger)
      : store_(std::move(store)), regions_(regions), trigger_(trigger) {}

  void take_in(Instant now, const LedgerNews& news);

  // What a read of everything does not show although it was written before: the ledger lost it.
  // It is taken to have it no more, and so written again.
  // Beginning takes no time, however much is known.
  void begin_full(Instant now);
  void end_full(Instant now);

  struct Stats {
    uint64_t imported = 0;
    uint64_t invalid = 0;
    uint64_t received = 0;  // tuples without traffic here
    uint64_t no_room = 0;   // for such
    uint64_t lost = 0;
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  // By the last read of everything: whether there was room for all of it since, and until when
  // something matters that our region has written.
  [[nodiscard]] bool has_all() const { return stats_.no_room == no_room_accepted_; }
  [[nodiscard]] WallTime ours_until() const { return ours_until_; }

 private:
  void take_in(Instant now, const LedgerRow& row);
  void take_in(Instant now, const LedgerPresence& presence);
  // Of what was written before the read of everything began, whether that read did not show it.
  [[nodiscard]] bool has_lost(Instant now, const RemoteEntry& entry) const;
  [[nodiscard]] bool is_lost(Instant now, const RemoteEntry& entry, const RemoteCell& cell) const;
  [[nodiscard]] bool is_presence_lost(Instant now, const RemoteEntry& entry) const;
  [[nodiscard]] RemoteEntry* entry_of(const LedgerKey& key, const std::string& region)
      WEIR_REQUIRES(store_->remote.mutex());

  const std::shared_ptr<Store> store_;
  const Regions& regions_;
  PublishTrigger& trigger_;
  MonoTime full_began_{};
  uint64_t no_room_before_ = 0;    // when the read of everything began
  uint64_t no_room_accepted_ = 0;  // such news was heard of again since
  WallTime ours_until_{};
  uint32_t full_read_ = 0;  // the number of the one under way, or of the last
  Stats stats_;
};

}  // namespace weir::limiter
