// The shortest way through: a plain request that is admitted on a window tuple in its
// steady state, in a process that is alone or knows enough of the others. Whatever is not
// that is refused here, with nothing done, and goes a longer way to the same end.
//
// Nothing in this file calls a function that is not inlined: one call would make the
// compiler keep all it knows in memory. And nothing is copied out of the request: names are
// hashed and compared where they lie. In steps, so that many requests can be taken side by
// side.

#pragma once

#include "base/inline.h"
#include "base/keyed_hash.h"
#include "base/word_packer.h"
#include "limiter/freshness.h"
#include "memory/slot.h"
#include "memory/table.h"
#include "memory/window_cells.h"

namespace weir::limiter {

// What a TupleKey of the request would have, without the names.
struct Plain {
  uint64_t header = 0;
  uint64_t hash = 0;
};

// False: not plain, or not valid; `plain` is then still right where the names are short, and
// anything else may be looked up in vain.
WEIR_HOT_INLINE bool plain_of(const Request& request, const base::KeyedHash& secret, Plain& plain) {
  const size_t workspace = request.workspace.size();
  const size_t name_space = request.name_space.size();
  const size_t identifier = request.identifier.size();
  if (name_space == 0 || identifier == 0 ||
      (workspace | name_space | identifier) > 8 * memory::kInlineKeyWords ||
      base::words_for(workspace) + base::words_for(name_space) + base::words_for(identifier) >
          memory::kInlineKeyWords) {
    return false;
  }
  const auto duration = static_cast<uint64_t>(request.duration.count());
  const bool windows = request.algorithm == Algorithm::kSlidingWindow ||
                       request.algorithm == Algorithm::kFixedWindow;
  plain.header = duration << 32 | workspace << 20 | name_space << 10 | identifier;
  if (!windows) {
    if (request.across_durations) plain.header &= 0xffffffff;
    plain.header |= static_cast<uint64_t>(memory::class_of(request.algorithm)) << 30;
  }
  base::KeyedHash::Short hash(secret, plain.header);
  const auto add = [&](uint64_t word) {
    hash.add(word);
    return true;
  };
  if (workspace != 0) base::each_word(request.workspace, add);
  base::each_word(request.name_space, add);
  base::each_word(request.identifier, add);
  plain.hash = hash.finish();

  // While that is being multiplied:
  const auto within = [](uint64_t value, uint64_t low, uint64_t high) {
    return value - low <= high - low;
  };
  return windows && !request.burst.has_value() && !request.across_durations &&
         within(static_cast<uint64_t>(request.cost), 1, kMaxLimit) &&
         within(static_cast<uint64_t>(request.limit), 1, kMaxLimit) &&
         within(duration, kMinDuration.count(), kMaxDuration.count());
}

// Whether the slot is the tuple of the request that `plain` was made of.
WEIR_HOT_INLINE bool is_of(const memory::Slot& slot, const Plain& plain, const Request& request) {
  if (slot.header.word != plain.header) return false;
  const uint64_t* words = slot.key;
  const auto equal = [&](uint64_t word) { return *words++ == word; };
  return (request.workspace.empty() || base::each_word(request.workspace, equal)) &&
         base::each_word(request.name_space, equal) && base::each_word(request.identifier, equal);
}

// Charges, and writes the verdict field by field; shared, its caller marks the tuple charged.
// WindowCells::decide and need_of with all that is unusual left out; what they say about order
// and invariants holds here.
template <memory::Company kCompany>
WEIR_HOT_INLINE bool admit_plain(const memory::Tuple& tuple, Instant now, const Request& request,
                                 Verdict& verdict) {
  memory::Slot& slot = *tuple.slot;
  __builtin_prefetch(&slot.hot, 1);  // else the line would be asked for twice: read, then write
  const auto capacity = static_cast<Count>(request.limit);
  const auto cost = static_cast<Count>(request.cost);
  const auto width = static_cast<uint64_t>(request.duration.count());
  const uint64_t newest = slot.hot[0].load(std::memory_order_relaxed);
  const uint64_t offset =
      static_cast<uint64_t>(now.wall.time_since_epoch().count()) - newest * width;
  if (offset >= width) return false;
  const auto sequence = static_cast<int64_t>(newest);
  memory::Word& own_cell = slot.hot[1 + (newest & 1)];
  uint64_t own_word = own_cell.load(std::memory_order_relaxed);
  const uint64_t last_word = slot.hot[2 - (newest & 1)].load(std::memory_order_relaxed);
  const uint64_t others_word = slot.hot[3 + (newest & 1)].load(std::memory_order_relaxed);
  const uint64_t others_last_word = slot.hot[4 - (newest & 1)].load(std::memory_order_relaxed);
  // Ours open and of this window; the last closed and of the one before, or never used;
  // neither taken away.
  const Count own = own_word ^ memory::tag_bits(sequence);
  Count last =
      last_word == 0 ? 0 : last_word ^ (memory::tag_bits(sequence - 1) | memory::kClosedBit);
  Count others = 0;
  if constexpr (kCompany == memory::Company::kAlone) {
    if ((others_word | others_last_word) != 0) return false;
  } else {
    const Freshness fresh{slot.hot[5].load(std::memory_order_acquire)};
    if (!fresh.is_fresh(now.mono) ||
        ticks(now.mono) < slot.hot[6].load(std::memory_order_acquire) || last >> 32 != 0) {
      return false;
    }
    others = memory::open_count(others_word, memory::tag_bits(sequence));
    last += memory::open_count(others_last_word, memory::tag_bits(sequence - 1));
  }
  if (own > memory::kCountMask || last >> 32 != 0) return false;
  // Both factors are below 2^32.
  const Count carried =
      request.algorithm == Algorithm::kSlidingWindow ? last * (width - offset) / width : 0;
  const Count used = own + others + carried;
  if (used + cost > capacity) return false;
  // Shared: see WindowCells::mark_after_charge().
  constexpr auto kOrder =
      kCompany == memory::Company::kShared ? std::memory_order_seq_cst : std::memory_order_relaxed;
  if (!own_cell.compare_exchange_strong(own_word, own_word + cost, kOrder,
                                        std::memory_order_relaxed)) {
    return false;
  }
  verdict.outcome = Outcome::kAdmitted;
  verdict.basis = Basis::kLocal;
  verdict.limit = capacity;
  verdict.remaining = capacity - used - cost;
  verdict.reset = now.wall + Millis(static_cast<int64_t>(width - offset));
  verdict.retry_after.reset();
  verdict.evidence = {.own = own, .siblings = 0, .foreign = 0, .previous = carried};
  if constexpr (kCompany == memory::Company::kShared) {
    memory::WindowCells(tuple).split_others(sequence, others, verdict.evidence);
  }
  return true;
}

}  // namespace weir::limiter
