// The clock by which the bridge works: its own, or that of the store if its own is wrong.
//
// The wall clock of a process may be hours off. A bridge with such a clock would take the rows of
// other regions for expired, save its position behind them, and so hide them from its whole region.
// The store's clock may be the wrong one, too: where the two differ, the clock of the ledger
// decides.
//
// Only from the thread that runs the sync.

#pragma once

#include <chrono>
#include <optional>

#include "weir/time.h"

namespace weir::global {

class StoreClock {
 public:
  // The store, or the ledger, had this time between `began` and `now`.
  void note_store(WallTime wall, MonoTime began, MonoTime now) { note(store_, wall, began, now); }
  void note_ledger(WallTime wall, MonoTime began, MonoTime now) { note(ledger_, wall, began, now); }
  void reset_store() { store_.reset(); }

  // Whether it is known which clock is right.
  [[nodiscard]] bool is_settled(Instant now) const {
    return !store_ || ledger_ || !differ(at(*store_, now.mono), now.wall);
  }
  [[nodiscard]] Instant time(Instant now) const {
    if (!store_ || !ledger_) return now;
    const WallTime store = at(*store_, now.mono);
    const WallTime ledger = at(*ledger_, now.mono);
    const bool wrong =
        differ(store, now.wall) && distance(store, ledger) < distance(now.wall, ledger);
    return {.wall = wrong ? store : now.wall, .mono = now.mono};
  }

 private:
  // More than a message takes, and clocks differ.
  static constexpr Millis kMaxDifference{1000};

  static void note(std::optional<Instant>& known, WallTime wall, MonoTime began, MonoTime now) {
    if (wall == WallTime{} || now - began >= kMaxDifference) return;
    known = {.wall = wall, .mono = now};
  }
  [[nodiscard]] static WallTime at(const Instant& known, MonoTime now) {
    return known.wall + std::chrono::floor<Millis>(Nanos(now - known.mono));
  }
  [[nodiscard]] static Millis distance(WallTime a, WallTime b) { return a > b ? a - b : b - a; }
  [[nodiscard]] static bool differ(WallTime a, WallTime b) {
    return distance(a, b) > kMaxDifference;
  }

  std::optional<Instant> store_;
  std::optional<Instant> ledger_;
};

}  // namespace weir::global
