// The contract of GlobalLedger on feeds. A faulty twin cannot pass: a repeated publish is another
// batch.

#pragma once

#include "tests/contracts/ledger_contract_fixture.h"

namespace weir::contracts {

using ::testing::ElementsAre;

template <typename Maker>
class FeedContract : public LedgerContract<Maker> {};

TYPED_TEST_SUITE_P(FeedContract);

TYPED_TEST_P(FeedContract, NumbersTheBatchesOfAFeedWithoutGaps) {
  const FeedPosition first = this->publish({this->row(1)});
  EXPECT_NE(first.epoch, 0u);
  EXPECT_EQ(first.number, 1u);
  for (uint64_t number = 2; number <= 5; ++number) {
    const FeedPosition next{.epoch = first.epoch, .number = number};
    EXPECT_EQ(this->publish({this->row(number)}), next);
    EXPECT_EQ(this->heads(), (std::map<std::string, FeedPosition>{{"east", next}}));
  }
}

TYPED_TEST_P(FeedContract, ReturnsTheBatchesAfterAPosition) {
  FeedPosition at = this->publish({this->row(1)});
  EXPECT_TRUE(this->batches_after(at).empty());
  LedgerRow leased = this->row(2, "bob");
  leased.leased_until = WallTime((leased.sequence + 5) * this->kMinute);
  const std::vector<LedgerRow> second{leased, this->row(1, "alice")};
  const std::vector<LedgerRow> third{this->row(3, "carol")};
  this->publish(second);
  this->publish(third);
  auto batches = this->batches_after(at);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].at, (FeedPosition{.epoch = at.epoch, .number = 2}));
  EXPECT_EQ(batches[0].rows, second);
  EXPECT_EQ(batches[1].at, (FeedPosition{.epoch = at.epoch, .number = 3}));
  EXPECT_EQ(batches[1].rows, third);
  at.number = 0;
  EXPECT_EQ(this->batches_after(at).size(), 3u);
  at.number = 99;
  EXPECT_TRUE(this->batches_after(at).empty());
}

TYPED_TEST_P(FeedContract, AppendsABatchThatChangesNoRow) {
  const FeedPosition at = this->publish({this->row(7)});
  this->publish({this->row(6)});
  this->publish({});
  const auto batches = this->batches_after(at);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(batches[0].rows, ElementsAre(this->row(6)));
  EXPECT_TRUE(batches[1].rows.empty());
  EXPECT_THAT(this->contents().rows, ElementsAre(this->row(7)));
}

TYPED_TEST_P(FeedContract, ReadsSeveralFeedsAtOnce) {
  std::map<std::string, FeedPosition> first;
  for (const char* const region : {"east", "north", "west"}) {
    first[region] = this->publish({this->row(1, "alice", region)}, region);
    this->publish({this->row(2, "alice", region)}, region);
  }
  const FeedChanges changes = this->feeds({{"west", first["west"]}, {"east", first["east"]}});
  EXPECT_EQ(changes.heads.size(), 3u);
  std::map<std::string, FeedPosition> read;
  for (const FeedBatch& batch : changes.batches) {
    read[batch.region] = batch.at;
    EXPECT_THAT(batch.rows, ElementsAre(this->row(2, "alice", batch.region)));
  }
  EXPECT_EQ(read, (std::map<std::string, FeedPosition>{{"east", this->known_["east"]},
                                                       {"west", this->known_["west"]}}));
}

TYPED_TEST_P(FeedContract, ReturnsNoBatchesOfAnotherEpoch) {
  const FeedPosition at = this->publish({this->row(1)});
  EXPECT_TRUE(this->batches_after({.epoch = at.epoch - 1}).empty());
  EXPECT_TRUE(this->batches_after({.epoch = at.epoch + 1}).empty());
  EXPECT_TRUE(this->batches_after({}).empty());
  EXPECT_TRUE(this->batches_after({.epoch = at.epoch}, "nowhere").empty());
}

