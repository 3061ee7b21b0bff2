// The memory of one tuple: two hot cache lines, and a cold one that a decision on local knowledge
// does not touch.
//
// The first hot line has eight words. Their meaning depends on the class of the tuple and is
// defined in window_cells.h, backlog_cell.h, ring_cell.h and log_cell.h. Admissions
// compare-and-swap words 1 and 2. When a slot is removed, both are set to kFrozen, so that no
// admission can change a slot that another tuple is about to use.
//
// The second hot line is the key. It is written before the slot is published and not again until
// the slot was retired and its epoch is reclaimable, so readers compare plain memory.

#pragma once

#include <cstdint>
#include <optional>

#include "algorithms/decision.h"
#include "memory/tagged_word.h"
#include "memory/tuple_key.h"
#include "weir/verdict.h"

namespace weir::memory {

inline constexpr size_t kInlineKeyWords = 7;

struct alignas(128) Slot {
  Word hot[8];
  KeyHeader header;
  // The names, or, if they are longer than 56 bytes, a pointer to them in the first word.
  uint64_t key[kInlineKeyWords];

  [[nodiscard]] const uint64_t* key_words(size_t count) const {
    return count <= kInlineKeyWords ? key : reinterpret_cast<const uint64_t*>(key[0]);
  }
  [[nodiscard]] const uint64_t* key_words() const { return key_words(header.words()); }
  // Relaxed: only threads that found the published slot read it.
  template <typename Buffer>
  [[nodiscard]] Buffer* buffer() const {
    return reinterpret_cast<Buffer*>(hot[3].load(std::memory_order_relaxed));
  }
};
static_assert(sizeof(Slot) == 128);

struct alignas(64) Cold {
  Word siblings[2];  // by parity of the sequence, tagged
  Word foreign[2];   // by parity of the sequence, tagged
  Word acked[2];     // the own count that the origin has acknowledged, tagged
  Word tentative;    // cost of batches in flight; see tentative.h
  Word meta;         // see tuple_meta.h
};
static_assert(sizeof(Cold) == 64);

// A tuple that was found. Valid while the caller holds its epoch guard.
struct Tuple {
  Slot* slot = nullptr;
  Cold* cold = nullptr;
  uint32_t index = 0;
  explicit operator bool() const { return slot != nullptr; }
};

enum class Effect : uint8_t { kConsume, kPeek };

enum class DecisionStatus : uint8_t {
  kDecided,
  kRetry,    // the slot was frozen: find the tuple again
  kRebuild,  // the state cannot represent this request: see Table::rebuild
  kLate,     // the request is older than the state, but the clock is not: retry with the time now
};

// The decision of one request on one tuple.
struct CellDecision {
  DecisionStatus status = DecisionStatus::kDecided;
  // By the sketch, by a log that could not grow to the limit, or without counts that could not be
  // read.
  bool approximate = false;
  algorithms::Decision decision{};
  Evidence evidence{};
  int64_t sequence = 0;     // window class: the window decided in, and charged if admitted
  uint64_t generation = 0;  // of the tuple, if the origin decided
};

// The bound on the own count of a process in one window: its allowance, or what it may admit while
// it cannot reach the origin. In other windows it may admit nothing: windows change faster than
// this bound is recomputed.
struct OwnBound {
  static constexpr Count kNone = ~Count{0};
  Count most = kNone;
  int64_t sequence = 0;
  Millis retry_after{0};  // for a request that only this bound refuses
  bool reported = true;   // the remaining limit of a verdict is not above it

  [[nodiscard]] bool is_set() const { return most != kNone; }
};

// The input of a decision besides the tuple's state.
struct Query {
  WallTime now{};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Millis duration{0};
  Count limit = 0;  // the rate, where that differs from the capacity
  algorithms::Ask ask{};
  OwnBound bound{};  // window class
  // Set if limit and capacity are only a part of those of the request; see
  // regional/query_share.h.
  struct Whole {
    Count limit = 0;
    Count capacity = 0;
  };
  std::optional<Whole> whole{};
};

[[nodiscard]] inline Query query_of(WallTime now, const Request& request) {
  return {.now = now,
          .algorithm = request.algorithm,
          .duration = request.duration,
          .limit = request.limit,
          .ask = {.capacity = request.burst.value_or(request.limit), .cost = request.cost}};
}

}  // namespace weir::memory
