// The fast path: admits a simple request on a tuple that is in the table. Handles windows, if the
// process is alone or its counts of the siblings are fresh, and backlogs. Everything else returns
// false, with nothing changed, and takes the slow path.
//
// Every function in this file is inlined: one call would make the compiler spill its registers.
// Names are hashed and compared inside the request, without a copy. The work is split into steps,
// so that several requests can be interleaved.

#pragma once

#include "algorithms/backlog.h"
#include "base/inline.h"
#include "base/keyed_hash.h"
#include "base/wide.h"
#include "base/word_packer.h"
#include "memory/backlog_cell.h"
#include "memory/slot.h"
#include "memory/table.h"
#include "memory/window_cells.h"
#include "regional/freshness.h"

namespace weir::decide {

// Measured: with two more stores to build a request, a decision takes 51 ns instead of 49.
static_assert(sizeof(Request) == 104, "put small members beside each other");

// What a process may admit by itself: everything, or nothing.
inline constexpr regional::Allowance kRelaxed{.parts = 0};
inline constexpr regional::Allowance kNoAllowance{.parts = uint64_t{1} << 60};

// How a request is decided.
enum class Path : uint8_t {
  kWindow,   // fast path: fixed_window or sliding_window
  kBacklog,  // fast path: gcra or token_bucket
  kFound,    // valid, with short names: FastKey finds its slot, the slow path decides
  kLocal,    // the same, of a tuple whose state the origin keeps: this process may decide it alone
  kSlow,
};

// The header and hash that the request's TupleKey would have.
struct FastKey {
  uint64_t header = 0;
  uint64_t hash = 0;
};

// Returns kWindow or kBacklog, or kSlow for all other requests, valid or not. Sets `fast_key` if
// the names are short, also for kSlow.
WEIR_HOT_INLINE Path classify(const Request& request, const base::KeyedHash& secret,
                              FastKey& fast_key) {
  const size_t workspace = request.workspace.size();
  const size_t ns = request.ns.size();
  const size_t identifier = request.identifier.size();
  if (ns == 0 || identifier == 0 || (workspace | ns | identifier) > 8 * memory::kInlineKeyWords ||
      base::words_for(workspace) + base::words_for(ns) + base::words_for(identifier) >
          memory::kInlineKeyWords) {
    return Path::kSlow;
  }
  const auto duration = static_cast<uint64_t>(request.duration.count());
  const bool windows = request.algorithm == Algorithm::kSlidingWindow ||
                       request.algorithm == Algorithm::kFixedWindow;
  fast_key.header = duration << 32 | workspace << 20 | ns << 10 | identifier;
  if (!windows) {
    if (request.across_durations) fast_key.header &= 0xffffffff;
    fast_key.header |= static_cast<uint64_t>(memory::class_of(request.algorithm)) << 30;
  }
  base::KeyedHash::Short hash(secret, fast_key.header);
  const auto add = [&](uint64_t word) {
    hash.add(word);
    return true;
  };
  if (workspace != 0) base::each_word(request.workspace, add);
  base::each_word(request.ns, add);
  base::each_word(request.identifier, add);
  fast_key.hash = hash.finish();

  // While the hash is being multiplied:
  const auto within = [](uint64_t value, uint64_t low, uint64_t high) {
    return value - low <= high - low;
  };
  const Count limit = request.limit;
  const bool numbers = within(request.cost, 1, kMaxLimit) && within(limit, 1, kMaxLimit) &&
                       within(duration, kMinDuration.count(), kMaxDuration.count());
  if (windows) [[likely]] {
    return !request.burst.has_value() && !request.across_durations && numbers &&
                   request.on_origin_loss.value_or(OnOriginLoss::kLocal) <= OnOriginLoss::kShare &&
                   request.consistency.value_or(Consistency::kConverge) <= Consistency::kRelaxed
               ? Path::kWindow
               : Path::kSlow;
  }
  const Count burst = request.burst.value_or(limit);
  return numbers && memory::class_of(request.algorithm) == memory::CellClass::kBacklog &&
                 limit <= algorithms::kAlwaysRepresentable &&
                 within(burst, 1, algorithms::kAlwaysRepresentable) &&
                 !request.on_origin_loss.has_value() && !request.consistency.has_value()
             ? Path::kBacklog
             : Path::kSlow;
}

// Whether the slot holds the tuple of the request.
WEIR_HOT_INLINE bool is_of(const memory::Slot& slot, const FastKey& fast_key,
                           const Request& request) {
  if (slot.header.word != fast_key.header) return false;
  const uint64_t* words = slot.key;
  const auto equal = [&](uint64_t word) { return *words++ == word; };
  return (request.workspace.empty() || base::each_word(request.workspace, equal)) &&
         base::each_word(request.ns, equal) && base::each_word(request.identifier, equal);
}

// Charges the tuple and writes the verdict field by field; in a shared scope the caller then marks
// the tuple as charged. This is WindowCells::decide and read_requirement for the common case; their
// notes on memory order and invariants hold here.
template <memory::Scope kScope>
WEIR_HOT_INLINE bool admit_window(const memory::Tuple& tuple, Instant now, const Request& request,
                                  regional::Allowance allowance, Verdict& verdict) {
  memory::Slot& slot = *tuple.slot;
  __builtin_prefetch(&slot.hot, 1);  // for writing, or the line would be fetched twice
  const Count capacity = request.limit;
  const Count cost = request.cost;
  const auto width = static_cast<uint64_t>(request.duration.count());
  const uint64_t newest = slot.hot[0].load(std::memory_order_relaxed);
  const uint64_t offset =
      static_cast<uint64_t>(now.wall.time_since_epoch().count()) - newest * width;
  if (offset >= width) return false;
  const auto sequence = static_cast<int64_t>(newest);
  memory::Word& own_cell = slot.hot[1 + (newest & 1)];
  uint64_t own_word = own_cell.load(std::memory_order_relaxed);
  const uint64_t last_word = slot.hot[2 - (newest & 1)].load(std::memory_order_relaxed);
  // Own is open and of this window; last is closed and of the window before; neither is removed.
  const Count own = own_word ^ memory::tag_bits(sequence);
  Count last = last_word ^ (memory::tag_bits(sequence - 1) | memory::kClosedBit);
  Count others = 0;
  Count told = 0;  // of another window, or strict: more than any count
  if constexpr (kScope == memory::Scope::kProcess) {
    if ((slot.hot[3].load(std::memory_order_relaxed) |
         slot.hot[4].load(std::memory_order_relaxed)) != 0) {
      return false;
    }
  } else {
    const regional::Freshness fresh{slot.hot[5].load(std::memory_order_acquire)};
    if (!fresh.is_fresh(now.mono) || last >> 32 != 0) return false;
    // Before the counts of others: they are at least as new.
    told = slot.hot[6].load(std::memory_order_acquire) ^ memory::tag_bits(sequence);
    others = memory::open_count(slot.hot[3 + (newest & 1)].load(std::memory_order_relaxed),
                                memory::tag_bits(sequence));
    last += memory::open_count(slot.hot[4 - (newest & 1)].load(std::memory_order_relaxed),
                               memory::tag_bits(sequence - 1));
  }
  if (own > memory::kCountMask || last >> 32 != 0) return false;
  // Both factors are below 2^32.
  const Count carried = request.algorithm == Algorithm::kSlidingWindow
                            ? base::divide(last * (width - offset), width)
                            : 0;
  const Count used = own + others + carried;
  if (used + cost > capacity) return false;
  if (kScope == memory::Scope::kRegion && allowance.parts != 0) {
    if (told > own || !allowance.covers(own - told + cost, capacity - (used - own + told))) {
      return false;
    }
  }
  // Shared: see WindowCells::watch_seq_cst().
  constexpr auto kOrder =
      kScope == memory::Scope::kRegion ? std::memory_order_seq_cst : std::memory_order_relaxed;
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
  if constexpr (kScope == memory::Scope::kRegion) {
    memory::WindowCells(tuple).split_others(sequence, others, verdict.evidence);
  }
  return true;
}

// The same for a backlog, which is always local to the process.
WEIR_HOT_INLINE bool admit_backlog(const memory::Tuple& tuple, WallTime now, const Request& request,
                                   Verdict& verdict) {
  __builtin_prefetch(&tuple.slot->hot, 1);
  const memory::Query query = memory::query_of(now, request);
  algorithms::BacklogDecision decision;
  if (!memory::BacklogCell(tuple).admit(query, decision)) return false;
  verdict.outcome = Outcome::kAdmitted;
  verdict.basis = Basis::kLocal;
  verdict.limit = query.ask.capacity;
  verdict.remaining = decision.remaining;
  verdict.reset = decision.reset;
  verdict.retry_after.reset();
  verdict.evidence = {.own = query.ask.capacity - decision.remaining - query.ask.cost};
  return true;
}

template <memory::Scope kScope>
WEIR_HOT_INLINE bool admit_fast(Path path, const memory::Tuple& tuple, Instant now,
                                const Request& request, regional::Allowance allowance,
                                Verdict& verdict) {
  if (path == Path::kWindow) [[likely]]
    return admit_window<kScope>(tuple, now, request, allowance, verdict);
  return path == Path::kBacklog && admit_backlog(tuple, now.wall, request, verdict);
}

}  // namespace weir::decide
