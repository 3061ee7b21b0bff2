// Exact decisions on a real redis-server.

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <thread>

#include "algorithms/windows.h"
#include "base/split_mix.h"
#include "origins/exact_rule.h"
#include "origins/redis/redis_scripts.h"
#include "origins/redis/running_redis_test.h"
#include "tests/contracts/exact_history.h"
#include "tests/effort.h"

namespace weir::origins {
namespace {

using contracts::ExactClient;

constexpr uint64_t kClients = 4;

class RedisExact : public ::testing::Test {
 protected:
  RedisExact() {
    for (uint64_t i = 0; i < kClients; ++i) {
      origins_.emplace_back(clock_, server_.port(), RedisAddress{}, i + 1);
    }
    for (const RunningOrigin& origin : origins_) origin.await_ready();
  }
  // Runs work(i) on a thread for each client.
  template <typename Work>
  void run_clients(const Work& work) {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kClients; ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }
  // All rounds of random calls of one algorithm, with pauses and without scripts now and then.
  void expect_exact(Algorithm algorithm) {
    std::deque<ExactClient> clients;
    for (uint64_t i = 0; i < kClients; ++i) {
      clients.emplace_back(*origins_[i]->exact_store(), algorithm, i + 1);
    }
    // Long enough for units to leave the short windows while calls are made.
    const uint64_t rounds = generated_cases(2000);
    run_clients([&](uint64_t i) {
      for (uint64_t round = 0; round < rounds; ++round) {
        clients[i].run();
        if (i == 0 && round % 50 == 20) (void)server_.ask("SCRIPT FLUSH");
        if (round % 1000 == 999) wait(Millis(round % 2000 == 999 ? 150 : 1100));
      }
    });
    std::vector<const ExactClient*> all;
    for (const ExactClient& client : clients) all.push_back(&client);
    EXPECT_GT(contracts::check_histories(all), rounds / 20);
  }
  static void wait(Millis time) {
    const WallTime until = in(0) + time;
    await([&] { return in(0) >= until; });
  }
  ExactAnswer decide(const ExactCall& call) {
    std::promise<ExactAnswer> received;
    origins_[0]->decide({call}, [&](auto answers) { received.set_value(answers.value().at(0)); });
    return received.get_future().get();
  }

