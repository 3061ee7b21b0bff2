// What is kept of one tuple: two hot cache lines, and a cold one that a decision on
// local knowledge does not touch.
//
// The first hot line is eight words whose meaning depends on the class of the tuple;
// the files named after the classes (window_cells.h, backlog_cell.h, ring_cell.h,
// log_cell.h) are the only ones that know. Words 1 and 2 are the ones admissions
// compare-and-swap; when a slot is taken away, kGone is put there, so that no admission
// can land on a slot that is about to become another tuple's.
//
// The second hot line is the key. It is written before the slot is published and not
// again until a grace period after it was hidden, so readers compare plain memory.

#pragma once

#include <cstdint>

#include "algorithms/decision.h"
#include "memory/tuple_key.h"
#include "memory/words.h"
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
  // Relaxed: only ever read by threads that found the slot, after it was published.
  template <typename Annex>
  [[nodiscard]] Annex* annex() const {
    return reinterpret_cast<Annex*>(hot[3].load(std::memory_order_relaxed));
  }
};
static_assert(sizeof(Slot) == 128);

struct alignas(64) Cold {
  Word siblings[2];  // by parity of the sequence, tagged
  Word foreign[2];   // by parity of the sequence, tagged
  Word acked[2];     // what the origin has acknowledged of own, tagged
  Word tentative;    // cost of batches under way; see tentative.h
  Word meta;         // see noted.h
};
static_assert(sizeof(Cold) == 64);

// A tuple that was found. Valid while the finder stays pinned.
struct Tuple {
  Slot* slot = nullptr;
  Cold* cold = nullptr;
  uint32_t index = 0;
  explicit operator bool() const { return slot != nullptr; }
};

enum class Effect : uint8_t { kConsume, kOnlyLook };

enum class DecisionStatus : uint8_t {
  kDecided,
  kRetry,    // the slot was taken away: find the tuple again
  kRebuild,  // the state cannot express this request: see Table::rebuild
  kLate,     // the request is from before the state, but the clock is not: ask again now
};

// The decision of one request on one tuple.
struct CellDecision {
  DecisionStatus status = DecisionStatus::kDecided;
  bool approximate = false;  // by the sketch, or by a log that could not grow to the limit
  algorithms::Decision decision{};
  Evidence evidence{};
  int64_t sequence = 0;  // window class: the window decided in, and charged if admitted
};

// How much of a window a process may accept by itself while it cannot ask the others. Of the
// other windows it may accept nothing: they come and go faster than this is worked out anew.
struct OwnBound {
  static constexpr Count kNone = ~Count{0};
  Count most = kNone;
  int64_t sequence = 0;
  Millis again{0};  // when to try again if it is in the way

  [[nodiscard]] bool holds() const { return most != kNone; }
};

// What a decision needs to know besides the tuple's state.
struct Query {
  WallTime now{};
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Millis duration{0};
  Count limit = 0;  // the rate, where that differs from the capacity
  algorithms::Ask ask{};
  OwnBound bound{};  // window class
};

[[nodiscard]] inline Query query_of(WallTime now, const Request& request) {
  const auto limit = static_cast<Count>(request.limit);
  return {.now = now,
          .algorithm = request.algorithm,
          .duration = request.duration,
          .limit = limit,
          .ask = {.capacity = request.burst ? static_cast<Count>(*request.burst) : limit,
                  .cost = static_cast<Count>(request.cost)}};
}

}  // namespace weir::memory
