// Telling other regions what this one counted.
//
// A tuple is looked at when something happened that may change what the publish rule says of it.
// If the rule says yes, its cell waits for the next round, in which all that wait are written
// together. What is written is the settled count of the whole region, never what was heard from
// others. One process of the region goes first; the others write only if it did not.
//
// Everything from the thread that runs the sharing, but for replies, which it finds in its inbox.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "limiter/inbox.h"
#include "limiter/row_budget.h"
#include "limiter/store.h"
#include "weir/limiter.h"

namespace weir::limiter {

// What is known of the other regions as a whole.
struct Regions {
  SharingRules rules;
  uint32_t count = 0;       // in the ledger; 0: nothing is known yet
  bool all_heard = false;   // a read of everything came to its end: who is not known is not there
  uint64_t hidden_ppm = 0;  // what the others together may hide, in millionths of a limit
};

// One cell as the publish rule sees it, for checkers and for people who ask why.
struct SharedCell {
  std::string tuple;
  int64_t sequence = 0;
  Holding holding{};
  Publish rule = Publish::kNothing;
  Count published = 0;  // what the ledger has
  Count foreign = 0;
  bool waits = false;  // to be written, or is on its way
};

class Publisher {
 public:
  Publisher(std::shared_ptr<Store> store, std::shared_ptr<Inbox> inbox, const Regions& regions)
      : store_(std::move(store)), inbox_(std::move(inbox)), regions_(regions) {}

  // Looks at what was listed, and at what is to be looked at by now.
  void look_at_listed(Instant now);
  void look_at_due(Instant now);
  void look_at(Instant now, BookEntry& entry);
  // Everything there is, a part at a time: the rule itself has changed.
  void look_at_all() { walk_ = 0; }

  // Writes what waits; all of it without regard to whose turn it is, at the end of a process.
  void publish(Instant now, Tell tell);

  struct Stats {
    std::array<uint64_t, kPublishKinds> rows{};  // committed, by rule
    uint64_t errors = 0;
    uint64_t dropped = 0;   // rows that the ledger will not take
    uint64_t left_out = 0;  // rows that there was no room for, not even to wait
  };
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] size_t waiting() const { return queue_.size() + in_flight_; }
  [[nodiscard]] Nanos lag(MonoTime now) const;
  [[nodiscard]] const RowBudget& budget() const { return budget_; }
  // Whether rows were left out a short while ago: then nothing bounds what is hidden.
  [[nodiscard]] bool leaves_out(MonoTime now) const {
    return left_out_at_ != MonoTime{} && now - left_out_at_ < Millis(10'000);
  }
  // When a lease that others believe in until then is over for us.
  [[nodiscard]] static MonoTime lease_end(Instant now, WallTime until) {
    return now.mono + (until - now.wall) - kLeaseMargin;
  }
  // Has everything written that is not, at the end of a process.
  void owe_all(Instant now);
  // The live cells of window tuples.
  void inspect(Instant now, const std::function<void(const SharedCell&)>& visit) const;

 private:
  struct Counted;
  struct Holdings;
  struct Candidate;
  struct Sent;
  struct Chunk;
  static constexpr size_t kChunkRows = 500;
  static constexpr size_t kMostInFlight = 8 * kChunkRows;
  static constexpr size_t kMostQueued = 20'000;
  static constexpr Millis kDeadline{5000};
  // Our lease is over for us before it is for others, whose clocks may differ.
  static constexpr Millis kLeaseMargin{5000};

  [[nodiscard]] static std::optional<Counted> counted_of(const memory::Tuple& tuple, WallTime now);
  [[nodiscard]] Holdings holdings_of(Instant now, const memory::Tuple& tuple,
                                     const Counted& counted, const BookEntry* entry,
                                     bool refused) const;
  void look_at(Instant now, const memory::Tuple& tuple);
  void walk(Instant now);
  void look_again_at(BookEntry& entry, MonoTime when);
  void forget_timer(BookEntry& entry);
  void note(Instant now, BookEntry& entry, int64_t sequence, Count asked, const Holding& holding,
            Publish rule);
  void owe(Instant now, BookEntry& entry, BookCell& cell, Publish rule);
  [[nodiscard]] Nanos head_start() const;
  [[nodiscard]] bool goes_first(const BookEntry& entry) const;
  [[nodiscard]] bool is_turn(Instant now, const BookEntry& entry, BookCell& cell, Tell tell,
                             std::vector<CellRead>& asks) const;
  void ask_siblings(std::vector<CellRead> cells);
  void hear_word(const CellId& id, Count published);
  [[nodiscard]] double rows_per_second() const;
  [[nodiscard]] std::vector<Candidate> choose(Instant now, Tell tell);
  void take(const Candidate& candidate, Chunk& chunk);
  void drop_beyond(Instant now, size_t most);
  void send(Instant now, const std::shared_ptr<Chunk>& chunk);
  void commit(Instant now, Chunk& chunk);
  void fail(Instant now, Chunk& chunk, bool pointless);
  void hold_lease(BookEntry& entry, Instant began) const;
  void land(const Sent& sent);
  void expire(Instant now, BookEntry& entry);
  void enqueue(BookEntry& entry);

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Inbox> inbox_;
  const Regions& regions_;
  RowBudget budget_;
  std::vector<BookEntry*> queue_;
  BookTimers timers_;
  std::vector<std::shared_ptr<Chunk>> chunks_;  // under way
  size_t in_flight_ = 0;
  size_t walk_ = ~size_t{0};
  Nanos took_{0};  // to write something, about the most of late
  MonoTime left_out_at_{};
  Stats stats_;
};

}  // namespace weir::limiter
