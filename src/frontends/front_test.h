// What a session needs around it, with time moved by hand or real.

#pragma once

#include <string>
#include <string_view>

#include "frontends/service.h"
#include "frontends/session.h"
#include "tests/doubles/hand_clock.h"

namespace weir::frontends {

inline constexpr std::string_view kKey = "weir_root_for_these_tests_only";

// `Time` is a clock, or a reference to one.
template <typename Time>
struct FrontAt {
  Time clock;
  Limiter limiter = Limiter::create(clock, Options{.capacity = 1024, .seed = 1}).value();
  LimiterDecider decider{limiter};
  rules::RootKeys keys;
  Service service{.clock = clock,
                  .decider = decider,
                  .limiter = limiter,
                  .keys = keys,
                  .region = "here",
                  .node = "node-1",
                  .started = clock.now().mono};

  explicit FrontAt(Time time = {}) : clock(time) { keys.add(rules::hash_of(kKey)); }
};
using Front = FrontAt<doubles::HandClock>;

// One side of a connection: says something and hears what is answered.
struct Line {
  Front& front;
  Session& session;
  Bytes in{};
  Bytes out{};
  Next next = Next::kRead;

  std::string say(std::string_view text) {
    in.append(text);
    do next = session.take(front.clock.now(), in, out);
    while (next == Next::kAgain || next == Next::kDelay);
    return received();
  }
  // Piece by piece, each as long as `size`, until it is closed.
  std::string say_slowly(std::string_view text, size_t size) {
    std::string all;
    for (size_t at = 0; at < text.size() && next != Next::kClose; at += size) {
      all += say(text.substr(at, size));
    }
    return all;
  }
  std::string received() {
    std::string text(out.unread());
    out.clear();
    return text;
  }
};

}  // namespace weir::frontends
