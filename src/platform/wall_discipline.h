// How process time follows the machine's wall clock: steady time plus an offset.
//
// Small differences are worked off so slowly that no window is skipped or lived twice
// at once; large ones are a correction by somebody who meant it, and are adopted.
//
// Pure: readings in, offset out. The system clock owns one and guards it.

#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir::platform {

class WallDiscipline {
 public:
  // Steps up to this are slewed.
  static constexpr Millis kLargestSlew{1000};
  // Of each stretch of steady time, this part may be used to work off a difference.
  static constexpr int64_t kSlewDivisor = 20;

  void start(Nanos steady, Nanos wall) {
    offset_ = wall - steady;
    last_ = steady;
  }

  // Takes new readings; call it every now and then, with steady never decreasing.
  void follow(Nanos steady, Nanos wall) {
    const Nanos difference = wall - (steady + offset_);
    const Nanos allowance = (steady - last_) / kSlewDivisor;
    last_ = steady;
    if (difference > kLargestSlew || difference < -kLargestSlew) {
      offset_ += difference;
      ++steps_adopted_;
    } else if (difference > allowance) {
      offset_ += allowance;
    } else if (difference < -allowance) {
      offset_ -= allowance;
    } else {
      offset_ += difference;
    }
  }

  [[nodiscard]] Nanos offset() const { return offset_; }
  [[nodiscard]] uint64_t steps_adopted() const { return steps_adopted_; }

 private:
  Nanos offset_{0};
  Nanos last_{0};
  uint64_t steps_adopted_ = 0;
};

}  // namespace weir::platform