TYPED_TEST_P(FeedContract, ContinuesAFeedThatIsAheadOfTheCaller) {
  const FeedPosition first = this->publish({this->row(1)});
  this->publish({this->row(2)});
  const auto third = this->try_publish(first, {this->row(3)});
  EXPECT_EQ(this->template valid<FeedPosition>(third),
            (FeedPosition{.epoch = first.epoch, .number = 3}));
  const auto fourth = this->try_publish({.epoch = 1, .number = 77}, {this->row(4)});
  EXPECT_EQ(this->template valid<FeedPosition>(fourth),
            (FeedPosition{.epoch = first.epoch, .number = 4}));
}

TYPED_TEST_P(FeedContract, BeginsAnEpochIfTheCallerKnowsNoPosition) {
  const FeedPosition first = this->publish({this->row(1)});
  const FeedPosition second =
      this->template valid<FeedPosition>(this->try_publish({}, {this->row(2)}));
  EXPECT_GT(second.epoch, first.epoch);
  EXPECT_EQ(second.number, 1u);
  EXPECT_EQ(this->heads()["east"], second);
  EXPECT_TRUE(this->batches_after(first).empty());
  EXPECT_EQ(this->batches_after({.epoch = second.epoch}).size(), 1u);
  EXPECT_THAT(this->contents().rows, ElementsAre(this->row(2)));
}

TYPED_TEST_P(FeedContract, BeginsAnEpochIfTheFeedEndsBeforeTheKnownPosition) {
  const FeedPosition first = this->publish({this->row(1)});
  const FeedPosition lost{.epoch = first.epoch, .number = 2};
  const FeedPosition second =
      this->template valid<FeedPosition>(this->try_publish(lost, {this->row(2)}));
  EXPECT_GT(second.epoch, first.epoch);
  EXPECT_EQ(second.number, 1u);
  // An epoch that the ledger never had, and that is later than its clock.
  const FeedPosition later{.epoch = second.epoch + (uint64_t{1} << 40), .number = 5};
  const FeedPosition third =
      this->template valid<FeedPosition>(this->try_publish(later, {this->row(3)}));
  EXPECT_GT(third.epoch, later.epoch);
  EXPECT_EQ(third.number, 1u);
  EXPECT_EQ(this->publish({this->row(4)}), (FeedPosition{.epoch = third.epoch, .number = 2}));
}

TYPED_TEST_P(FeedContract, TakesAnImpossiblePositionAsUnknown) {
  const FeedPosition first = this->publish({this->row(1)});
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  FeedPosition last = first;
  for (const FeedPosition bad : {FeedPosition{.epoch = kMax, .number = 1},
                                 FeedPosition{.epoch = first.epoch, .number = kMax}}) {
    const FeedPosition next =
        this->template valid<FeedPosition>(this->try_publish(bad, {this->row(2)}));
    EXPECT_GT(next.epoch, last.epoch);
    EXPECT_EQ(next.number, 1u);
    last = next;
  }
}

TYPED_TEST_P(FeedContract, ListsTheHeadOfARegionThatNeverPublished) {
  this->heartbeat({.region = "west"});
  EXPECT_EQ(this->heads(), (std::map<std::string, FeedPosition>{{"west", {}}}));
  const FeedPosition at = this->publish({this->row(1, "alice", "west")}, "west");
  this->heartbeat({.region = "west"});
  EXPECT_EQ(this->heads(), (std::map<std::string, FeedPosition>{{"west", at}}));
}

TYPED_TEST_P(FeedContract, ReturnsThePagesOfARegionWithItsHead) {
  const auto head_of = [&](LedgerPosition position = {}) {
    return this->template valid<LedgerPage>(this->page(position)).head;
  };
  EXPECT_EQ(head_of(), FeedPosition{});
  this->publish({this->row(1, "alice", "west")}, "west");
  this->heartbeat({.region = "east"});
  EXPECT_EQ(head_of(), FeedPosition{});
  std::vector<LedgerRow> rows;
  for (size_t i = 0; i <= ledgers::kRowsPerPage; ++i) {
    rows.push_back(this->row(1, std::to_string(i)));
  }
  const FeedPosition first = this->publish(rows);
  const LedgerPage page = this->template valid<LedgerPage>(this->page({}));
  EXPECT_EQ(page.head, first);
  EXPECT_FALSE(page.last);
  const FeedPosition second = this->publish({});
  // Each page has the head of its own moment.
  EXPECT_EQ(head_of(page.next), second);
  EXPECT_EQ(head_of(), second);
  const FeedPosition third =
      this->template valid<FeedPosition>(this->try_publish({}, {this->row(1)}));
  EXPECT_EQ(head_of(), third);
}

