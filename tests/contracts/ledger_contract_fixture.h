// The fixture of the ledger contract.
//
// A maker is constructed with its `Clock`, which is the clock of the store unless kTimeIsReal. It
// provides make(); make_another(), the same store for another process; settle(), which waits for
// pending replies; and age(), which makes all changes older.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "ledgers/rows.h"
#include "tests/doubles/hand_clock.h"
#include "weir/ledger.h"

namespace weir::contracts {

// All rows and presences, read page by page.
struct Contents {
  std::vector<LedgerRow> rows;
  std::vector<LedgerPresence> presences;
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
  static constexpr Millis kBeyondLookBack{6'000};

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
  LedgerPresence presence(Millis from_now, std::string region = "east") const {
    return {.key = key(), .region = std::move(region), .until = start_ + from_now};
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

  Result<size_t> try_publish(LedgerNews batch) {
    return answer<size_t>([&](PublishReply reply) { ledger_->publish(batch, std::move(reply)); });
  }
  size_t publish(std::vector<LedgerRow> rows, std::vector<LedgerPresence> presences = {}) {
    return valid(try_publish({.rows = std::move(rows), .presences = std::move(presences)}));
  }
  LedgerChanges changes(LedgerCursor cursor) {
    return valid(answer<LedgerChanges>(
        [&](ChangesReply reply) { ledger_->changes_since(cursor, std::move(reply)); }));
  }
  LedgerCursor cursor() { return changes({}).next; }
  Result<LedgerPage> page(LedgerPosition position) {
    return answer<LedgerPage>(
        [&](PageReply reply) { ledger_->read_page(position, std::move(reply)); });
  }
  Contents contents() {
    Contents all;
    LedgerPosition position;
    for (bool last = false; !last;) {
      const LedgerPage read = valid(page(position));
      all.rows.insert(all.rows.end(), read.news.rows.begin(), read.news.rows.end());
      all.presences.insert(all.presences.end(), read.news.presences.begin(),
                           read.news.presences.end());
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

  // Publishes more items than one answer holds. add(batch, row) adds an item with the key of `row`
  // to `list`.
  template <typename Add, typename Item>
  void expect_split_answers(const Add& add, std::vector<Item> LedgerNews::*list) {
    constexpr size_t kMore = 2000;
    const LedgerCursor begin = cursor();
    const auto publish_some = [&](size_t first, size_t end) {
      for (size_t at = first; at < end; at += 1000) {
        LedgerNews batch;
        for (size_t i = at; i < at + 1000; ++i) add(batch, row(1, std::to_string(i)));
        // A slow store may time out once; callers retry.
        auto published = try_publish(batch);
        if (!published && published.error().retry == Retry::kMayHelp) {
          published = try_publish(batch);
        }
        valid(published);
        if constexpr (!Maker::kTimeIsReal) maker_.age(Millis(1));
      }
    };
    publish_some(0, ledgers::kMaxChanges);
    EXPECT_FALSE(changes(begin).rest);
    EXPECT_EQ((changes(begin).news.*list).size(), ledgers::kMaxChanges);

    publish_some(ledgers::kMaxChanges, ledgers::kMaxChanges + kMore);
    const LedgerChanges first = changes(begin);
    EXPECT_EQ((first.news.*list).size(), ledgers::kMaxChanges);
    EXPECT_FALSE(first.cut);
    ASSERT_TRUE(first.rest);
    const LedgerChanges rest = changes(*first.rest);
    EXPECT_FALSE(rest.rest);
    EXPECT_LE((rest.news.*list).size(), 2 * kMore);
    std::set<std::string> received;
    for (const LedgerChanges* part : {&first, &rest}) {
      for (const Item& item : part->news.*list) received.insert(item.key.identifier);
    }
    EXPECT_EQ(received.size(), ledgers::kMaxChanges + kMore);
  }

  template <typename Answer>
  static Answer valid(const Result<Answer>& result) {
    if (!result) {
      ADD_FAILURE() << result.error().detail << "; " << result.error().fix;
      return {};
    }
    return *result;
  }
  static auto identity(const LedgerRow& row) {
    return std::tuple(row.key, row.sequence, row.region, row.count, row.limit_seen);
  }

  typename Maker::Clock clock_;
  Maker maker_{clock_};
  std::shared_ptr<GlobalLedger> ledger_ = maker_.make();
  // Fixed, so that a test keeps its cell when a window ends meanwhile.
  const WallTime start_ = clock_.now().wall;
  const int64_t sequence_ = start_.time_since_epoch() / kMinute;
};

}  // namespace weir::contracts
