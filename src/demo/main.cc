// The command line of `weir demo`.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

#include "command_line/program.h"
#include "demo/demo.h"

namespace weir::demo {
namespace {

struct DemoOptions {
  DemoSettings settings;
  int64_t window_ms = settings.window.count();
  std::optional<int64_t> seconds;

  void run() const {
    DemoSettings all = settings;
    all.window = Millis(window_ms);
    if (seconds) return run_demo(all, std::chrono::seconds(*seconds));
    run_demo(all, std::nullopt);
  }
};

void add_options(CLI::App& command, DemoOptions& demo) {
  command.callback([&demo] { demo.run(); });
  DemoSettings& settings = demo.settings;
  command_line::add_number(
      command, "--limit", settings.limit, fmt::format("default: {}", settings.limit),
      {.min = 1, .max = DemoSettings::kMaxLimit}, "Requests admitted per window");
  command_line::add_number(command, "--window-ms", demo.window_ms,
                           fmt::format("default: {}", demo.window_ms),
                           {.min = kMinDuration.count(), .max = DemoSettings::kMaxWindow.count()},
                           "Length of the window in milliseconds");
  command_line::add_number(command, "--rate", settings.requests_per_second,
                           fmt::format("default: {}", settings.requests_per_second),
                           {.min = 0, .max = DemoSettings::kMaxRequestsPerSecond},
                           "Requests offered per second");
  command_line::add_number(command, "--seconds", demo.seconds, "default: no limit",
                           {.min = 1, .max = 86400}, "End the demo after this many seconds");
}

}  // namespace
}  // namespace weir::demo

int main(int argc, char** argv) {
  weir::command_line::Program program(
      "weir demo",
      "Compare six algorithms on the same requests. On a terminal the demo is live and\n"
      "interactive; otherwise it prints a table of a scripted run of three seconds\n");
  weir::demo::DemoOptions options;
  weir::demo::add_options(program.app(), options);
  return program.run(argc, argv);
}
