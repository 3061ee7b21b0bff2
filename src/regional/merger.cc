#include "regional/merger.h"

#include <algorithm>

#include "memory/window_cells.h"

namespace weir::regional {

using memory::mutated;
using memory::Mutation;
using memory::Tagged;
using memory::WindowCells;
using telemetry::Stat;

// Where the origin acknowledged more than the own count, because a step granted it to a request
// that did not wait, it may have that still: the answer may be older than the last one. So it stays
// uncertain.
bool Merger::lower_acked(const memory::Tuple& tuple, int64_t sequence, Count mine,
                         MonoTime now) const {
  if (mutated(Mutation::kLossNotRepaired)) return false;
  const WindowCells cells(tuple);
  uint64_t seen = cells.acked(sequence).load(std::memory_order_acquire);
  do {
    if (Tagged{seen}.count_of(sequence) <= mine) return false;
  } while (!cells.acked(sequence).compare_exchange_weak(seen, Tagged::make(sequence, mine).word,
                                                        std::memory_order_acq_rel,
                                                        std::memory_order_acquire));
  const Count before = Tagged{seen}.count_of(sequence);
  const Count known = std::max(memory::count_in(cells.own(sequence), sequence), mine);
  if (before > known) {
    static_cast<void>(tuples_->uncertain.add(tuple, sequence, before - known, now));
  }
  return true;
}

void Merger::merge_cell(const memory::Tuple& tuple, int64_t sequence, const CellTotals& received,
                        Count written, const WindowsAnswer& answer) const {
  const WindowCells cells(tuple);
  const bool keeps_siblings = written > 0 && mutated(Mutation::kFreshByAcknowledgement);
  if (!keeps_siblings && cells.raise_siblings(sequence, received.siblings) &&
      publish_watch_ != nullptr) {
    publish_watch_->after_sibling_change(tuple, sequence);
  }
  const bool lost =
      lower_acked(tuple, sequence, received.mine, answer.began.mono) || received.mine < written;
  // An origin of another epoch may have lost the count since.
  if (answer.epoch == region_->origin->epoch()) {
    memory::raise_tagged(cells.acked(sequence), sequence, received.mine);
  }
  if (!lost) return;
  counters_->add(Stat::kHealed);
  region_->replay_again(tuple, cells.generation(), sequence);
}

void Merger::merge(const memory::Tuple& tuple, const WindowsAnswer& answer) const {
  const WindowCells cells(tuple);
  const Count known = memory::count_in(cells.siblings(answer.sequence), answer.sequence);
  const int64_t newest = mutated(Mutation::kLateIntoNext) ? cells.newest() : answer.sequence;
  merge_cell(tuple, newest, *answer.current, answer.written, answer);
  if (answer.last != nullptr) {
    merge_cell(tuple, newest - 1, *answer.last, answer.written_last, answer);
  }
  if (!answer.is_now) return;

  const auto& regions = answer.current->regions;
  if (regions != nullptr) {
    if (const auto handler = region_->region_counts.lock()) handler->merge_regions(tuple, *regions);
  }
  // After the counts: whoever sees the new base also sees them.
  const WindowCells::Refusals refusals{answer.current->refused,
                                       answer.last != nullptr && answer.last->refused};
  const bool strict = refusals.current || refusals.last;
  const bool was_strict = cells.told(answer.sequence).strict;
  const bool knows_refusals = strict || answer.extent == Extent::kBoth;
  cells.note_told(answer.sequence, std::min(answer.own, answer.current->mine),
                  knows_refusals ? std::optional(refusals) : std::nullopt);
  if (!was_strict && cells.told(answer.sequence).strict) counters_->add(Stat::kMadeStrict);
  const Millis longest =
      longest_while_failing(region_->replay_failing_since(), answer.began.mono,
                            tuple.slot->header.duration(), region_->max_freshness);
  const bool missed = region_->reads_regions &&
                      (regions == nullptr || region_->missed_messages_since(answer.began.mono));
  note_read(tuple, answer.sequence, answer.began, answer.extent,
            missed ? OtherRegions::kAsBefore : OtherRegions::kKnown, known, longest);
}

}  // namespace weir::regional
