// The Redis origin and the in-process origin give the same replies: the simulator proves the
// behaviour of the second.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "origins/in_process_origin.h"
#include "origins/redis/running_redis_test.h"
#include "tests/contracts/bridge_contract_fixture.h"

namespace weir::origins {
namespace {

TEST(RedisOrigin, AgreesWithTheInProcessOriginOnRandomOperations) {
  const RealClock clock;
  const RedisServer server;
  const RunningOrigin origin(clock, server.port());
  origin.await_ready();
  InProcessOrigin model(clock);
  std::mt19937_64 random(7);
  const auto pick = [&](uint64_t below) { return random() % below; };
  const auto tuple = [&] {
    return contracts::binary(std::string(1, 'a' + static_cast<char>(pick(3))));
  };
  const WallTime kept = in(600'000);
  // Later than the clocks of both, and each time used once.
  const auto due_time = [base = in(1'000'000), &pick](int step) {
    return base + Millis(10'000 * pick(10) + static_cast<uint64_t>(step));
  };
  std::map<std::pair<CellId, Component>, CellReplay> written;  // totals grow, limits fall
  std::set<std::pair<CellId, Component>> retired;
  for (int step = 0; step < 3000; ++step) {
    switch (pick(6)) {
      case 0: {
        const CellId cell{tuple(), static_cast<int64_t>(pick(3))};
        const Component writer{.incarnation = 1 + pick(3), .generation = pick(40)};
        if (retired.contains({cell, writer})) break;
        CellReplay& replay = written[{cell, writer}];
        const Count limit = pick(100);
        replay.cell = cell;
        replay.writer = writer;
        replay.total += pick(5);
        replay.limit_seen = smaller_limit(replay.limit_seen, limit);
        replay.expires_at = kept;
        replay.due = pick(3) == 0 ? Due::kWindowEnd : Due::kNever;
        Result<std::vector<CellTotals>> expected;
        model.replay({replay}, [&](auto totals) { expected = std::move(totals); });
        const auto totals = origin.replay({replay});
        ASSERT_TRUE(totals.ok());
        EXPECT_EQ(totals->at(0).mine, expected->at(0).mine);
        EXPECT_EQ(totals->at(0).siblings, expected->at(0).siblings);
        break;
      }
      case 1: {
        if (written.empty()) break;
        auto each = written.begin();
        std::advance(each, static_cast<ptrdiff_t>(pick(written.size())));
        const CellRetirement retirement{.cell = each->first.first, .writer = each->first.second};
        size_t expected = 0;
        model.retire({retirement}, [&](const auto& count) { expected = *count; });
        EXPECT_EQ(*origin.retire({retirement}), expected);
        retired.insert(each->first);
        written.erase(each);
        break;
      }
      case 2: {
        const DueTuple entry{.tuple = tuple(),
                             .kind = pick(2) == 0 ? Due::kNow : Due::kWindowEnd,
                             .at = due_time(step)};
        model.add_due({entry});
        origin->add_due({entry});
        break;
      }
      case 3: {
        std::vector<DueTuple> expected;
        const WallTime by = pick(2) == 0 ? due_time(step) : in(2'000'000);
        const size_t most = pick(4);
        const WallTime from = pick(2) == 0 ? due_time(step) : WallTime{};
        model.read_due(from, by, most, [&](const auto& entries) { expected = *entries; });
        EXPECT_EQ(*origin.read_due(by, most, from), expected);
        if (pick(2) == 0) {
          for (DueTuple& entry : expected) entry.at += Millis(pick(4) == 0 ? 1 : 0);
          model.remove_due(expected);
          origin->remove_due(expected);
        }
        break;
      }
      default: {
        std::vector<TupleUpdate> updates;
        for (uint64_t i = pick(4); i > 0; --i) {
          TupleUpdate update{.tuple = tuple(),
                             .counts = {},
                             .kept_until = pick(10) == 0 ? in(-1) : kept,
                             .sequences = {0, 2}};
          for (uint64_t j = pick(4); j > 0; --j) {
            update.counts.push_back({.region = contracts::binary(std::to_string(pick(3))),
                                     .sequence = static_cast<int64_t>(pick(8)),
                                     .count = pick(50),
                                     .limit_seen = pick(20),
                                     .leased_until = WallTime(Millis(pick(30)))});
          }
          updates.push_back(std::move(update));
        }
        std::vector<TupleCounts> expected;
        model.update_tuples(updates, [&](const auto& counts) { expected = *counts; });
        const auto counts = origin.update_tuples(updates);
        ASSERT_TRUE(counts.ok());
        ASSERT_EQ(counts->size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(counts->at(i).regions, expected[i].regions);
          ASSERT_EQ(counts->at(i).windows.size(), expected[i].windows.size());
          for (size_t j = 0; j < expected[i].windows.size(); ++j) {
            EXPECT_EQ(counts->at(i).windows[j].sequence, expected[i].windows[j].sequence);
            EXPECT_EQ(counts->at(i).windows[j].total, expected[i].windows[j].total);
            EXPECT_EQ(counts->at(i).windows[j].limit_seen, expected[i].windows[j].limit_seen);
          }
        }
      }
    }
    if (testing::Test::HasFailure()) FAIL() << "in step " << step;
  }
}

}  // namespace
}  // namespace weir::origins
