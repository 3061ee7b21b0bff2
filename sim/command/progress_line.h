// Progress of a simulation, one line on standard error that is rewritten ten times a second. Prints
// nothing if standard error is not a terminal.

#pragma once

#include <string>
#include <string_view>

#include "weir/clock.h"
#include "weir/time.h"

namespace weir::sim {

// One thread at a time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `run` names one of several runs; it may be empty.
  void show(std::string_view run, Millis elapsed, Millis total);

  // Any text, cut to one line.
  void show(std::string_view text);

  // True if the next call of show() would print; else the caller need not prepare the text.
  [[nodiscard]] bool due() const;

  // Restarts the measurement of the speed.
  void begin_run() { run_start_ = system_clock().now().mono; }

 private:
  bool enabled_;
  MonoTime run_start_;
  MonoTime last_update_;
};

}  // namespace weir::sim
