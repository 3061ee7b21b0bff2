// Process time follows the wall clock of the machine: steady time plus an offset.
//
// Small differences are slewed so slowly that no window is skipped or repeated at once. Large
// differences are deliberate corrections and are adopted as a step.
//
// Pure: readings in, offset out. The system clock owns an instance and guards it.

#pragma once

#include <cstdint>

#include "weir/time.h"

namespace weir::platform {

class ClockDiscipline {
 public:
  // Steps up to this are slewed.
  static constexpr Millis kLargestSlew{1000};
  // The offset changes by at most 1 / kSlewDivisor of the elapsed steady time.
  static constexpr int64_t kSlewDivisor = 20;

  void start(Nanos steady, Nanos wall) {
    offset_ = wall - steady;
    last_ = steady;
  }

  // Updates the offset from new readings; call it regularly, with `steady` never decreasing.
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
