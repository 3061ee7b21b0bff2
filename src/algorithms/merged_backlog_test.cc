#include "algorithms/merged_backlog.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "algorithms/random_cases_test.h"
#include "algorithms/rates_test.h"

namespace weir::algorithms {
namespace {

// The exact backlog in pulses, by the definition: the largest over all starting points.
uint64_t exact_waiting(const std::vector<std::pair<WallTime, Count>>& admitted, const Pace& pace,
                       WallTime now) {
  std::map<WallTime, Count> by_time;
  for (const auto& [time, cost] : admitted) by_time[time] += cost;
  uint64_t waiting = 0;
  WallTime at{};
  const auto drain = [&](WallTime to) {
    const auto drained = static_cast<uint64_t>((to - at).count()) * pace.den;
    waiting = base::saturating_sub(waiting, drained);
    at = to;
  };
  for (const auto& [time, cost] : by_time) {
    if (time > now) break;
    drain(time);
    waiting += cost * pace.num;
  }
  drain(now);
  return waiting;
}

// Rates whose pulses are small numbers.
struct Case {
  Rate rate;
  int exponent = kSmallestExponent;
  [[nodiscard]] Pace pace() const { return rate.pace(); }
  // What drains within a cell.
  [[nodiscard]] uint64_t cell_pulses() const { return (uint64_t{1} << exponent) * pace().den; }
};

Case any_case() {
  Case drawn;
  drawn.rate = {.limit = *between(1, 1000),
                .duration = Millis(static_cast<int64_t>(*between(100, 60'000))),
                .burst = *between(1, 1000)};
  drawn.exponent = cell_exponent(drawn.rate.burst, drawn.rate.limit, drawn.rate.duration);
  return drawn;
}

// One admission of a writer.
struct Admission {
  WallTime at{};
  size_t writer = 0;
  Count cost = 0;
};

// Traffic around the rate, with bursts and pauses. Nothing is refused.
std::vector<Admission> any_admissions(const Case& drawn, size_t writers, size_t count) {
  std::vector<Admission> all;
  WallTime now = tick(1'700'000'000'000);
  const auto unit = static_cast<uint64_t>(drawn.rate.duration.count()) / drawn.rate.limit + 1;
  for (size_t i = 0; i < count; ++i) {
    if (*between(0, 3) != 0) now += Millis(static_cast<int64_t>(*between(0, 3 * unit)));
    if (*between(0, 30) == 0) now += Millis(static_cast<int64_t>(*between(0, 100 * unit)));
    all.push_back({.at = now,
                   .writer = static_cast<size_t>(*between(0, writers - 1)),
                   .cost = *between(1, 3)});
  }
  return all;
}

RC_GTEST_PROP(CostHistory, MergingIsCommutativeAssociativeAndIdempotent, ()) {
  const Case drawn = any_case();
  // Versions of one history.
  CostHistory history(drawn.exponent);
  std::vector<CostHistory> versions = {history};
  for (const Admission& each : any_admissions(drawn, 1, 60)) {
    history.add(each.at, each.cost);
    versions.push_back(history);
  }
  const auto any = [&] { return versions[*between(0, versions.size() - 1)]; };
  const CostHistory a = any();
  const CostHistory b = any();
  const CostHistory c = any();
  const auto merged = [](const CostHistory& x, const CostHistory& y) {
    return CostHistory::merged(x, y);
  };
  RC_ASSERT(merged(a, b) == merged(b, a));
  RC_ASSERT(merged(a, merged(b, c)) == merged(merged(a, b), c));
  RC_ASSERT(merged(a, a) == a);
  RC_ASSERT(merged(a, b).total() == std::max(a.total(), b.total()));
}

RC_GTEST_PROP(CostHistory, KeepsItsTotalAndItsOrder, ()) {
  const Case drawn = any_case();
  CostHistory history(drawn.exponent);
  Count sum = 0;
  for (const Admission& each : any_admissions(drawn, 1, 200)) {
    // A clock may be set back.
    history.add(each.at - Millis(static_cast<int64_t>(*between(0, 50))), each.cost);
    sum += each.cost;
  }
  RC_ASSERT(history.total() == sum);
  RC_ASSERT(history.marks().size() <= CostHistory::kCells);
  const CostHistory wide = history.widened(drawn.exponent + 2);
  RC_ASSERT(wide.total() == sum);
  for (const CostHistory* each : {&std::as_const(history), &wide}) {
    for (size_t i = 1; i < each->marks().size(); ++i) {
      RC_ASSERT(each->marks()[i - 1].cell < each->marks()[i].cell);
      RC_ASSERT(each->marks()[i - 1].total < each->marks()[i].total);
    }
  }
}

// A burst drains in 16 cells or more, unless cells would be shorter than 8 ms.
RC_GTEST_PROP(CostHistory, CellsAreASixteenthOfABurstAtMost, ()) {
  const Rate rate = *any_rate();
  const int exponent = cell_exponent(rate.burst, rate.limit, rate.duration);
  if (exponent == kSmallestExponent) return;
  const base::Wide drains =
      base::Wide{rate.burst} * static_cast<uint64_t>(rate.duration.count()) / rate.limit;
  RC_ASSERT(base::Wide{16} << exponent <= drains);
}

// Without delay, whatever the number of writers: not below the exact value, and at most what drains
// within a cell above it.
RC_GTEST_PROP(MergedBacklog, IsExactUpToOneCell, ()) {
  const Case drawn = any_case();
  const size_t writers = *between(1, 5);
  std::vector<CostHistory> histories(writers, CostHistory(drawn.exponent));
  std::vector<std::pair<WallTime, Count>> admitted;
  MergedBacklog backlog(drawn.pace());
  for (const Admission& each : any_admissions(drawn, writers, 120)) {
    histories[each.writer].add(each.at, each.cost);
    backlog.merge(each.writer, histories[each.writer]);
    admitted.emplace_back(each.at, each.cost);
    // As often as a process would, so that no cell falls out of a history before.
    backlog.set_checkpoint(each.at - 4 * histories[0].width());
    const WallTime now = each.at + Millis(static_cast<int64_t>(*between(0, 100)));
    const uint64_t exact = exact_waiting(admitted, drawn.pace(), now);
    const uint64_t waiting = backlog.waiting(now);
    RC_ASSERT(waiting >= exact);
    RC_ASSERT(waiting <= exact + drawn.cell_pulses());
  }
}

// A process that knows its own admissions at once, and those of others after a delay.
struct Reader {
  Reader(const Case& drawn, size_t writers)
      : pace(drawn.pace()), backlog(pace), known(writers, 0) {}

  void learn(WallTime now, size_t writer, const CostHistory& history) {
    drain(now);
    backlog.merge(writer, history);
    const Count total = std::max(known[writer], history.total());
    const uint64_t news = (total - std::exchange(known[writer], total)) * pace.num;
    waiting = after_news(waiting, news, backlog.waiting(now));
  }
  void admit(WallTime now, size_t self, const CostHistory& history, Count cost) {
    drain(now);
    backlog.merge(self, history);
    known[self] = history.total();
    waiting += cost * pace.num;
  }
  void drain(WallTime now) {
    const auto drained = static_cast<uint64_t>((now - at).count()) * pace.den;
    waiting = base::saturating_sub(waiting, drained);
    at = now;
  }

  Pace pace;
  MergedBacklog backlog;
  std::vector<Count> known;  // totals
  uint64_t waiting = 0;
  WallTime at{};
};

// What a reader knows: the admissions in the versions that it has received, at their true times.
RC_GTEST_PROP(MergedBacklog, LateNewsAreNeverTooLax, ()) {
  const Case drawn = any_case();
  const size_t writers = *between(2, 4);
  const Millis longest(static_cast<int64_t>(*between(1, 40)) << drawn.exponent);
  std::vector<CostHistory> histories(writers, CostHistory(drawn.exponent));
  std::vector<std::pair<WallTime, Count>> own_and_known;
  struct Message {
    size_t writer = 0;
    CostHistory history;
    std::vector<std::pair<WallTime, Count>> contents;  // admissions since the last message
  };
  std::multimap<WallTime, Message> messages;
  std::vector<std::vector<std::pair<WallTime, Count>>> unsent(writers);
  Reader reader(drawn, writers);
  reader.at = tick(1'700'000'000'000);
  const auto check = [&](WallTime now) {
    reader.drain(now);
    const uint64_t exact = exact_waiting(own_and_known, drawn.pace(), now);
    RC_ASSERT(reader.waiting >= exact);
    RC_ASSERT(reader.waiting <= exact + drawn.cell_pulses());
  };
  for (const Admission& each : any_admissions(drawn, writers, 150)) {
    while (!messages.empty() && messages.begin()->first <= each.at) {
      const auto [when, message] = *messages.begin();
      messages.erase(messages.begin());
      reader.backlog.set_checkpoint(when - longest - histories[0].width());
      own_and_known.insert(own_and_known.end(), message.contents.begin(), message.contents.end());
      reader.learn(when, message.writer, message.history);
      check(when);
    }
    histories[each.writer].add(each.at, each.cost);
    if (each.writer == 0) {
      reader.admit(each.at, 0, histories[0], each.cost);
      own_and_known.emplace_back(each.at, each.cost);
      check(each.at);
      continue;
    }
    unsent[each.writer].emplace_back(each.at, each.cost);
    // The messages of a writer arrive in order, some of them at once.
    const uint64_t wait = *between(0, static_cast<uint64_t>(longest.count()));
    WallTime arrival = each.at + Millis(static_cast<int64_t>(wait));
    for (const auto& [when, message] : messages) {
      if (message.writer == each.writer) arrival = std::max(arrival, when);
    }
    messages.emplace(arrival, Message{.writer = each.writer,
                                      .history = histories[each.writer],
                                      .contents = std::exchange(unsent[each.writer], {})});
  }
}

// The correction that looks right: what arrived late has been drained by the refill that was lost
// since. The first item uses that refill up, and the second one must not use it again.
TEST(MergedBacklog, TheRefillThatWasLostServesOneLateItemOnly) {
  const Rate rate{.limit = 10, .duration = Millis(1000), .burst = 10};
  const Pace pace = rate.pace();
  const WallTime start = tick(1'700'000'000'000);
  MergedBacklog backlog(pace);
  // Two others admitted 5 each at the start; this process learns of it 500 ms later.
  uint64_t waiting = 0;
  for (const MergedBacklog::Writer other : {1, 2}) {
    CostHistory history;
    history.add(start, 5);
    backlog.merge(other, history);
    const WallTime now = start + Millis(500);
    waiting = after_news(waiting, 5 * pace.num, backlog.waiting(now));
  }
  // 10 admitted, 5 drained. Each item alone has drained completely.
  EXPECT_GE(waiting, 5 * pace.num);
  EXPECT_LE(waiting, 5 * pace.num + 8 * pace.den);
}

TEST(MergedBacklog, AMaximumOfArrivalTimesWouldForgetAllButOneWriter) {
  const Rate rate{.limit = 10, .duration = Millis(1000), .burst = 10};
  const WallTime now = tick(1'700'000'000'000);
  MergedBacklog backlog(rate.pace());
  for (MergedBacklog::Writer writer = 0; writer < 10; ++writer) {
    CostHistory history;
    history.add(now, 1);
    backlog.merge(writer, history);
    backlog.merge(writer, history);  // again
  }
  EXPECT_EQ(backlog.waiting(now), 10 * rate.pace().num);
}

// Cost from before the checkpoint that arrives after it counts at the checkpoint.
TEST(MergedBacklog, CostThatArrivesAfterItsCheckpointIsNotLost) {
  const Rate rate{.limit = 10, .duration = Millis(1000), .burst = 10};
  const WallTime start = tick(1'700'000'000'000);
  MergedBacklog backlog(rate.pace());
  CostHistory early;
  early.add(start, 4);
  backlog.merge(1, early);
  backlog.set_checkpoint(start + Millis(1000));
  EXPECT_EQ(backlog.waiting(start + Millis(1000)), 0u);
  CostHistory late;
  late.add(start + Millis(100), 3);
  backlog.merge(2, late);
  EXPECT_EQ(backlog.waiting(start + Millis(1000)), 3 * rate.pace().num);
  EXPECT_EQ(backlog.waiting(start + Millis(1100)), 2 * rate.pace().num);
}

}  // namespace
}  // namespace weir::algorithms
