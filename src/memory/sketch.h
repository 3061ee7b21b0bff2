// Where tuples are counted when the table is full and nothing may be forgotten.
//
// A count-min sketch: each tuple has four counters, shared with whoever hashes there, and its
// count is the smallest one. It only over-estimates, so a flood of keys frees nobody. Two of the
// four lie anywhere, which spreads a flood over all counters; two lie in the parts of the tuple's
// group, its workspace and namespace, so that a flood in one group stops nobody of another. A
// tuple that has been counted here stays here until those windows are over (holds()), so that
// moving into the table never forgets.
//
// Counters of one duration form a page, so that windows of different lengths do not mix. There are
// a few such pages. A duration that finds none is counted on the page of its class, which is for
// all durations up to the same power of two, on windows of that length: stricter than asked, never
// looser. What is on the page of its class counts for a duration also once it has a page of its
// own, so that no tuple is forgotten by a change of pages. A tuple whose duration may change
// (KeyHeader) counts wherever it was counted.
//
// A page takes its memory when it is first used: from those assured to the sketch, from a page all
// of whose counts are over, or from the byte budget. A duration for whose page there is none is
// counted on the page of a larger class, on longer windows: stricter again. The largest class
// always has memory.
//
// The sketch knows two windows, not rings, logs or backlogs. It answers for them with
// "this and the last window together within the limit and the burst", which implies each
// of their promises.
//
// Safe from any thread; it takes a lock, as only a table in trouble comes here.

#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/atomic.h"
#include "memory/byte_budget.h"
#include "memory/slot.h"
#include "platform/pages.h"

namespace weir::memory {

class Sketch {
 public:
  // Who is counted.
  struct Subject {
    uint64_t hash = 0;
    uint64_t group = 0;             // a hash of what it shares with those of its namespace
    bool across_durations = false;  // its duration may change from one request to the next
  };

  // Takes the memory of `assured` pages from the budget at once, at least one; without a budget
  // pages are not bounded.
  explicit Sketch(size_t capacity, ByteBudget* budget = nullptr, size_t assured = 1);
  [[nodiscard]] static uint64_t bytes_for(size_t capacity, size_t pages);

  // Decides and, for kConsume, charges what it admits. `beside` is known to be counted, too.
  [[nodiscard]] CellDecision decide(const Subject& subject, const Query& asked, Effect effect,
                                    Count beside = 0);

  // Charges without asking.
  void add(const Subject& subject, const Query& asked);

  // Takes back what a batch charged in that window.
  void take_back(const Subject& subject, const Query& asked, int64_t sequence);

  // At least what was counted here for the tuple in windows that still matter. Takes no lock where
  // nothing was counted lately for any duration of this class.
  [[nodiscard]] Count counted(const Subject& subject, const Query& asked);
  // Whether that is something.
  [[nodiscard]] bool holds(const Subject& subject, const Query& query) {
    return counted(subject, query) > 0;
  }

  // When all that was ever counted here is over.
  [[nodiscard]] WallTime matters_until() const {
    return WallTime(Millis(matters_until_[kClasses].load(std::memory_order_acquire)));
  }

  [[nodiscard]] uint64_t decisions() const { return decisions_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kOwnPages = 7;
  // By the exponent of the power of two.
  static constexpr size_t kLeastExponent =
      std::bit_width(static_cast<uint64_t>(kMinDuration.count()));
  static constexpr size_t kClasses =
      std::bit_width(static_cast<uint64_t>(kMaxDuration.count())) - kLeastExponent + 1;
  static constexpr int kSpreadRows = 2;  // anywhere
  static constexpr int kRows = 4;        // the others in the parts of the group
  static constexpr size_t kParts = 64;

  // A page this far ahead was charged by a clock that has been set back since.
  static constexpr Millis kClockSetBack{60'000};

  using Counter = uint32_t;
  static constexpr Count kCounterMax = ~Counter{0};

  struct Page {
    Millis duration{0};   // none yet
    int64_t newest = -1;  // the newest window charged
    // The smallest class counted on this page, if it is that of a class; else none.
    size_t least_class = kClasses;
    platform::Pages memory;

    // When all that was counted is over.
    [[nodiscard]] WallTime end() const { return WallTime((newest + 2) * duration); }
    // Whether it is of a future that is no more: the clock was set back by long.
    [[nodiscard]] bool is_ahead_of(WallTime now) const {
      return newest > algorithms::position_of(now, duration).sequence + 1 &&
             WallTime(newest * duration) > now + kClockSetBack;
    }
    [[nodiscard]] bool matters_at(WallTime now) const {
      return newest >= 0 && now < end() && !is_ahead_of(now);
    }
  };

  [[nodiscard]] static size_t class_of(Millis duration) {
    const size_t exponent = std::bit_width(static_cast<uint64_t>(duration.count() - 1));
    return exponent < kLeastExponent ? 0 : exponent - kLeastExponent;
  }
  [[nodiscard]] static Millis duration_of_class(size_t index) {
    return Millis(int64_t{1} << (index + kLeastExponent));
  }

  // Durations beyond the largest class are counted on its windows, at the same rate or a lower one.
  // A rate of less than one in such a window becomes a limit of 0.
  [[nodiscard]] static Query within_classes(const Query& query);

  // All below need mutex_.
  [[nodiscard]] Page& page_of(const Query& query);
  [[nodiscard]] static algorithms::Position position_on(Page& page, WallTime now);
  [[nodiscard]] Counter& counter(const Page& page, int64_t sequence, int row,
                                 const Subject& subject) const;
  [[nodiscard]] Count estimate(const Page& page, int64_t sequence, const Subject& subject) const;
  // What other pages have of the tuple, and when the last of it is over.
  struct Elsewhere {
    Count count = 0;
    WallTime end{};
  };
  [[nodiscard]] Elsewhere elsewhere(const Subject& subject, const Query& query,
                                    const Page* without) const;
  void begin_window(Page& page, int64_t sequence);
  void charge(Page& page, const algorithms::Position& at, const Subject& subject,
              const Query& query);
  // Sees to it that a page has memory. False: there is none.
  [[nodiscard]] bool provide(Page& page, WallTime now);

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
  std::array<base::Atomic<int64_t>, kClasses + 1> matters_until_{};

  base::Mutex mutex_;
  // Guarded by mutex_.
  std::array<Page, kOwnPages + kClasses> pages_;  // classes last
  size_t assured_;                                // pages taken from the budget and not used yet
};

}  // namespace weir::memory
