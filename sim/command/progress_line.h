// One line on standard error that says how far a simulation is, replaced ten times a second; none
// where standard error is no terminal.

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
  ~ProgressLine();  // leaves an empty line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Of one run among others, which `what` names.
  void show(std::string_view what, Millis passed, Millis all);

  // Any text, cut to a line.
  void show(std::string_view text);

  // Whether a line would be shown now: what it costs to make one can be spared otherwise.
  [[nodiscard]] bool due() const;

  // The next run begins: its speed is its own.
  void begin_run() { began_ = system_clock().now().mono; }

 private:
  bool shown_;
  MonoTime began_;
  MonoTime last_;
};

}  // namespace weir::sim