TYPED_TEST_P(FeedContract, SplitsBatchesThatExceedOneReply) {
  constexpr size_t kRows = 1000;
  constexpr size_t kBatches = ledgers::kMaxFeedRows / kRows + 12;
  for (const char* const region : {"east", "west"}) {
    for (size_t batch = 0; batch < kBatches; ++batch) {
      std::vector<LedgerRow> rows;
      for (size_t i = 0; i < kRows; ++i) {
        rows.push_back(this->row(batch + 1, std::to_string(i), region));
      }
      this->publish(std::move(rows), region);
    }
  }
  std::map<std::string, FeedPosition> at{{"east", {.epoch = this->known_["east"].epoch}},
                                         {"west", {.epoch = this->known_["west"].epoch}}};
  size_t replies = 0;
  for (bool more = true; more; ++replies) {
    const FeedChanges changes = this->feeds({{"east", at["east"]}, {"west", at["west"]}});
    more = changes.more;
    size_t rows = 0;
    for (const FeedBatch& batch : changes.batches) {
      EXPECT_EQ(batch.at.number, at[batch.region].number + 1);
      at[batch.region] = batch.at;
      rows += batch.rows.size();
    }
    ASSERT_GT(rows, 0u);
    EXPECT_LE(rows, ledgers::kMaxFeedRows + kRows);
  }
  EXPECT_GE(replies, 3u);
  EXPECT_EQ(at, this->known_);
}

TYPED_TEST_P(FeedContract, DeletesOldBatches) {
  const FeedPosition first = this->publish({this->row(1)});
  this->publish({this->row(2)});
  this->maker_.age(kFeedKept + Millis(1));
  const FeedPosition third = this->publish({this->row(3)});
  EXPECT_EQ(this->batches_after({.epoch = first.epoch}).size(), 3u);
  this->clean(*this->ledger_);
  const auto batches = this->batches_after({.epoch = first.epoch});
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].at, third);
  this->maker_.age(kFeedKept + Millis(1));
  this->clean(*this->ledger_);
  EXPECT_TRUE(this->batches_after({.epoch = first.epoch}).empty());
  // The feed goes on.
  EXPECT_EQ(this->heads()["east"], third);
  EXPECT_EQ(this->publish({this->row(4)}), (FeedPosition{.epoch = first.epoch, .number = 4}));
}

TYPED_TEST_P(FeedContract, OmitsAndCountsInvalidRows) {
  const std::vector<LedgerRow> rows = this->invalid_rows();
  const FeedPosition at = this->publish(rows);
  this->publish({this->row(5, "valid")});
  const FeedChanges changes = this->feeds({{"east", {.epoch = at.epoch}}});
  ASSERT_EQ(changes.batches.size(), 2u);
  EXPECT_TRUE(changes.batches[0].rows.empty());
  EXPECT_THAT(changes.batches[1].rows, ElementsAre(this->row(5, "valid")));
  EXPECT_EQ(changes.invalid, rows.size());
}

REGISTER_TYPED_TEST_SUITE_P(
    FeedContract, NumbersTheBatchesOfAFeedWithoutGaps, ReturnsTheBatchesAfterAPosition,
    AppendsABatchThatChangesNoRow, ReadsSeveralFeedsAtOnce, ReturnsNoBatchesOfAnotherEpoch,
    ContinuesAFeedThatIsAheadOfTheCaller, BeginsAnEpochIfTheCallerKnowsNoPosition,
    BeginsAnEpochIfTheFeedEndsBeforeTheKnownPosition, TakesAnImpossiblePositionAsUnknown,
    ListsTheHeadOfARegionThatNeverPublished, ReturnsThePagesOfARegionWithItsHead,
    SplitsBatchesThatExceedOneReply, DeletesOldBatches, OmitsAndCountsInvalidRows);

}  // namespace weir::contracts
