// One node of ./dev bench zoo: a process that runs one rate limiter with many callers.
//
// Prints "ready", then runs one load per line of standard input and prints its counters. Ends with
// standard input, so that it never outlives bench/zoo/zoo.mjs.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "bench/command_line.h"
#include "bench/zoo/zoo.h"

namespace weir::bench {

std::unique_ptr<RateLimiter> make_limiter(const LimiterChoice& choice) {
  if (choice.name == "weir-exact") return make_weir_limiter(choice.port, Consistency::kExact);
  if (choice.name == "weir-converge") return make_weir_limiter(choice.port, Consistency::kConverge);
  return make_redis_limiter(choice);
}

namespace {

// PREFIX KEYS LIMIT DURATION SECONDS BEGIN SEED RATE [TRACE]: times in ms, Unix time for BEGIN.
Load parse_load(const std::string& line, size_t callers) {
  Load load{.callers = callers};
  int64_t duration = 0;
  int64_t begin = 0;
  std::istringstream words(line);
  words >> load.prefix >> load.keys >> load.limits.limit >> duration >> load.seconds >> begin >>
      load.seed >> load.rate;
  const bool valid = !words.fail() && load.keys > 0 && duration > 0 && load.rate >= 0;
  if (!valid) throw std::runtime_error("not a load: " + line);
  words >> load.trace;
  load.limits.duration = Millis(duration);
  load.begin = WallTime(Millis(begin));
  return load;
}

void serve(const LimiterChoice& choice) {
  const std::unique_ptr<RateLimiter> limiter = make_limiter(choice);
  limiter->start();
  fmt::print("ready\n");
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
    fmt::print("{}\n", run_load(*limiter, parse_load(line, choice.callers)));
    std::fflush(stdout);
  }
  limiter->stop();
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::bench::LimiterChoice choice;
  weir::bench::CommandLine options("weir_zoo");
  options.text("--limiter", choice.name);
  options.number<uint16_t>("--port", choice.port, 1, 65'535);
  options.number<size_t>("--callers", choice.callers, 1, 1000);
  options.text("--script", choice.script);
  options.flag("--client-time", choice.has_client_time);
  if (!options.parse(argc, argv)) return 2;
  try {
    weir::bench::serve(choice);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weir_zoo: {}\n", error.what());
    return 1;
  }
}
