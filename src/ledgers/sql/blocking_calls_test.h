// Blocking calls of a GlobalLedger.

#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "weir/ledger.h"

namespace weir::ledgers {

template <typename Answer, typename Call>
Result<Answer> wait_for(const Call& call) {
  struct Received {
    std::mutex mutex;
    std::condition_variable replied;
    std::optional<Result<Answer>> answer;
  };
  const auto received = std::make_shared<Received>();
  call([received](Result<Answer> answer) {
    const std::lock_guard lock(received->mutex);
    received->answer = std::move(answer);
    received->replied.notify_one();
  });
  std::unique_lock lock(received->mutex);
  received->replied.wait(lock, [&] { return received->answer.has_value(); });
  return std::move(*received->answer);
}

inline Result<FeedPosition> publish(GlobalLedger& ledger, std::vector<LedgerRow> rows,
                                    FeedPosition known = {}) {
  return wait_for<FeedPosition>([&](PublishReply reply) {
    ledger.publish("east", known, std::move(rows), std::move(reply));
  });
}
inline Result<FeedChanges> read_feeds(GlobalLedger& ledger, std::vector<RegionFeed> after = {}) {
  return wait_for<FeedChanges>(
      [&](FeedReply reply) { ledger.read_feeds(std::move(after), std::move(reply)); });
}
inline Result<LedgerPage> read_page(GlobalLedger& ledger, LedgerPosition position = {}) {
  return wait_for<LedgerPage>(
      [&](PageReply reply) { ledger.read_page("east", std::move(position), std::move(reply)); });
}

// A row of the minute of `now`.
inline LedgerRow row_of(WallTime now, Count count, std::string identifier = "alice",
                        std::string region = "east") {
  return {.key = {.workspace = "acme",
                  .ns = "login",
                  .identifier = std::move(identifier),
                  .duration = Millis(60'000)},
          .sequence = now.time_since_epoch() / Millis(60'000),
          .region = std::move(region),
          .count = count,
          .limit_seen = 10};
}

}  // namespace weir::ledgers
