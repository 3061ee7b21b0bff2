// Cells that wait to be written to the ledger, and whose turn it is.
//
// One process of the region goes first, another for each tuple. The others wait for as long as that
// takes, ask the origin whether it left word, and write only if it did not.
//
// From the thread that runs the sharing, but for replies, which it finds in its inbox.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "global/completion_queue.h"
#include "global/regions.h"
#include "global/row_budget.h"
#include "decide/store.h"
#include "weir/limiter.h"

namespace weir::limiter {

class PublishQueue {
 public:
  PublishQueue(std::shared_ptr<Store> store, std::shared_ptr<CompletionQueue> completions,
               const Regions& regions, RowBudget& budget)
      : store_(std::move(store)),
        completions_(std::move(completions)),
        regions_(regions),
        budget_(budget) {}

  // The rule wants it written; under the book's mutex.
  void enqueue(Instant now, RemoteEntry& entry, RemoteCell& cell, Publish rule);
  // Has an entry wait for what it owes.
  void add(RemoteEntry& entry);

  struct Candidate {
    RemoteEntry* entry = nullptr;
    RemoteCell* cell = nullptr;
  };
  // Of what waits, that whose turn has come, in the order in which rows are given out: first what
  // others count on or what is full, then presences, one of each namespace in turn.
  [[nodiscard]] std::vector<Candidate> choose(Instant now, Flush flush);
  // Lets those go that owe nothing any more.
  void tidy();
  // Takes out the one that came last, and what it owes is forgotten.
  RemoteEntry& drop_last();

  [[nodiscard]] size_t size() const { return queue_.size(); }
  // Since when the one that has waited longest has; `now`, if none has.
  [[nodiscard]] MonoTime waiting_since(MonoTime now) const;
  // How long it took to write something.
  void note_took(Nanos took) { took_ = std::max(took, took_ - took_ / 8); }

 private:
  [[nodiscard]] Nanos head_start() const;
  [[nodiscard]] bool goes_first(const RemoteEntry& entry) const;
  [[nodiscard]] bool is_turn(Instant now, const RemoteEntry& entry, RemoteCell& cell, Flush flush,
                             std::vector<CellRead>& asks) const;
  void ask_siblings(std::vector<CellRead> cells);
  void hear_word(const CellId& id, Count published);

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<CompletionQueue> completions_;
  const Regions& regions_;
  RowBudget& budget_;
  std::vector<RemoteEntry*> queue_;
  Nanos took_{0};  // about the most of late
};

}  // namespace weir::limiter
