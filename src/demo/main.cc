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
      command, "--limit", settings.limit, fmt::format("default {}", settings.limit),
      {.least = 1, .most = DemoSettings::kMaxLimit}, "Requests admitted per window");
  command_line::add_number(
      command, "--window-ms", demo.window_ms, fmt::format("default {}", demo.window_ms),
      {.least = kMinDuration.count(), .most = DemoSettings::kMaxWindow.count()},
      "Length of the window in ms");
  command_line::add_number(command, "--rate", settings.requests_per_second,
                           fmt::format("default {}", settings.requests_per_second),
                           {.least = 0, .most = DemoSettings::kMaxRequestsPerSecond},
                           "Requests offered per second");
  command_line::add_number(command, "--seconds", demo.seconds, "default none",
                           {.least = 1, .most = 86400}, "Seconds until the demo ends");
}

}  // namespace
}  // namespace weir::demo

int main(int argc, char** argv) {
  weir::command_line::Program program(
      "weir demo",
      "Show six algorithms admitting and denying the same requests: on a terminal\n"
      "live and with keys to play, elsewhere as a table of three scripted seconds\n");
  weir::demo::DemoOptions options;
  weir::demo::add_options(program.app(), options);
  return program.run(argc, argv);
}
