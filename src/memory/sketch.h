// Where tuples are counted when the table is full and nothing may be forgotten.
//
// A count-min sketch: each tuple has two counters, shared with whoever hashes there, and
// its count is the smaller one. It only over-estimates, so a flood of keys frees nobody;
// and as a flood is spread over all counters, it stops few others. A tuple that has been
// counted here stays here until those windows are over (holds()), so that moving into
// the table never forgets.
//
// Counters of one duration form a page, so that windows of different lengths do not
// mix; the last page is for all durations beyond those, on the longest window there is:
// stricter than asked, never looser. Pages occupy memory only once used.
//
// The sketch knows two windows, not rings, logs or backlogs. It answers for them with
// "this and the last window together within the limit and the burst", which implies each
// of their promises.
//
// Safe from any thread; it takes a lock, as only a table in trouble comes here.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "memory/slot.h"
#include "platform/pages.h"

namespace weir::memory {

class Sketch {
 public:
  explicit Sketch(size_t capacity);

  // Decides and, for kConsume, charges what it admits.
  [[nodiscard]] Step decide(uint64_t hash, const Query& query, Effect effect);

  // Takes back what a batch charged in that window.
  void take_back(uint64_t hash, const Query& query, int64_t sequence);

  // Whether something may have been counted here for the tuple in a window that still
  // matters. Cheap while the sketch was never used.
  [[nodiscard]] bool holds(uint64_t hash, const Query& query);

  [[nodiscard]] uint64_t decisions() const { return decisions_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kPages = 8;
  static constexpr int kRows = 2;

  // Bits 24-31: the window's sequence modulo 256; below: the count. A counter of another
  // window is empty; one of 256 windows ago is taken for this one's, on the strict side.
  using Counter = uint32_t;
  static constexpr Count kCounterMax = (1 << 24) - 1;

  struct Page {
    Millis duration{0};   // none yet
    int64_t newest = -1;  // the newest window charged
    Counter* counters = nullptr;
  };
  struct Place {
    Page* page = nullptr;
    algorithms::Position at{};
  };

  // All below need mutex_.
  [[nodiscard]] Place place(const Query& query);
  [[nodiscard]] Counter& counter(const Page& page, int64_t sequence, int row, uint64_t hash);
  [[nodiscard]] Count estimate(const Page& page, int64_t sequence, uint64_t hash);
  void charge(const Place& place, uint64_t hash, Count cost);

  // Fixed after construction.
  size_t width_;
  platform::Pages pages_memory_;

  base::Atomic<uint64_t> decisions_{0};
  base::Mutex mutex_;
  std::array<Page, kPages> pages_;  // guarded by mutex_
};

}  // namespace weir::memory
