// Counts tuples when the table is full and no tuple may be evicted.
//
// A count-min sketch: each tuple has four counters, which it shares with other tuples by hash, and
// its count is the smallest of them. It only over-estimates, so a flood of keys admits nobody. Two
// of the four counters are anywhere, which spreads a flood over all counters. Two are in the parts
// of the tuple's group, its workspace and namespace, so that a flood in one group does not deny
// requests of another. A tuple that was counted here stays here until those windows are over
// (holds()), so that a move into the table loses no count.
//
// The counters of one duration form a page, so that windows of different lengths do not mix. There
// are a few such pages. A duration without a page is counted on the page of its class, which serves
// all durations up to the same power of two, on windows of that length: stricter than requested,
// never looser. Counts on the page of the class also apply once a duration has its own page, so
// that a change of pages loses no count. A tuple whose duration may change (KeyHeader) uses the
// counts of all pages.
//
// A page gets its memory at its first use: from the pages reserved for the sketch, from a page
// whose counts are all over, or from the byte budget. Without memory the duration is counted on the
// page of a larger class, on longer windows: stricter again. The largest class always has memory.
//
// The sketch has two windows, no rings, logs or backlogs. For those it requires that the current
// and the previous window together are within the limit and the burst, which implies each of their
// guarantees.
//
// Safe from any thread. It takes a lock, because it is only used when the table is full.

#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/atomic.h"
#include "base/mutex.h"
#include "memory/byte_budget.h"
#include "memory/slot.h"
#include "platform/pages.h"

namespace weir::memory {

class Sketch {
 public:
  // The tuple to count.
  struct Subject {
    uint64_t hash = 0;
    uint64_t group = 0;             // a hash of its workspace and namespace
    bool across_durations = false;  // its duration may change from one request to the next
  };

  // Reserves the memory of `reserved_pages` pages, at least one, from the budget. Without a budget
  // the number of pages is not bounded.
  explicit Sketch(size_t capacity, ByteBudget* budget = nullptr, size_t reserved_pages = 1);
  [[nodiscard]] static uint64_t bytes_for(size_t capacity, size_t pages);

  // Decides and, for kConsume, charges an admitted request. `extra` is added to the count.
  [[nodiscard]] CellDecision decide(const Subject& subject, const Query& requested, Effect effect,
                                    Count extra = 0);

  // Charges without a decision.
  void add(const Subject& subject, const Query& requested);

  // Refunds the charge of a batch in that window.
  void refund(const Subject& subject, const Query& requested, int64_t sequence);

  // An upper bound of the tuple's count in windows that are not over. Takes no lock if no duration
  // of this class was counted recently.
  [[nodiscard]] Count counted(const Subject& subject, const Query& requested);
  // Whether that is more than 0.
  [[nodiscard]] bool holds(const Subject& subject, const Query& query) {
    return counted(subject, query) > 0;
  }

  // From this time on no count in the sketch matters.
  [[nodiscard]] WallTime live_until() const {
    return WallTime(Millis(live_until_[kClasses].load(std::memory_order_acquire)));
  }

  [[nodiscard]] uint64_t decisions() const { return decisions_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kOwnPages = 7;
  // Classes are numbered by the exponent of the power of two.
  static constexpr size_t kMinExponent =
      std::bit_width(static_cast<uint64_t>(kMinDuration.count()));
  static constexpr size_t kClasses =
      std::bit_width(static_cast<uint64_t>(kMaxDuration.count())) - kMinExponent + 1;
  static constexpr int kSpreadRows = 2;  // anywhere
  static constexpr int kRows = 4;        // the others are in the parts of the group
  static constexpr size_t kGroupParts = 64;

  // A page this far ahead was charged before the clock was set back.
  static constexpr Millis kClockSetBack{60'000};

  using Counter = uint32_t;
  static constexpr Count kCounterMax = ~Counter{0};

  struct Page {
    Millis duration{0};   // 0: none yet
    int64_t newest = -1;  // the newest window charged
    // For the page of a class, the smallest class counted on it; else kClasses.
    size_t min_class = kClasses;
    platform::Pages memory;

    // From this time on none of its counts matters.
    [[nodiscard]] WallTime end() const { return WallTime((newest + 2) * duration); }
    // Whether it was charged at a future time: the clock was set back far.
    [[nodiscard]] bool is_ahead_of(WallTime now) const {
      return newest > algorithms::position_of(now, duration).sequence + 1 &&
             WallTime(newest * duration) > now + kClockSetBack;
    }
    [[nodiscard]] bool is_live_at(WallTime now) const {
      return newest >= 0 && now < end() && !is_ahead_of(now);
    }
  };

  [[nodiscard]] static size_t class_of(Millis duration) {
    const size_t exponent = std::bit_width(static_cast<uint64_t>(duration.count() - 1));
    return exponent < kMinExponent ? 0 : exponent - kMinExponent;
  }
  [[nodiscard]] static Millis duration_of_class(size_t index) {
    return Millis(int64_t{1} << (index + kMinExponent));
  }

  // Durations beyond the largest class are counted on its windows, at the same rate or a lower one.
  // A rate of less than one in such a window becomes a limit of 0.
  [[nodiscard]] static Query capped_to_classes(const Query& query);

  [[nodiscard]] Page& page_of(const Query& query) WEIR_REQUIRES(mutex_);
  [[nodiscard]] static algorithms::Position position_on(Page& page, WallTime now);
  [[nodiscard]] Counter& counter(const Page& page, int64_t sequence, int row,
                                 const Subject& subject) const WEIR_REQUIRES(mutex_);
  [[nodiscard]] Count estimate(const Page& page, int64_t sequence, const Subject& subject) const
      WEIR_REQUIRES(mutex_);
  // The tuple's count on other pages, and when the last of it is over.
  struct OtherPages {
    Count count = 0;
    WallTime end{};
  };
  [[nodiscard]] OtherPages other_pages(const Subject& subject, const Query& query,
                                       const Page* without) const WEIR_REQUIRES(mutex_);
  void begin_window(Page& page, int64_t sequence) WEIR_REQUIRES(mutex_);
  void charge(Page& page, const algorithms::Position& at, const Subject& subject,
              const Query& query) WEIR_REQUIRES(mutex_);
  // Makes sure that a page has memory. False: there is none.
  [[nodiscard]] bool ensure_memory(Page& page, WallTime now) WEIR_REQUIRES(mutex_);

  [[nodiscard]] static size_t width_for(size_t capacity) {
    return capacity < 1024 ? 1024 : capacity;
  }
  [[nodiscard]] size_t bank_bytes() const { return kRows * width_ * sizeof(Counter); }
  [[nodiscard]] size_t page_bytes() const { return 2 * bank_bytes(); }

  // Fixed after construction.
  const size_t width_;
  ByteBudget* const budget_;

  base::Atomic<uint64_t> decisions_{0};
  // Unix ms, by class, of all durations in it; the last entry is for all classes.
  std::array<base::Atomic<int64_t>, kClasses + 1> live_until_{};

  base::Mutex mutex_;
  std::array<Page, kOwnPages + kClasses> pages_ WEIR_GUARDED_BY(mutex_);  // classes last
  // Reserved from the budget and not used yet.
  size_t reserved_pages_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::memory
