// CL.THROTTLE beside a model of redis-cell 0.4: the same five numbers, also where a key's
// parameters change from one request to the next.
//
// The model is the published algorithm in whole milliseconds: an emission interval, a tolerance of
// max_burst + 1 intervals, and one theoretical arrival time per key. Rates are drawn so that an
// interval is a whole number of milliseconds; others redis-cell rounds to nanoseconds.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "frontends/fixture_test.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

struct Throttle {
  int64_t max_burst = 0;
  int64_t count = 1;
  int64_t period = 1;
  int64_t quantity = 1;
};

class RedisCell {
 public:
  std::array<int64_t, 5> send(int64_t now, const std::string& key, const Throttle& request) {
    const int64_t interval = request.period * 1000 / request.count;
    const int64_t tolerance = interval * (request.max_burst + 1);
    const int64_t increment = interval * request.quantity;
    int64_t& stored = tats_[key];
    const int64_t tat = std::max(stored, now);  // a key that has drained has expired
    const int64_t early = tat + increment - tolerance - now;
    const bool limited = early > 0;
    if (!limited) stored = tat + increment;
    const int64_t queued = (limited ? tat : stored) - now;
    const int64_t retry = limited && increment <= tolerance ? (early + 999) / 1000 : -1;
    return {limited ? 1 : 0, request.max_burst + 1,
            std::max<int64_t>(0, tolerance - queued) / interval, retry, (queued + 999) / 1000};
  }

 private:
  std::map<std::string, int64_t> tats_;
};

RC_GTEST_PROP(RedisCell, GetsTheSameRepliesAlsoWhenARateChanges, ()) {
  constexpr std::array<std::array<int64_t, 2>, 8> kRates{
      {{30, 60}, {10, 60}, {100, 60}, {1, 1}, {5, 1}, {7, 7}, {1, 86'400}, {4, 315'619'200}}};
  Fixture fixture;
  RespScratch scratch;
  RespSession session(fixture.service, scratch, 7);
  TestConnection line{fixture, session};
  RedisCell model;
  const int64_t began = fixture.clock.now().wall.time_since_epoch().count();
  int64_t now = began;
  for (int i = 0; i < 60; ++i) {
    const auto pause = *rc::gen::element<int64_t>(0, 0, 0, 1, 250, 1000, 1999, 20'000, 700'000);
    now += pause;
    fixture.clock.advance(Millis(pause));
    const auto rate = *rc::gen::elementOf(kRates);
    const Throttle request{.max_burst = *rc::gen::inRange<int64_t>(0, 12),
                           .count = rate[0],
                           .period = rate[1],
                           .quantity = *rc::gen::element<int64_t>(0, 1, 1, 1, 2, 3, 13)};
    const std::string key = *rc::gen::element<std::string>("a", "b");
    std::string expected = "*5\r\n";
    for (const int64_t number : model.send(now, key, request)) {
      expected += ":" + std::to_string(number) + "\r\n";
    }
    // GCRA of Redis computes the same, and its keys are the same.
    const bool gcra = *rc::gen::arbitrary<bool>();
    Words words{gcra ? "GCRA" : "CL.THROTTLE", key, std::to_string(request.max_burst),
                std::to_string(request.count), std::to_string(request.period)};
    if (gcra) words.emplace_back("TOKENS");
    words.push_back(std::to_string(request.quantity));
    RC_ASSERT(line.send(encoded(words)) == expected);
  }
}

}  // namespace
}  // namespace weir::frontends
