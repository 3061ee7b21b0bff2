// The contract of GlobalLedger on rows and regions: each implementation, and its faulty twin,
// passes this suite. feed_contract.h has the contract on feeds.

#pragma once

#include "tests/contracts/ledger_contract_fixture.h"

namespace weir::contracts {

using ::testing::ElementsAre;

TYPED_TEST_SUITE_P(LedgerContract);

TYPED_TEST_P(LedgerContract, IsEmptyAtFirst) {
  EXPECT_TRUE(this->contents().rows.empty());
  const FeedChanges changes = this->feeds({{.region = "east", .at = {}}});
  EXPECT_TRUE(changes.heads.empty());
  EXPECT_TRUE(changes.batches.empty());
  EXPECT_FALSE(changes.more);
}

// Rows.

TYPED_TEST_P(LedgerContract, ReturnsRowsUnchanged) {
  LedgerRow row = this->row(7);
  row.leased_until = WallTime((row.sequence + 10) * this->kMinute);
  this->publish({row});
  const Contents all = this->contents();
  EXPECT_THAT(all.rows, ElementsAre(row));
  EXPECT_EQ(all.invalid, 0u);
}

TYPED_TEST_P(LedgerContract, KeepsTheLargestCountAndLeaseAndTheSmallestLimit) {
  const auto row = [&](Count count, Count limit, int lease) {
    LedgerRow made = this->row(count);
    made.limit_seen = limit;
    made.leased_until = WallTime((made.sequence + lease) * this->kMinute);
    return made;
  };
  this->publish({row(7, 100, 4)});
  this->publish({row(5, 90, 3)});
  this->publish({row(9, 95, 2)});
  this->publish({row(9, 95, 2)});
  EXPECT_THAT(this->contents().rows, ElementsAre(row(9, 90, 4)));
  this->publish({row(8, 99, 6)});
  EXPECT_THAT(this->contents().rows, ElementsAre(row(9, 90, 6)));
}

TYPED_TEST_P(LedgerContract, MergesDuplicateRowsInOneBatch) {
  this->publish({this->row(7), this->row(9), this->row(8)});
  EXPECT_THAT(this->contents().rows, ElementsAre(this->row(9)));
}

TYPED_TEST_P(LedgerContract, SeparatesTuplesAndWindows) {
  std::vector<LedgerRow> rows(5, this->row(1));
  rows[1].key.workspace = "other";
  rows[2].key.ns = "other";
  rows[3].key.identifier = "other";
  rows[4].sequence += 1;
  // The boundary between two names matters.
  rows.push_back(this->row(1));
  rows.back().key.workspace = "acmel";
  rows.back().key.ns = "ogin";
  rows.push_back(this->row(1));
  rows.back().key.duration = Millis(120'000);
  rows.back().sequence = this->current(Millis(120'000));
  this->publish(rows);
  EXPECT_THAT(this->contents().rows, ::testing::UnorderedElementsAreArray(rows));
}

TYPED_TEST_P(LedgerContract, SeparatesRegions) {
  this->publish({this->row(1, "alice", "east")}, "east");
  this->publish({this->row(2, "alice", "west")}, "west");
  EXPECT_THAT(this->contents("east").rows, ElementsAre(this->row(1, "alice", "east")));
  EXPECT_THAT(this->contents("west").rows, ElementsAre(this->row(2, "alice", "west")));
  EXPECT_TRUE(this->contents("north").rows.empty());
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

  const auto set_of = [](const std::vector<LedgerRow>& all) {
    std::set<LedgerKey> keys;
    for (const LedgerRow& row : all) keys.insert(row.key);
    return keys;
  };
  const auto wanted = set_of(rows);
  for (const std::string& region :
       {std::string("east"), std::string("\0\xff'\\", 4), std::string("a\0", 2), std::string("a"),
        std::string(ledgers::kMaxRegionBytes, 'r')}) {
    for (LedgerRow& row : rows) row.region = region;
    const FeedPosition at = this->publish(rows, region);
    EXPECT_EQ(set_of(this->contents(region).rows), wanted);
    const auto batches = this->batches_after({.epoch = at.epoch}, region);
    ASSERT_EQ(batches.size(), 1u);
    EXPECT_EQ(batches[0].rows, rows);
    EXPECT_EQ(this->heads()[region], at);
  }
}

TYPED_TEST_P(LedgerContract, StoresTheLargestNumbers) {
  LedgerRow row = this->row(ledgers::kMaxCount);
  row.limit_seen = kMaxLimit;
  row.key.duration = kMaxDuration;
  row.sequence = this->current(kMaxDuration);
  row.leased_until = WallTime((row.sequence + 3) * kMaxDuration);
  const FeedPosition at = this->publish({row});
  EXPECT_THAT(this->contents().rows, ::testing::ElementsAre(row));
  EXPECT_THAT(this->batches_after({.epoch = at.epoch})[0].rows, ::testing::ElementsAre(row));
}

TYPED_TEST_P(LedgerContract, ReturnsEachRowOncePageByPage) {
  constexpr size_t kRows = 2 * ledgers::kRowsPerPage + 17;
  std::vector<LedgerRow> rows;
  for (size_t i = 0; i < kRows; ++i) {
    rows.push_back(this->row(i + 1, "u" + std::to_string(i / 2)));
    rows.back().sequence += static_cast<int64_t>(i % 2);
    if (rows.size() == 1000) this->publish(std::exchange(rows, {}));
  }
  this->publish(rows);
  this->publish({this->row(1, "alice", "west")}, "west");
  const Contents all = this->contents();
  EXPECT_EQ(all.rows.size(), kRows);
  EXPECT_EQ(all.pages, 3u);
  std::set<Count> counts;
  for (const LedgerRow& row : all.rows) counts.insert(row.count);
  EXPECT_EQ(counts.size(), kRows);
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

// Expiry and cleaning.

TYPED_TEST_P(LedgerContract, HidesAndDeletesExpiredRows) {
  LedgerRow old = this->row(5, "old");
  old.sequence -= 3;
  LedgerRow leased = this->row(6, "leased");
  leased.sequence -= 3;
  leased.leased_until = WallTime((leased.sequence + 10) * this->kMinute);
  const FeedPosition at = this->publish({old, leased, this->row(7, "live")});
  const auto kept = ::testing::UnorderedElementsAre(leased, this->row(7, "live"));
  EXPECT_THAT(this->contents().rows, kept);
  const LedgerCleaning cleaning = this->clean(*this->ledger_);
  EXPECT_TRUE(cleaning.ours);
  EXPECT_EQ(cleaning.deleted, 1u);
  EXPECT_EQ(this->clean(*this->ledger_).deleted, 0u);
  EXPECT_THAT(this->contents().rows, kept);
  // A batch stays whole.
  EXPECT_EQ(this->batches_after({.epoch = at.epoch})[0].rows.size(), 3u);
}

TYPED_TEST_P(LedgerContract, KeepsARowUntilTheWindowAfterItsLeaseHasEnded) {
  if constexpr (TypeParam::kTimeIsReal) {
    GTEST_SKIP() << "the clock of the store cannot be moved";
  } else {
    LedgerRow leased = this->row(6, "leased");
    leased.leased_until = leased.expires_at() + this->kMinute;
    this->publish({this->row(5), leased});
    // A lease that is written later extends the retention.
    LedgerRow renewed = leased;
    renewed.leased_until += this->kMinute;
    this->publish({renewed});
    const auto expect_ends_at = [&](WallTime end, size_t rows) {
      this->clock_.advance(end - this->now() - Millis(1));
      EXPECT_EQ(this->contents().rows.size(), rows);
      EXPECT_EQ(this->clean(*this->ledger_).deleted, 0u);
      this->clock_.advance(Millis(1));
      EXPECT_EQ(this->contents().rows.size(), rows - 1);
      EXPECT_EQ(this->clean(*this->ledger_).deleted, 1u);
    };
    expect_ends_at(this->row(5).expires_at(), 2);
    expect_ends_at(renewed.leased_until + this->kMinute, 1);
  }
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

TYPED_TEST_P(LedgerContract, OmitsAndCountsInvalidRows) {
  const std::vector<LedgerRow> rows = this->invalid_rows();
  this->publish(rows);
  this->publish({this->row(5, "valid")});
  const Contents all = this->contents();
  EXPECT_THAT(all.rows, ElementsAre(this->row(5, "valid")));
  EXPECT_EQ(all.invalid, rows.size());
}

TYPED_TEST_P(LedgerContract, RejectsABatchWithAnUnstorableRow) {
  std::vector<LedgerRow> rows(5, this->row(1));
  rows[0].key.identifier = std::string(kMaxNameBytes + 1, 'x');
  rows[1].region = std::string(ledgers::kMaxRegionBytes + 1, 'x');
  rows[2].sequence = std::numeric_limits<int64_t>::max();
  rows[3].count = std::numeric_limits<Count>::max();
  rows[4].region = "west";
  for (const LedgerRow& bad : rows) {
    const Result<FeedPosition> result = this->try_publish({}, {this->row(7, "good"), bad});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().retry, Retry::kPointless);
    EXPECT_EQ(result.error().field, "rows[1]");
    EXPECT_TRUE(this->contents().rows.empty());
    EXPECT_TRUE(this->heads().empty());
  }
  this->publish({this->row(7, "good")});
  EXPECT_EQ(this->contents().rows.size(), 1u);
}

// Regions.

TYPED_TEST_P(LedgerContract, ListsRegionsThatSentAHeartbeat) {
  this->heartbeat({.region = "east", .unpublished_ppm = 5});
  this->heartbeat({.region = "west", .unpublished_ppm = 6});
  const LedgerFleet fleet = this->heartbeat({.region = "east", .unpublished_ppm = 7});
  std::map<std::string, uint64_t> regions;
  for (const LedgerRegion& region : fleet.regions) regions[region.region] = region.unpublished_ppm;
  EXPECT_EQ(regions, (std::map<std::string, uint64_t>{{"east", 7}, {"west", 6}}));
}

// One process of a region has a backlog; a healthy sibling sends the next heartbeat.
TYPED_TEST_P(LedgerContract, KeepsTheLargestRecentUnpublishedShareOfARegion) {
  const auto unpublished = [](const LedgerFleet& fleet) {
    for (const LedgerRegion& region : fleet.regions) {
      if (region.region == "east") return region.unpublished_ppm;
    }
    return uint64_t{0};
  };
  this->heartbeat({.region = "east", .unpublished_ppm = 1'000'000});
  EXPECT_EQ(unpublished(this->heartbeat({.region = "east", .unpublished_ppm = 5})), 1'000'000u);
  EXPECT_EQ(unpublished(this->heartbeat({.region = "west"})), 1'000'000u);
  if constexpr (!TypeParam::kTimeIsReal) {
    // The span in which it was reported, and the next one.
    for (int spans = 0; spans < 2; ++spans) {
      EXPECT_EQ(unpublished(this->heartbeat({.region = "east", .unpublished_ppm = 5})), 1'000'000u);
      this->clock_.advance(kUnpublishedKept + Millis(1));
    }
    EXPECT_EQ(unpublished(this->heartbeat({.region = "east", .unpublished_ppm = 5})), 5u);
    EXPECT_EQ(unpublished(this->heartbeat({.region = "east", .unpublished_ppm = 6})), 6u);
  }
}

TYPED_TEST_P(LedgerContract, KeepsTheLargestRecentUnpublishedShareOfANamespace) {
  using Shares = std::map<std::string, uint64_t>;
  const auto shares = [](const LedgerFleet& fleet) {
    Shares all;
    for (const LedgerRegion& region : fleet.regions) {
      for (const NamespaceReport& each : region.namespaces) {
        all[region.region + "/" + each.workspace + "/" + each.ns] = each.unpublished_ppm;
      }
    }
    return all;
  };
  const auto report = [](std::string workspace, std::string ns, uint64_t ppm) {
    return NamespaceReport{
        .workspace = std::move(workspace), .ns = std::move(ns), .unpublished_ppm = ppm};
  };
  this->heartbeat({.region = "east",
                   .unpublished_ppm = 5,
                   .namespaces = {report("acme", "login", 900), report("", "login", 800)}});
  this->heartbeat({.region = "west", .namespaces = {report("acme", "login", 700)}});
  // Names of any length and bytes.
  const std::string odd(kMaxNameBytes, '\xff');
  EXPECT_EQ(
      shares(this->heartbeat(
          {.region = "east", .namespaces = {report("acme", "login", 100), report(odd, odd, 600)}})),
      (Shares{{"east/acme/login", 900},
              {"east//login", 800},
              {"east/" + odd + "/" + odd, 600},
              {"west/acme/login", 700}}));
  if constexpr (!TypeParam::kTimeIsReal) {
    this->clock_.advance(2 * kUnpublishedKept + Millis(1));
    EXPECT_EQ(
        shares(this->heartbeat({.region = "east", .namespaces = {report("acme", "login", 100)}})),
        (Shares{{"east/acme/login", 100}}));
  }
}

TYPED_TEST_P(LedgerContract, ReportsTheTimeSinceTheLastHeartbeatOfARegion) {
  const auto silent = [](const LedgerFleet& fleet) {
    std::map<std::string, Millis> all;
    for (const LedgerRegion& region : fleet.regions) all[region.region] = region.silent;
    return all;
  };
  const WallTime before_east = this->now();
  this->heartbeat({.region = "east"});
  if constexpr (!TypeParam::kTimeIsReal) this->clock_.advance(Millis(7000));
  const WallTime before_west = this->now();
  const auto all = silent(this->heartbeat({.region = "west"}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_LE(all.at("west"), this->now() - before_west);
  if constexpr (TypeParam::kTimeIsReal) {
    EXPECT_GE(all.at("east"), all.at("west"));
    EXPECT_LE(all.at("east"), this->now() - before_east);
  } else {
    EXPECT_EQ(all.at("east"), Millis(7000));
  }
}

TYPED_TEST_P(LedgerContract, KeepsTheRulesOfTheFirstHeartbeat) {
  const SyncRules first{.policy = PublishPolicy::kFloor,
                        .unpublished_permille = 1,
                        .slack_permille = 2,
                        .lease = Millis(30'000),
                        .publish_every = Millis(4),
                        .import_every = Millis(5),
                        .rows_per_second = 6,
                        .floor_permille = 7};
  EXPECT_EQ(this->heartbeat({.region = "east"}, first).rules, first);
  EXPECT_EQ(this->heartbeat({.region = "west"}, {}).rules, first);
}

REGISTER_TYPED_TEST_SUITE_P(
    LedgerContract, IsEmptyAtFirst, ReturnsRowsUnchanged,
    KeepsTheLargestCountAndLeaseAndTheSmallestLimit, MergesDuplicateRowsInOneBatch,
    SeparatesTuplesAndWindows, SeparatesRegions, StoresEveryNameByteForByte,
    StoresTheLargestNumbers, ReturnsEachRowOncePageByPage, EndsAfterAFullLastPage,
    RejectsAnUnknownPosition, HidesAndDeletesExpiredRows,
    KeepsARowUntilTheWindowAfterItsLeaseHasEnded, AllowsOneCleaningProcessAtATime,
    DeletesAtMostTheRequestedNumber, OmitsAndCountsInvalidRows, RejectsABatchWithAnUnstorableRow,
    ListsRegionsThatSentAHeartbeat, KeepsTheLargestRecentUnpublishedShareOfARegion,
    KeepsTheLargestRecentUnpublishedShareOfANamespace, ReportsTheTimeSinceTheLastHeartbeatOfARegion,
    KeepsTheRulesOfTheFirstHeartbeat);

}  // namespace weir::contracts
