// The fixture of the ledger contract.
//
// A maker is constructed with its `Clock`, which is the clock of the store unless kTimeIsReal. It
// provides make(); make_another(), the same store for another process; settle(), which waits for
// pending replies; and age(), which makes all batches older.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "ledgers/rows.h"
#include "tests/doubles/manual_clock.h"
#include "weir/ledger.h"

namespace weir::contracts {

// All rows of a region, read page by page.
struct Contents {
  std::vector<LedgerRow> rows;
  uint64_t invalid = 0;
  size_t pages = 0;
};

// A count of alice in this minute.
[[nodiscard]] inline LedgerRow row_of(Count count, WallTime now) {
  return {
      .key = {.workspace = {}, .ns = "login", .identifier = "alice", .duration = Millis(60'000)},
      .sequence = now.time_since_epoch() / Millis(60'000),
      .region = "east",
      .count = count,
      .limit_seen = 10};
}

template <typename Maker>
class LedgerContract : public ::testing::Test {
 protected:
  static constexpr Millis kMinute{60'000};

  WallTime now() const { return clock_.now().wall; }
  int64_t current(Millis duration = kMinute) const { return now().time_since_epoch() / duration; }

  LedgerKey key(std::string identifier = "alice", Millis duration = kMinute) const {
    return {.workspace = "acme",
            .ns = "login",
            .identifier = std::move(identifier),
            .duration = duration};
  }
  LedgerRow row(Count count, std::string identifier = "alice", std::string region = "east") const {
    return {.key = key(std::move(identifier)),
            .sequence = sequence_,
            .region = std::move(region),
            .count = count,
            .limit_seen = 100};
  }

  // Each with another impossible value.
  std::vector<LedgerRow> invalid_rows() const {
    std::vector<LedgerRow> rows(8, row(1));
    rows[0].count = ledgers::kMaxCount + 1;
    rows[1].key.duration = Millis(99);
    rows[1].sequence = current(Millis(99)) + 1000;
    rows[2].key.duration = kMaxDuration + Millis(1);
    rows[3].key.identifier = "";
    rows[4].key.ns = "";
    rows[5].limit_seen = 0;
    rows[5].key.identifier = "no limit";
    rows[6].limit_seen = kMaxLimit + 1;
    rows[6].key.identifier = "endless limit";
    rows[7].leased_until = WallTime(Millis(std::numeric_limits<int64_t>::max()));
    rows[7].key.identifier = "endless lease";
    return rows;
  }

  template <typename Answer, typename Ask>
  Result<Answer> answer(const Ask& ask) {
    struct Received {
      std::mutex mutex;
      std::optional<Result<Answer>> answer;
    };
    const auto received = std::make_shared<Received>();
    ask([received](Result<Answer> given) {
      const std::lock_guard lock(received->mutex);
      received->answer = std::move(given);
    });
    for (;;) {
      {
        const std::lock_guard lock(received->mutex);
        if (received->answer) return std::move(*received->answer);
      }
      maker_.settle();
    }
  }

  Result<FeedPosition> try_publish(FeedPosition known, std::vector<LedgerRow> rows,
                                   const std::string& region = "east") {
    return answer<FeedPosition>(
        [&](PublishReply reply) { ledger_->publish(region, known, rows, std::move(reply)); });
  }
  // Publishes after what this test knows of the feed.
  FeedPosition publish(std::vector<LedgerRow> rows, const std::string& region = "east") {
    return known_[region] = valid(try_publish(known_[region], std::move(rows), region));
  }
  FeedChanges feeds(std::vector<RegionFeed> after) {
    return valid(answer<FeedChanges>(
        [&](FeedReply reply) { ledger_->read_feeds(after, std::move(reply)); }));
  }
  std::map<std::string, FeedPosition> heads() {
    std::map<std::string, FeedPosition> heads;
    for (const RegionFeed& head : feeds({}).heads) heads[head.region] = head.at;
    return heads;
  }
  // The batches of a feed after `at`, in as many replies as it takes.
  std::vector<FeedBatch> batches_after(FeedPosition at, const std::string& region = "east") {
    std::vector<FeedBatch> all;
    for (bool more = true; more;) {
      FeedChanges changes = feeds({{.region = region, .at = at}});
      more = changes.more;
      for (FeedBatch& batch : changes.batches) {
        EXPECT_EQ(batch.region, region);
        EXPECT_GT(batch.at, at);
        at = batch.at;
        all.push_back(std::move(batch));
      }
      if (changes.more && changes.batches.empty()) {
        ADD_FAILURE() << "no progress";
        break;
      }
    }
    return all;
  }
  Result<LedgerPage> page(LedgerPosition position, const std::string& region = "east") {
    return answer<LedgerPage>(
        [&](PageReply reply) { ledger_->read_page(region, position, std::move(reply)); });
  }
  Contents contents(const std::string& region = "east") {
    Contents all;
    LedgerPosition position;
    for (bool last = false; !last;) {
      const LedgerPage read = valid(page(position, region));
      all.rows.insert(all.rows.end(), read.rows.begin(), read.rows.end());
      all.invalid += read.invalid;
      ++all.pages;
      position = read.next;
      last = read.last;
    }
    return all;
  }
  LedgerFleet heartbeat(LedgerRegion self, SyncRules rules = {}) {
    return valid(answer<LedgerFleet>(
        [&](FleetReply reply) { ledger_->heartbeat(self, rules, std::move(reply)); }));
  }
  LedgerCleaning clean(GlobalLedger& ledger, size_t most = 1000) {
    return valid(
        answer<LedgerCleaning>([&](CleaningReply reply) { ledger.clean(most, std::move(reply)); }));
  }

  template <typename Answer>
  static Answer valid(const Result<Answer>& result) {
    if (!result) {
      ADD_FAILURE() << result.error().detail << "; " << result.error().fix;
      return {};
    }
    return *result;
  }

  typename Maker::Clock clock_;
  Maker maker_{clock_};
  std::shared_ptr<GlobalLedger> ledger_ = maker_.make();
  std::map<std::string, FeedPosition> known_;  // by publish()
  // Fixed, so that a test keeps its cell when a window ends meanwhile.
  const WallTime start_ = clock_.now().wall;
  const int64_t sequence_ = start_.time_since_epoch() / kMinute;
};

}  // namespace weir::contracts
