// The contract of GlobalLedger: each implementation, and its faulty twin, passes this suite.

#pragma once

#include "tests/contracts/ledger_contract_fixture.h"

namespace weir::contracts {

TYPED_TEST_SUITE_P(LedgerContract);

TYPED_TEST_P(LedgerContract, IsEmptyAtFirst) {
  EXPECT_TRUE(this->contents().rows.empty());
  const LedgerChanges changes = this->changes(this->cursor());
  EXPECT_TRUE(changes.news.rows.empty());
  EXPECT_TRUE(changes.news.presences.empty());
  EXPECT_FALSE(changes.cut);
}

TYPED_TEST_P(LedgerContract, ReturnsRowsUnchanged) {
  const LedgerRow row = this->row(7);
  EXPECT_EQ(this->publish({row}), 1u);
  const Contents all = this->contents();
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(this->identity(all.rows[0]), this->identity(row));
  EXPECT_EQ(all.invalid, 0u);
}

TYPED_TEST_P(LedgerContract, KeepsTheLargestCountAndTheSmallestLimit) {
  LedgerRow row = this->row(7);
  row.limit_seen = 100;
  this->publish({row});
  row.count = 5;
  row.limit_seen = 90;
  this->publish({row});
  row.count = 9;
  row.limit_seen = 95;
  this->publish({row});
  this->publish({row});
  const Contents all = this->contents();
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(all.rows[0].count, 9u);
  EXPECT_EQ(all.rows[0].limit_seen, 90u);
}

TYPED_TEST_P(LedgerContract, MergesDuplicateRowsInOneBatch) {
  this->publish({this->row(7), this->row(9), this->row(8)});
  const Contents all = this->contents();
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(all.rows[0].count, 9u);
}

TYPED_TEST_P(LedgerContract, SeparatesTuplesWindowsAndRegions) {
  std::vector<LedgerRow> rows(6, this->row(1));
  rows[1].key.workspace = "other";
  rows[2].key.ns = "other";
  rows[3].key.identifier = "other";
  rows[4].sequence += 1;
  rows[5].region = "west";
  // The boundary between two names matters.
  rows.push_back(this->row(1));
  rows.back().key.workspace = "acmel";
  rows.back().key.ns = "ogin";
  rows.push_back(this->row(1));
  rows.back().key.duration = Millis(120'000);
  this->publish(rows);
  EXPECT_EQ(this->contents().rows.size(), rows.size());
}

TYPED_TEST_P(LedgerContract, ReturnsChangesAfterACursor) {
  this->publish({this->row(7, "before")});
  this->maker_.age(this->kBeyondLookBack);
  const LedgerCursor cursor = this->cursor();
  this->publish({this->row(1, "new")});
  LedgerChanges changes = this->changes(cursor);
  ASSERT_EQ(changes.news.rows.size(), 1u);
  EXPECT_EQ(changes.news.rows[0].key.identifier, "new");
  EXPECT_GE(changes.next.position, cursor.position);
  // A row that grows is a change, too.
  this->maker_.age(this->kBeyondLookBack);
  this->publish({this->row(8, "before")});
  changes = this->changes(this->cursor());
  ASSERT_EQ(changes.news.rows.size(), 1u);
  EXPECT_EQ(changes.news.rows[0].count, 8u);
}

TYPED_TEST_P(LedgerContract, ReturnsNoChangesWithoutACursor) {
  this->publish({this->row(7)});
  const LedgerChanges changes = this->changes({});
  EXPECT_TRUE(changes.news.rows.empty());
  EXPECT_NE(changes.next.position, 0);
}

TYPED_TEST_P(LedgerContract, DoesNotReportARepeatedPublishAsAChange) {
  this->publish({this->row(7)}, {this->presence(Millis(300'000))});
  this->maker_.age(this->kBeyondLookBack);
  LedgerRow lower = this->row(6);
  lower.limit_seen = 101;
  this->publish({this->row(7)}, {this->presence(Millis(300'000))});
  this->publish({lower}, {this->presence(Millis(200'000))});
  const LedgerChanges changes = this->changes(this->cursor());
  EXPECT_TRUE(changes.news.rows.empty());
  EXPECT_TRUE(changes.news.presences.empty());
}

TYPED_TEST_P(LedgerContract, ReportsASmallerLimitAsAChange) {
  LedgerRow row = this->row(7);
  this->publish({row});
  this->maker_.age(this->kBeyondLookBack);
  row.count = 3;
  row.limit_seen = 99;
  this->publish({row});
  const LedgerChanges changes = this->changes(this->cursor());
  ASSERT_EQ(changes.news.rows.size(), 1u);
  EXPECT_EQ(changes.news.rows[0].count, 7u);
  EXPECT_EQ(changes.news.rows[0].limit_seen, 99u);
}

TYPED_TEST_P(LedgerContract, RepeatsChangesFromShortlyBeforeTheCursor) {
  this->publish({this->row(7)}, {this->presence(Millis(300'000))});
  this->maker_.age(Millis(3000));
  const LedgerChanges changes = this->changes(this->cursor());
  EXPECT_EQ(changes.news.rows.size(), 1u);
  EXPECT_EQ(changes.news.presences.size(), 1u);
}

TYPED_TEST_P(LedgerContract, HonoursAShortLookBack) {
  this->publish({this->row(7)});
  LedgerCursor cursor = this->cursor();
  cursor.look_back = LookBack::kShort;
  EXPECT_EQ(this->changes(cursor).news.rows.size(), 1u);
  this->maker_.age(Millis(1000));
  cursor = this->cursor();
  cursor.look_back = LookBack::kShort;
  EXPECT_TRUE(this->changes(cursor).news.rows.empty());
}

TYPED_TEST_P(LedgerContract, SplitsRowsThatExceedOneAnswer) {
  this->expect_split_answers(
      [](LedgerNews& batch, const LedgerRow& row) { batch.rows.push_back(row); },
      &LedgerNews::rows);
}

TYPED_TEST_P(LedgerContract, SplitsPresencesThatExceedOneAnswer) {
  const WallTime until = this->start_ + 10 * this->kMinute;
  this->expect_split_answers(
      [&](LedgerNews& batch, const LedgerRow& row) {
        batch.presences.push_back({.key = row.key, .region = row.region, .until = until});
      },
      &LedgerNews::presences);
}

TYPED_TEST_P(LedgerContract, StoresEveryNameByteForByte) {
  std::vector<LedgerRow> rows;
  const auto add = [&](const std::string& name) {
    rows.push_back(this->row(1, name));
    rows.push_back(this->row(1));
    rows.back().key.workspace = name;
    rows.push_back(this->row(1));
    rows.back().key.ns = name;
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const char* hard : {"'", "''", "\"", "\\", "\\'", "\\\\", "a'; DROP TABLE weir_cells; --",
                           "%", "_", "?", "`", "\r\n", "ä", "日本語", "\xff\xfe", " ", "a ", "A"}) {
    add(hard);
  }
  add(std::string("\0'\\\0", 4));
  add(std::string("a\0b", 3));
  add(std::string("a\0", 2));
  std::string longest;
  for (size_t i = 0; i < kMaxNameBytes; ++i) longest += static_cast<char>(i * 7);
  add(longest);
  add(std::string(kMaxNameBytes, '\xff'));
  add(std::string(kMaxNameBytes, '\''));
  add(std::string(kMaxNameBytes, '\0'));
  rows.push_back(this->row(1));
  rows.back().key.workspace = "";
  rows.push_back(this->row(1, "alice", std::string("\0\xff'\\", 4)));
  rows.push_back(this->row(1, "alice", std::string(ledgers::kMaxRegionBytes, 'r')));

  const auto set_of = [](const std::vector<LedgerRow>& all) {
    std::set<std::tuple<LedgerKey, std::string>> keys;
    for (const LedgerRow& row : all) keys.emplace(row.key, row.region);
    return keys;
  };
  const LedgerCursor cursor = this->cursor();
  this->publish(rows);
  const auto wanted = set_of(rows);
  EXPECT_EQ(set_of(this->contents().rows), wanted);
  EXPECT_EQ(set_of(this->changes(cursor).news.rows), wanted);
}

TYPED_TEST_P(LedgerContract, StoresTheLargestNumbers) {
  LedgerRow row = this->row(ledgers::kMaxCount);
  row.limit_seen = kMaxLimit;
  row.key.duration = kMaxDuration;
  row.sequence = this->current(kMaxDuration);
  this->publish({row});
  const Contents all = this->contents();
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(this->identity(all.rows[0]), this->identity(row));
}

TYPED_TEST_P(LedgerContract, ReturnsEachItemOncePageByPage) {
  constexpr size_t kRows = 2 * ledgers::kRowsPerPage + 17;
  std::vector<LedgerRow> rows;
  std::vector<LedgerPresence> presences;
  for (size_t i = 0; i < kRows; ++i) {
    rows.push_back(this->row(i + 1, "u" + std::to_string(i / 2), i % 2 == 0 ? "east" : "west"));
    if (i % 2 == 0) {
      presences.push_back(this->presence(Millis(300'000)));
      presences.back().key = rows.back().key;
    }
    if (rows.size() == 1000) this->publish(std::exchange(rows, {}), std::exchange(presences, {}));
  }
  this->publish(rows, presences);
  const Contents all = this->contents();
  EXPECT_EQ(all.rows.size(), kRows);
  EXPECT_EQ(all.presences.size(), kRows / 2 + 1);
  EXPECT_GE(all.pages, 3u);
  std::set<Count> counts;
  for (const LedgerRow& row : all.rows) counts.insert(row.count);
  EXPECT_EQ(counts.size(), kRows);
  std::set<LedgerKey> keys;
  for (const LedgerPresence& each : all.presences) keys.insert(each.key);
  EXPECT_EQ(keys.size(), kRows / 2 + 1);
}

TYPED_TEST_P(LedgerContract, EndsAfterAFullLastPage) {
  std::vector<LedgerRow> rows;
  for (size_t i = 0; i < ledgers::kRowsPerPage; ++i) {
    rows.push_back(this->row(1, std::to_string(i)));
    if (rows.size() == 1000) this->publish(std::exchange(rows, {}));
  }
  EXPECT_EQ(this->contents().rows.size(), ledgers::kRowsPerPage);
}

TYPED_TEST_P(LedgerContract, RejectsAnUnknownPosition) {
  const Result<LedgerPage> page = this->page({.after = "nowhere"});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().retry, Retry::kPointless);
}

TYPED_TEST_P(LedgerContract, HidesAndDeletesExpiredItems) {
  LedgerRow old = this->row(5, "old");
  old.sequence -= 3;
  this->publish({old, this->row(7, "live")}, {this->presence(Millis(-1))});
  const LedgerCursor cursor{this->cursor().position - 1000};
  Contents all = this->contents();
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(all.rows[0].key.identifier, "live");
  EXPECT_TRUE(all.presences.empty());
  EXPECT_EQ(this->changes(cursor).news.rows.size(), 1u);
  const LedgerCleaning cleaning = this->clean(*this->ledger_);
  EXPECT_TRUE(cleaning.ours);
  EXPECT_EQ(cleaning.deleted, 2u);
  EXPECT_EQ(this->clean(*this->ledger_).deleted, 0u);
  EXPECT_EQ(this->contents().rows.size(), 1u);
}

TYPED_TEST_P(LedgerContract, ExpiresACellTwoWindowsAfterItsStart) {
  if constexpr (TypeParam::kTimeIsReal) {
    GTEST_SKIP() << "the clock of the store cannot be moved";
  } else {
    this->publish({this->row(5)}, {this->presence(this->kMinute)});
    const WallTime end = this->row(5).expires_at();
    this->clock_.advance(end - this->now() - Millis(1));
    EXPECT_EQ(this->contents().rows.size(), 1u);
    EXPECT_EQ(this->contents().presences.size(), 0u);
    EXPECT_EQ(this->clean(*this->ledger_).deleted, 1u);
    this->clock_.advance(Millis(1));
    EXPECT_EQ(this->contents().rows.size(), 0u);
    EXPECT_EQ(this->clean(*this->ledger_).deleted, 1u);
  }
}

TYPED_TEST_P(LedgerContract, DeletesAtMostTheRequestedNumber) {
  std::vector<LedgerRow> rows;
  for (int i = 0; i < 1200; ++i) {
    rows.push_back(this->row(5, std::to_string(i)));
    rows.back().sequence -= 3;
  }
  this->publish(rows);
  EXPECT_EQ(this->clean(*this->ledger_, 3).deleted, 3u);
  EXPECT_EQ(this->clean(*this->ledger_, 1100).deleted, 1100u);
  EXPECT_EQ(this->clean(*this->ledger_, 1100).deleted, 97u);
}

TYPED_TEST_P(LedgerContract, AllowsOneCleaningProcessAtATime) {
  const std::shared_ptr<GlobalLedger> another = this->maker_.make_another();
  EXPECT_TRUE(this->clean(*this->ledger_).ours);
  EXPECT_FALSE(this->clean(*another).ours);
  EXPECT_TRUE(this->clean(*this->ledger_).ours);
  if constexpr (!TypeParam::kTimeIsReal) {
    this->clock_.advance(ledgers::kCleaningLease - Millis(1));
    EXPECT_FALSE(this->clean(*another).ours);
    this->clock_.advance(Millis(1));
    EXPECT_TRUE(this->clean(*another).ours);
    EXPECT_FALSE(this->clean(*this->ledger_).ours);
  }
}

TYPED_TEST_P(LedgerContract, OmitsAndCountsInvalidItems) {
  const LedgerCursor cursor = this->cursor();
  std::vector<LedgerRow> rows(8, this->row(1));
  rows[0].count = ledgers::kMaxCount + 1;
  rows[1].key.duration = Millis(99);
  rows[1].sequence = this->current(Millis(99)) + 1000;
  rows[2].key.duration = kMaxDuration + Millis(1);
  rows[3].key.identifier = "";
  rows[4].key.ns = "";
  rows[5].region = "";
  rows[6].limit_seen = 0;
  rows[6].key.identifier = "no limit";
  rows[7].limit_seen = kMaxLimit + 1;
  rows[7].key.identifier = "endless limit";
  LedgerPresence presence = this->presence(Millis(300'000));
  presence.key.identifier = "";
  this->publish(rows, {presence});
  this->publish({this->row(5, "valid")});
  const Contents all = this->contents();
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(all.rows[0].key.identifier, "valid");
  EXPECT_EQ(all.invalid, rows.size() + 1);
  const LedgerChanges changes = this->changes(cursor);
  EXPECT_EQ(changes.news.rows.size(), 1u);
  EXPECT_EQ(changes.invalid, rows.size() + 1);
}

TYPED_TEST_P(LedgerContract, RejectsABatchWithAnUnstorableRow) {
  std::vector<LedgerRow> rows(4, this->row(1));
  rows[0].key.identifier = std::string(kMaxNameBytes + 1, 'x');
  rows[1].region = std::string(ledgers::kMaxRegionBytes + 1, 'x');
  rows[2].sequence = std::numeric_limits<int64_t>::max();
  rows[3].count = std::numeric_limits<Count>::max();
  for (const LedgerRow& bad : rows) {
    const Result<size_t> result =
        this->try_publish({.rows = {this->row(7, "good"), bad}, .presences = {}});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().retry, Retry::kPointless);
    EXPECT_TRUE(this->contents().rows.empty());
  }
  this->publish({this->row(7, "good")});
  EXPECT_EQ(this->contents().rows.size(), 1u);
}

TYPED_TEST_P(LedgerContract, KeepsTheLatestEndOfAPresence) {
  const LedgerCursor cursor = this->cursor();
  const LedgerPresence longest = this->presence(Millis(300'000));
  this->publish({}, {this->presence(Millis(200'000)), this->presence(Millis(100'000), "west")});
  this->publish({}, {longest});
  this->publish({}, {this->presence(Millis(250'000))});
  std::map<std::string, WallTime> until;
  for (const LedgerPresence& each : this->contents().presences) {
    EXPECT_EQ(each.key, this->key());
    until[each.region] = each.until;
  }
  EXPECT_EQ(until, (std::map<std::string, WallTime>{
                       {"east", longest.until}, {"west", this->presence(Millis(100'000)).until}}));
  EXPECT_EQ(this->changes(cursor).news.presences.size(), 2u);
}

TYPED_TEST_P(LedgerContract, ListsRegionsThatSentAHeartbeat) {
  this->heartbeat({.region = "east", .hidden_ppm = 5});
  this->heartbeat({.region = "west", .hidden_ppm = 6});
  const LedgerFleet fleet = this->heartbeat({.region = "east", .hidden_ppm = 7});
  std::map<std::string, uint64_t> regions;
  for (const LedgerRegion& region : fleet.regions) regions[region.region] = region.hidden_ppm;
  EXPECT_EQ(regions, (std::map<std::string, uint64_t>{{"east", 7}, {"west", 6}}));
}

// One process of a region has a backlog; a healthy sibling sends the next heartbeat.
TYPED_TEST_P(LedgerContract, KeepsTheLargestRecentHiddenShareOfARegion) {
  const auto hidden = [](const LedgerFleet& fleet) {
    for (const LedgerRegion& region : fleet.regions) {
      if (region.region == "east") return region.hidden_ppm;
    }
    return uint64_t{0};
  };
  this->heartbeat({.region = "east", .hidden_ppm = 1'000'000});
  EXPECT_EQ(hidden(this->heartbeat({.region = "east", .hidden_ppm = 5})), 1'000'000u);
  EXPECT_EQ(hidden(this->heartbeat({.region = "west"})), 1'000'000u);
  if constexpr (!TypeParam::kTimeIsReal) {
    this->clock_.advance(kHiddenKept);
    EXPECT_EQ(hidden(this->heartbeat({.region = "east", .hidden_ppm = 5})), 1'000'000u);
    this->clock_.advance(Millis(1));
    EXPECT_EQ(hidden(this->heartbeat({.region = "east", .hidden_ppm = 5})), 5u);
    EXPECT_EQ(hidden(this->heartbeat({.region = "east", .hidden_ppm = 6})), 6u);
  }
}

TYPED_TEST_P(LedgerContract, ReportsTheTimeSinceTheLastHeartbeatOfARegion) {
  const auto silent = [](const LedgerFleet& fleet) {
    std::map<std::string, Millis> all;
    for (const LedgerRegion& region : fleet.regions) all[region.region] = region.silent;
    return all;
  };
  this->heartbeat({.region = "east"});
  if constexpr (!TypeParam::kTimeIsReal) this->clock_.advance(Millis(7000));
  const auto all = silent(this->heartbeat({.region = "west"}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_LT(all.at("west"), Millis(5000));
  if constexpr (TypeParam::kTimeIsReal) {
    EXPECT_LT(all.at("east"), Millis(60'000));
  } else {
    EXPECT_EQ(all.at("east"), Millis(7000));
  }
}

TYPED_TEST_P(LedgerContract, KeepsTheRulesOfTheFirstHeartbeat) {
  const SyncRules first{.policy = PublishPolicy::kFloor,
                        .hidden_permille = 1,
                        .slack_permille = 2,
                        .lease = Millis(30'000),
                        .publish_every = Millis(4),
                        .import_every = Millis(5),
                        .rows_per_second = 6,
                        .floor_permille = 7};
  EXPECT_EQ(this->heartbeat({.region = "east"}, first).rules, first);
  EXPECT_EQ(this->heartbeat({.region = "west"}, {}).rules, first);
}

TYPED_TEST_P(LedgerContract, AcceptsAnEmptyBatch) {
  EXPECT_EQ(this->publish({}), 0u);
}

REGISTER_TYPED_TEST_SUITE_P(
    LedgerContract, IsEmptyAtFirst, ReturnsRowsUnchanged, KeepsTheLargestCountAndTheSmallestLimit,
    MergesDuplicateRowsInOneBatch, SeparatesTuplesWindowsAndRegions, ReturnsChangesAfterACursor,
    ReturnsNoChangesWithoutACursor, DoesNotReportARepeatedPublishAsAChange,
    ReportsASmallerLimitAsAChange, RepeatsChangesFromShortlyBeforeTheCursor, HonoursAShortLookBack,
    SplitsRowsThatExceedOneAnswer, SplitsPresencesThatExceedOneAnswer, StoresEveryNameByteForByte,
    StoresTheLargestNumbers, ReturnsEachItemOncePageByPage, EndsAfterAFullLastPage,
    RejectsAnUnknownPosition, HidesAndDeletesExpiredItems, ExpiresACellTwoWindowsAfterItsStart,
    DeletesAtMostTheRequestedNumber, AllowsOneCleaningProcessAtATime, OmitsAndCountsInvalidItems,
    RejectsABatchWithAnUnstorableRow, KeepsTheLatestEndOfAPresence, ListsRegionsThatSentAHeartbeat,
    KeepsTheLargestRecentHiddenShareOfARegion, ReportsTheTimeSinceTheLastHeartbeatOfARegion,
    KeepsTheRulesOfTheFirstHeartbeat, AcceptsAnEmptyBatch);

}  // namespace weir::contracts
