// The environment of a session under test, with a manual or a real clock.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "frontends/service.h"
#include "frontends/session.h"
#include "tests/doubles/manual_clock.h"

namespace weir::frontends {

inline constexpr std::string_view kKey = "weir_root_for_these_tests_only";

// `Time` is a clock, or a reference to one.
template <typename Time>
struct FixtureAt {
  Time clock;
  Limiter limiter = Limiter::create(clock, Options{.capacity = 1024, .seed = 1}).value();
  LimiterBackend backend{limiter};
  rules::RootKeys keys;
  catalog::Catalog catalog;
  Service service{.clock = clock,
                  .backend = backend,
                  .limiter = limiter,
                  .keys = keys,
                  .catalog = catalog,
                  .random = [] { return uint64_t{7}; },
                  .region = "here",
                  .node = "node-1",
                  .started = clock.now().mono};

  explicit FixtureAt(Time time = {}, std::unique_ptr<catalog::CatalogStore> store = nullptr)
      : clock(time), catalog(clock, std::move(store)) {
    keys.add(rules::hash_of(kKey));
  }
};
using Fixture = FixtureAt<doubles::ManualClock>;

// The client side of a connection: sends bytes and returns the response.
struct TestConnection {
  Fixture& fixture;
  Session& session;
  Bytes in{};
  Bytes out{};
  Next next = Next::kRead;

  std::string send(std::string_view text) {
    in.append(text);
    do next = session.process(fixture.clock.now(), in, out);
    while (next == Next::kAgain || next == Next::kDelay);
    return received();
  }
  // Sends pieces of `size` bytes until the session closes.
  std::string send_in_pieces(std::string_view text, size_t size) {
    std::string all;
    for (size_t at = 0; at < text.size() && next != Next::kClose; at += size) {
      all += send(text.substr(at, size));
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