  // Moves the last admission of a state, and with it a theoretical arrival time, into the future.
  void set_back(const std::string& key, WallTime from, WallTime to) {
    const std::string answer = server_.ask("HGET " + key + " s");
    std::string state = answer.substr(answer.find("\r\n") + 2);
    state.resize(state.find("\r\n"));
    const auto text = [](WallTime time) { return std::to_string(time.time_since_epoch().count()); };
    ASSERT_NE(state.find(text(from)), std::string::npos) << state;
    state.replace(state.find(text(from)), text(from).size(), text(to));
    // 10 units at 10 an hour drain within the hour.
    const std::string drained = text(from + Millis(3'600'000));
    const size_t last = state.rfind(drained);
    if (last != std::string::npos) {
      state.replace(last, drained.size(), text(to + Millis(3'600'000)));
    }
    (void)server_.ask("HSET " + key + " s \"" + state + "\"");
  }
  // Makes a call of each kind, so that the server has all scripts.
  void load_scripts() {
    ExactCall call{.tuple = "load",
                   .limit = 10,
                   .duration = Millis(60'000),
                   .writer = kNode,
                   .number = 1,
                   .asks = {{.cost = 1, .capacity = 10}}};
    (void)decide(call);
    for (const Algorithm algorithm : {Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
      call.algorithm = algorithm;
      call.tuple = to_string(algorithm);
      (void)decide(call);
    }
  }

  RealClock clock_;
  RedisServer server_;
  std::deque<RunningOrigin> origins_;
};

TEST_F(RedisExact, EqualsGcraUnderConcurrentClients) {
  expect_exact(Algorithm::kGcra);
}

TEST_F(RedisExact, EqualsTokenBucketUnderConcurrentClients) {
  expect_exact(Algorithm::kTokenBucket);
}

TEST_F(RedisExact, EqualsSlidingWindowStrictUnderConcurrentClients) {
  expect_exact(Algorithm::kSlidingWindowStrict);
}

TEST_F(RedisExact, EqualsSlidingLogUnderConcurrentClients) {
  expect_exact(Algorithm::kSlidingLog);
}

// The reply to a step has the counts of the others as they were before it, so own + siblings is
// the place of the step in the order of all steps.
TEST_F(RedisExact, EqualsTheWindowsUnderConcurrentClients) {
  struct Event {
    CellStep step;
    StepTotals totals;
    [[nodiscard]] Count before() const { return step.own + totals.current.siblings; }
    [[nodiscard]] bool changes() const { return totals.current.mine > step.own; }
  };
  constexpr Millis kWidth{1000};
  Count previous = 0;
  for (const int64_t sequence : {5, 6, 7}) {
    std::vector<std::vector<Event>> events(kClients);
    run_clients([&](uint64_t i) {
      uint64_t random = i + 100 * static_cast<uint64_t>(sequence);
      const auto draw = [&](uint64_t below) { return base::split_mix(random) % below; };
      Count own = 0;
      for (uint64_t round = 0; round < generated_cases(300); ++round) {
        CellStep step{.cell = {"windows", sequence},
                      .writer = {.incarnation = i + 1},
                      .own = own,
                      .duration = kWidth,
                      .expires_at = in(600'000),
                      .asks = {}};
        const uint64_t asks = 1 + draw(4);
        for (uint64_t each = 0; each < asks; ++each) {
          const auto rest = static_cast<int64_t>(draw(2) == 0 ? 0 : 1 + draw(1000));
          step.asks.push_back({.cost = 1 + draw(5),
                               .limit = 200 + draw(3) * 100 * static_cast<Count>(sequence),
                               .rest = Millis(rest)});
        }
        if (i == 0 && round % 50 == 20) (void)server_.ask("SCRIPT FLUSH");
        for (;;) {
          std::promise<Result<std::vector<StepTotals>>> received;
          origins_[i]->step({step}, [&](auto totals) { received.set_value(std::move(totals)); });
          auto totals = received.get_future().get();
          if (!totals) continue;  // the scripts were flushed
          own = totals->at(0).current.mine;
          events[i].push_back({.step = step, .totals = totals->at(0)});
          break;
        }
      }
    });
    std::vector<Event> all;
    for (const auto& each : events) all.insert(all.end(), each.begin(), each.end());
    std::stable_sort(all.begin(), all.end(), [](const Event& a, const Event& b) {
      return std::pair(a.before(), a.changes()) < std::pair(b.before(), b.changes());
    });
    Count total = 0;
    for (const Event& event : all) {
      ASSERT_EQ(event.before(), total);
      for (size_t i = 0; i < event.step.asks.size(); ++i) {
        const StepAsk& ask = event.step.asks[i];
        const bool fixed = ask.rest == Millis(0);
        const algorithms::Position at{
            .sequence = sequence, .offset = kWidth - ask.rest, .width = kWidth};
        const algorithms::WindowCounts counts{.current = total, .previous = previous};
        const algorithms::Ask asked{.capacity = ask.limit, .cost = ask.cost};
        const auto decision = fixed ? algorithms::decide_fixed(at, counts, asked)
                                    : algorithms::decide_sliding(at, counts, asked);
        ASSERT_EQ(event.totals.granted[i], decision.admitted());
        if (decision.admitted()) total += ask.cost;
      }
      ASSERT_EQ(event.totals.current.mine + event.totals.current.siblings, total);
    }
    EXPECT_GT(total, 200u);
    previous = total;
  }
}

// A script that granted something else than exact_rule.h would leave the call undecided.
TEST_F(RedisExact, ConvertsABacklogBetweenExtremeRates) {
  uint64_t random = 1;
  const auto draw = [&](uint64_t below) { return base::split_mix(random) % below; };
  std::vector<contracts::ExactEvent> events;
  uint64_t number = 0;
  for (uint64_t tuple = 0; tuple < generated_cases(300); ++tuple) {
    const std::string name = "extreme " + std::to_string(tuple);
    events.clear();
    Count own = 0;
    while (events.size() < 10) {
      ExactCall call{.tuple = name,
                     .algorithm = Algorithm::kGcra,
                     .limit = 1 + draw(uint64_t{1} << draw(40)),
                     .duration = Millis(100 + draw(uint64_t{1} << draw(38))),
                     .across_durations = tuple % 2 == 0,
                     .writer = kNode,
                     .number = ++number,
                     .asks = {}};
      const Count burst = 1 + draw(uint64_t{1} << draw(40));
      const algorithms::Pace pace = algorithms::pace_of(call.limit, call.duration);
      const bool drains = base::Wide{burst} * pace.num <=
                          base::Wide{static_cast<uint64_t>(kMaxExactDrain.count())} * pace.den;
      if (!drains || !algorithms::representable(pace, call.limit, burst)) continue;
      call.asks = {{.cost = 1 + draw(burst), .capacity = burst},
                   {.cost = draw(3), .capacity = burst},
                   {.cost = burst + 1, .capacity = burst}};
      call.acked = own - draw(own + 1);
      own += draw(2) * draw(burst);
      call.own = own;
      const ExactAnswer answer = decide(call);
      ASSERT_EQ(answer.decisions.size(), call.asks.size());
      events.push_back({.call = call, .answer = answer});
    }
    BacklogState state;
    for (const auto& [call, answer] : events) {
      const ExactAnswer expected = origins::decide(call, answer.charged, answer.at, state);
      ASSERT_EQ(expected.decisions, answer.decisions);
      ASSERT_EQ(expected.version, answer.version);
    }
    // The script has stored what the rule computes.
    const std::string text = std::to_string(state.pace.num) + " " + std::to_string(state.pace.den) +
                             " " + std::to_string(state.ms) + " " + std::to_string(state.pulses);
    const std::string stored = server_.ask("HGET " + key_prefix(name) + "x s");
    if (state.version == 0) continue;
    ASSERT_NE(stored.find(text), std::string::npos) << text << ": " << stored;
  }
}

TEST_F(RedisExact, DeletesAStateThatIsEmpty) {
  const ExactCall gcra{.tuple = "a",
                       .algorithm = Algorithm::kGcra,
                       .limit = 10,
                       .duration = Millis(1000),
                       .writer = kNode,
                       .number = 1,
                       .asks = {{.cost = 5, .capacity = 10}}};
  (void)decide(gcra);
  const WallTime empty = in(500);
  const WallTime expires = expiry(server_, key_prefix("a") + "x");
  EXPECT_LE(expires, empty + kExpiryMargin + Millis(1));
  EXPECT_GT(expires, empty + kExpiryMargin - Millis(60'000));
  ExactCall log = gcra;
  log.tuple = "b";
  log.algorithm = Algorithm::kSlidingLog;
  (void)decide(log);
  for (const char* part : {"x", "g"}) {
    EXPECT_GT(expiry(server_, key_prefix("b") + part), WallTime{}) << part;
  }
  // A denial and a peek write nothing.
  ExactCall denied = gcra;
  denied.tuple = "c";
  denied.asks = {{.cost = 11, .capacity = 10}, {.cost = 0, .capacity = 10}};
  (void)decide(denied);
  EXPECT_EQ(server_.ask("EXISTS " + key_prefix("c") + "x"), ":0\r\n");
}

// The clock of the server cannot be changed; the time in the state can.
TEST_F(RedisExact, FollowsAClockThatWasSetBack) {
  for (const Algorithm algorithm :
       {Algorithm::kGcra, Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog}) {
    SCOPED_TRACE(to_string(algorithm));
    for (const bool far : {false, true}) {
      ExactCall call{.tuple = std::string(to_string(algorithm)) + (far ? " far" : " near"),
                     .algorithm = algorithm,
                     .limit = 10,
                     .duration = Millis(3'600'000),
                     .writer = kNode,
                     .number = 1,
                     .asks = {{.cost = 10, .capacity = 10}}};
      const WallTime at = decide(call).at;
      const std::string key = key_prefix(call.tuple) + "x";
      const WallTime then = at + (far ? 2 * call.duration : call.duration / 2);
      set_back(key, at, then);
      call.number = 2;
      call.asks = {{.cost = 1, .capacity = 10}};
      const ExactAnswer answer = decide(call);
      const bool released = far && algorithm != Algorithm::kGcra;
      EXPECT_EQ(answer.decisions.at(0).outcome, released ? Outcome::kAdmitted : Outcome::kDenied);
      EXPECT_EQ(answer.at > at + Millis(60'000), !far);
    }
  }
}

TEST_F(RedisExact, KeepsOneEntryForAllUnitsOfAMillisecond) {
  ExactCall log{.tuple = "a",
                .algorithm = Algorithm::kSlidingLog,
                .duration = Millis(60'000),
                .writer = kNode,
                .number = 1,
                .asks = std::vector<ExactAsk>(100, {.cost = 100, .capacity = 10'000})};
  EXPECT_EQ(decide(log).decisions.back().remaining, 0u);
  EXPECT_EQ(server_.ask("ZCARD " + key_prefix("a") + "g"), ":1\r\n");
}

TEST_F(RedisExact, DecidesOtherTuplesIfAKeyHasAnotherType) {
  (void)server_.ask("SET " + key_prefix("a") + "x text");
  ExactCall bad{.tuple = "a",
                .algorithm = Algorithm::kGcra,
                .limit = 10,
                .duration = Millis(60'000),
                .writer = kNode,
                .number = 1,
                .asks = {{.cost = 1, .capacity = 10}}};
  ExactCall good = bad;
  good.tuple = "b";
  std::promise<std::vector<ExactAnswer>> received;
  origins_[0]->decide({bad, good}, [&](auto answers) { received.set_value(answers.value()); });
  const auto answers = received.get_future().get();
  EXPECT_TRUE(answers[0].decisions.empty());
  ASSERT_EQ(answers[1].decisions.size(), 1u);
  EXPECT_EQ(answers[1].decisions[0].outcome, Outcome::kAdmitted);
}

// Each case has one wrong value in a list that is valid otherwise.
TEST_F(RedisExact, RefusesInvalidArgumentsAndNamesThem) {
  using Values = std::vector<std::string>;
  // The writer, the call, the duration, ..., the capacity of what the writer admitted by itself.
  const Values common = {"w", "1", "1000", "0", "0", "500", "1000", "1", "0", "0", "0", "0", "10"};
  const auto with = [&](const Values& more) {
    Values all = common;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::map<Script, Values> valid = {
      // The rate as a fraction, whether time is kept; cost and capacity, each in ms and pulses.
      {Script::kBacklog, with({"100", "1", "0", "100", "0", "1000", "0"})},
      {Script::kRing, with({"63", "1", "10"})},  // a part of the window; cost and capacity
      {Script::kLog, with({"1", "10"})},
  };
  load_scripts();
  const auto call = [&](Script script, const std::string& key, const Values& values) {
    std::string command = "EVALSHA " + sha_of(script) + " 2 {" + key + "}x {" + key + "}g";
    for (const std::string& value : values) command += " " + value;
    return server_.ask(command);
  };
  for (const auto& [script, values] : valid) {
    const std::string answer =
        call(script, "valid" + std::to_string(static_cast<int>(script)), values);
    EXPECT_TRUE(answer.starts_with("*6\r\n:1\r\n")) << answer;
  }
  const auto expect_error = [&](Script script, const Values& values, const std::string& error) {
    const std::string answer = call(script, "k", values);
    EXPECT_NE(answer.find(error), std::string::npos)
        << static_cast<int>(script) << " " << values.size() << " values: " << answer;
    EXPECT_EQ(server_.ask("EXISTS {k}x {k}g"), ":0\r\n");
  };
  for (const auto& [script, values] : valid) {
    for (size_t i = 2; i <= values.size(); ++i) {
      for (const char* wrong : {"x", "-1", "1.5", "9007199254740994"}) {
        Values changed = values;
        changed[i - 1] = wrong;
        expect_error(script, changed, "argument " + std::to_string(i) + " is no number");
      }
    }
    // Too few or too many.
    Values changed = values;
    changed.pop_back();
    expect_error(script, changed, "wrong arguments");
    changed = values;
    changed.emplace_back("1");
    expect_error(script, changed, "wrong arguments");
    expect_error(script, {"w"}, "wrong arguments");
    // A duration of 0, and a burst of 0.
    changed = values;
    changed[2] = "0";
    expect_error(script, changed, "wrong arguments");
    changed = values;
    changed[script == Script::kBacklog ? values.size() - 2 : values.size() - 1] = "0";
    expect_error(script, changed, "wrong arguments");
  }
  // A rate of 0 or of 1/0, and a part of 0 ms.
  for (const auto& [script, at] :
       {std::pair(Script::kBacklog, 14), {Script::kBacklog, 15}, {Script::kRing, 14}}) {
    Values changed = valid.at(script);
    changed[static_cast<size_t>(at) - 1] = "0";
    expect_error(script, changed, "wrong arguments");
  }
}

}  // namespace
}  // namespace weir::origins
