#include "algorithms/random_cases_test.h"

#include <bit>

#include "algorithms/rates_test.h"

namespace weir::algorithms {

namespace {

// The low digits of one draw choose the magnitude, its high bits the number.
uint64_t shape(uint64_t raw, uint64_t least, uint64_t most) {
  const uint64_t ends = raw % 10;
  if (ends == 0 || most == least) return least;
  if (ends == 1) return most;
  const uint64_t bits = 1 + raw / 10 % static_cast<uint64_t>(std::bit_width(most - least));
  return least + std::min(raw >> (64 - bits), most - least);
}

}  // namespace

rc::Gen<uint64_t> between(uint64_t least, uint64_t most) {
  return rc::gen::map(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<uint64_t>()),
                      [least, most](uint64_t raw) { return shape(raw, least, most); });
}

rc::Gen<Millis> millis_between(Millis least, Millis most) {
  return rc::gen::map(
      between(static_cast<uint64_t>(least.count()), static_cast<uint64_t>(most.count())),
      [](uint64_t count) { return Millis(static_cast<int64_t>(count)); });
}

rc::Gen<Millis> any_duration() {
  return millis_between(kMinDuration, kMaxDuration);
}

rc::Gen<WallTime> any_time() {
  return rc::gen::map(millis_between(Millis(0), Millis(4'102'444'800'000)),
                      [](Millis since_1970) { return WallTime(since_1970); });
}

rc::Gen<Count> any_cost(Count capacity) {
  return rc::gen::oneOf(
      between(0, capacity), between(0, std::min(capacity + 2, kLargestLimit)),
      rc::gen::map(between(0, capacity), [capacity](Count below) { return capacity - below; }));
}

rc::Gen<Count> any_count(Count limit) {
  return rc::gen::oneOf(between(0, kLargestCount), between(0, limit), between(0, 2 * limit));
}

std::ostream& operator<<(std::ostream& out, const Arrival& arrival) {
  return out << "+" << arrival.after.count() << " ms: " << arrival.cost;
}

rc::Gen<std::vector<Arrival>> any_traffic(Millis pause, Count limit) {
  constexpr size_t kRequests = 200;
  const auto after = rc::gen::weightedOneOf<Millis>({{2, rc::gen::just(Millis(0))},
                                                     {3, millis_between(Millis(0), pause / 8)},
                                                     {1, millis_between(Millis(0), pause)}});
  return rc::gen::container<std::vector<Arrival>>(
      kRequests, rc::gen::construct<Arrival>(after, any_cost(limit)));
}

rc::Gen<Rate> any_rate() {
  return rc::gen::suchThat(
      rc::gen::construct<Rate>(between(1, kLargestLimit), any_duration(),
                               between(1, kLargestLimit)),
      [](const Rate& rate) { return representable(rate.pace(), rate.limit, rate.burst); });
}

}  // namespace weir::algorithms
