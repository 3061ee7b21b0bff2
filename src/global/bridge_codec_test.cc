#include "global/bridge_codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <span>
#include <string>

#include "base/byte_codec.h"
#include "base/split_mix.h"
#include "global/publish_rule.h"

namespace weir::global {
namespace {

BridgeNotice rich_notice() {
  return {
      .regions = {.rules = {.policy = PublishPolicy::kFloor,
                            .unpublished_permille = 1,
                            .slack_permille = 2,
                            .lease = Millis(3),
                            .publish_every = Millis(4),
                            .import_every = Millis(5),
                            .rows_per_second = UINT32_MAX,
                            .floor_permille = 7},
                  .count = 12,
                  .complete = true,
                  .unpublished = {.ppm = 250'000, .max_ppm = 3'000'000},
                  .wider = {{{.workspace = "acme", .ns = "login"},
                             {.ppm = 1'250'000, .max_ppm = 4'000'000}}},
                  .own = {.epoch = UINT64_MAX, .number = 9},
                  .doublings = {{{.workspace = "w", .ns = "flood"}, 1},
                                {{.workspace = "", .ns = std::string("a\0b", 3)}, kMaxDoublings}},
                  .silent = {"", "north"}},
      .import_age = Millis(77),
      .fleet_age = Millis(1234),
      .changes = {{.tuple = std::string("t\0\xff", 3),
                   .counts = {{.region = "east",
                               .sequence = std::numeric_limits<int64_t>::min(),
                               .count = UINT64_MAX,
                               .limit_seen = 0,
                               .leased_until = WallTime(Millis(-1))},
                              {.region = "west",
                               .sequence = std::numeric_limits<int64_t>::max(),
                               .count = 0,
                               .limit_seen = 100,
                               .leased_until = WallTime(Millis(1'700'000'000'000))}}},
                  {.tuple = "", .counts = {}}}};
}

BridgeState rich_state() {
  return {.id = UINT64_MAX,
          .evicted = 17,
          .cursors = {{"", {}}, {"east", {.epoch = 5, .number = 6}}, {"west", {.epoch = 7}}}};
}

TEST(BridgeCodec, DecodesWhatItEncoded) {
  EXPECT_EQ(decode_notice(encode(rich_notice())), rich_notice());
  EXPECT_EQ(decode_notice(encode(BridgeNotice{})), BridgeNotice{});
  // Without the changes of some tuples.
  BridgeNotice some = rich_notice();
  ASSERT_GT(some.changes.size(), 1U);
  const std::string unwanted = some.changes.front().tuple;
  some.changes.erase(some.changes.begin());
  const auto wanted = [&](std::span<const std::string_view> tuples) {
    std::vector<bool> are;
    for (const std::string_view tuple : tuples) are.push_back(tuple != unwanted);
    return are;
  };
  EXPECT_EQ(decode_notice(encode(rich_notice()), wanted), some);
  EXPECT_EQ(decode_state(encode(rich_state())), rich_state());
  EXPECT_EQ(decode_state(encode(BridgeState{})), BridgeState{});
}

TEST(BridgeCodec, DecodesTheWantedOnesOfManyChanges) {
  BridgeNotice notice;
  BridgeNotice expected;
  for (int i = 0; i < 1000; ++i) {
    TupleChange change{.tuple = std::to_string(i),
                       .counts = std::vector<RegionCount>(i % 4, {.region = "eu", .sequence = i})};
    if (i % 3 == 0) expected.changes.push_back(change);
    notice.changes.push_back(std::move(change));
  }
  size_t asked = 0;
  const auto wanted = [&](std::span<const std::string_view> tuples) {
    std::vector<bool> are;
    for (const std::string_view tuple : tuples) {
      EXPECT_EQ(tuple, notice.changes[asked].tuple);
      are.push_back(asked++ % 3 == 0);
    }
    return are;
  };
  EXPECT_EQ(decode_notice(encode(notice), wanted), expected);
  EXPECT_EQ(asked, notice.changes.size());
}

// The counts of a tuple are a string in the message, with a length of its own.
TEST(BridgeCodec, RefusesCountsThatDoNotFillTheirLength) {
  BridgeNotice notice;
  notice.changes = {{.tuple = "a", .counts = {{.region = "eu"}}}};
  std::string bytes = encode(notice);
  const size_t length = bytes.rfind('a') + 1;
  ASSERT_EQ(static_cast<size_t>(bytes[length]), bytes.size() - length - 1);
  ++bytes[length];
  EXPECT_FALSE(decode_notice(bytes + '\0'));
}

TEST(BridgeCodec, RefusesEveryPrefixAndEveryExtension) {
  const std::string notice = encode(rich_notice());
  for (size_t size = 0; size < notice.size(); ++size) {
    EXPECT_FALSE(decode_notice(notice.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_notice(notice + '\0'));
  const std::string state = encode(rich_state());
  for (size_t size = 0; size < state.size(); ++size) {
    EXPECT_FALSE(decode_state(state.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_state(state + '\0'));
}

TEST(BridgeCodec, RefusesAnotherFormat) {
  std::string notice = encode(rich_notice());
  ++notice[0];
  EXPECT_FALSE(decode_notice(notice));
  std::string state = encode(rich_state());
  ++state[0];
  EXPECT_FALSE(decode_state(state));
}

TEST(BridgeCodec, RefusesImpossibleValues) {
  const auto is_valid = [](const auto& change) {
    BridgeNotice notice = rich_notice();
    change(notice);
    return decode_notice(encode(notice)).has_value();
  };
  EXPECT_TRUE(is_valid([](BridgeNotice&) {}));
  EXPECT_FALSE(is_valid([](BridgeNotice& notice) { notice.import_age = Millis(-1); }));
  EXPECT_FALSE(is_valid([](BridgeNotice& notice) { notice.import_age = Millis::max(); }));
  EXPECT_FALSE(is_valid([](BridgeNotice& notice) { notice.regions.rules.lease = Millis(-1); }));
  EXPECT_FALSE(
      is_valid([](BridgeNotice& notice) { notice.regions.rules.publish_every = Millis::min(); }));
  EXPECT_FALSE(is_valid(
      [](BridgeNotice& notice) { notice.regions.rules.policy = static_cast<PublishPolicy>(2); }));
  EXPECT_FALSE(is_valid(
      [](BridgeNotice& notice) { notice.regions.doublings.begin()->second = kMaxDoublings + 1; }));
}

// A length says how much follows, and nothing is reserved for more than that.
TEST(BridgeCodec, RefusesAListThatIsLongerThanItsBytes) {
  base::ByteWriter writer;
  writer.add(uint64_t{1});  // the format
  writer.add(uint64_t{5});
  writer.add(uint64_t{0});
  writer.add(UINT64_MAX);  // cursors
  EXPECT_FALSE(decode_state(writer.take()));
}

TEST(BridgeCodec, TellsRecordsApart) {
  const std::string notice = encode(rich_notice());
  const std::string survivor = encode(SurvivorRecord{.incarnation = UINT64_MAX});
  const FeedPosition at{.epoch = UINT64_MAX, .number = 9};
  const std::string reservation = encode(ReservationRecord{.at = at});
  ASSERT_TRUE(decode_survivor(survivor));
  EXPECT_EQ(decode_survivor(survivor)->incarnation, UINT64_MAX);
  ASSERT_TRUE(decode_reservation(reservation));
  EXPECT_EQ(decode_reservation(reservation)->at, at);
  for (const std::string& bytes : {notice, survivor, std::string(), reservation + '\0'}) {
    EXPECT_FALSE(decode_reservation(bytes));
  }
  for (const std::string& bytes : {notice, reservation}) EXPECT_FALSE(decode_survivor(bytes));
  for (const std::string& bytes : {survivor, reservation}) EXPECT_FALSE(decode_notice(bytes));
}

TEST(BridgeCodec, DecodesRandomBytesToNothingOrToAValueThatEncodesAgain) {
  uint64_t random = 1;
  size_t decoded = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Random bytes, or a valid encoding with one byte changed.
    std::string bytes;
    if (i % 2 == 0) {
      bytes.resize(base::split_mix(random) % 64);
      for (char& byte : bytes) byte = static_cast<char>(base::split_mix(random));
      if (!bytes.empty()) bytes[0] = 1;
    } else {
      bytes = i % 4 == 1 ? encode(rich_notice()) : encode(rich_state());
      bytes[base::split_mix(random) % bytes.size()] = static_cast<char>(base::split_mix(random));
    }
    if (const auto notice = decode_notice(bytes)) {
      EXPECT_EQ(decode_notice(encode(*notice)), *notice);
      ++decoded;
    }
    if (const auto state = decode_state(bytes)) {
      EXPECT_EQ(decode_state(encode(*state)), *state);
      ++decoded;
    }
  }
  EXPECT_GT(decoded, 100U);
}

RC_GTEST_PROP(BridgeCodec, DecodesAnyStateThatItEncoded, ()) {
  BridgeState state{.id = *rc::gen::arbitrary<uint64_t>(),
                    .evicted = *rc::gen::arbitrary<uint64_t>(),
                    .cursors = {}};
  for (const auto& region : *rc::gen::arbitrary<std::vector<std::string>>()) {
    state.cursors[region] = {.epoch = *rc::gen::arbitrary<uint64_t>(),
                             .number = *rc::gen::arbitrary<uint64_t>()};
  }
  RC_ASSERT(decode_state(encode(state)) == state);
}

RC_GTEST_PROP(BridgeCodec, DecodesAnyChangeThatItEncoded, ()) {
  BridgeNotice notice;
  for (const auto& tuple : *rc::gen::arbitrary<std::vector<std::string>>()) {
    notice.changes.push_back(
        {.tuple = tuple,
         .counts = {{.region = *rc::gen::arbitrary<std::string>(),
                     .sequence = *rc::gen::arbitrary<int64_t>(),
                     .count = *rc::gen::arbitrary<uint64_t>(),
                     .limit_seen = *rc::gen::arbitrary<uint64_t>(),
                     .leased_until = WallTime(Millis(*rc::gen::arbitrary<int64_t>()))}}});
  }
  RC_ASSERT(decode_notice(encode(notice)) == notice);
}

}  // namespace
}  // namespace weir::global
