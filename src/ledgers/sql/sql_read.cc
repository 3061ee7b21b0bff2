// Reading feeds and pages. Columns are in the order of the SELECT statements in sql_texts.cc.

#include <algorithm>
#include <map>
#include <tuple>

#include "ledgers/sql/feed_codec.h"
#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {
namespace {

// None for a row that no region can have written.
std::optional<LedgerRow> cell_at(const SqlRow& row) {
  const auto duration = row.number(4);
  const auto sequence = row.number(6);
  const auto count = row.number(7);
  const auto limit = row.number(8);
  const auto lease = row.number(9);
  const auto end = row.number(10);
  if (!duration || !sequence || !count || *count < 0 || !limit || *limit < 0 || !lease || !end) {
    return std::nullopt;
  }
  LedgerRow cell{.key = {.workspace = std::string(row.bytes(1)),
                         .ns = std::string(row.bytes(2)),
                         .identifier = std::string(row.bytes(3)),
                         .duration = Millis(*duration)},
                 .sequence = *sequence,
                 .region = std::string(row.bytes(5)),
                 .count = static_cast<Count>(*count),
                 .limit_seen = static_cast<Count>(*limit),
                 .leased_until = WallTime(Millis(*lease))};
  if (!is_valid(cell) || cell.kept_until() != WallTime(Millis(*end))) return std::nullopt;
  return cell;
}

// A batch as stored, and how many batches of its feed precede it in the reply.
struct StoredBatch {
  FeedPosition at;
  std::string region;
  std::string body;
  size_t rank = 0;
};

std::optional<FeedPosition> position_at(const SqlRow& row, size_t epoch_column,
                                        size_t number_column) {
  const auto epoch = row.number(epoch_column);
  const auto number = row.number(number_column);
  if (!epoch || *epoch < 0 || !number || *number < 0) return std::nullopt;
  return FeedPosition{.epoch = static_cast<uint64_t>(*epoch),
                      .number = static_cast<uint64_t>(*number)};
}

// The order of a UNION is undefined. The first batches of all feeds come first, so that a reply
// that must end early has some of each feed.
void sort(std::vector<StoredBatch>& batches) {
  std::sort(batches.begin(), batches.end(),
            [](const StoredBatch& a, const StoredBatch& b) { return a.at < b.at; });
  std::map<std::string_view, size_t> ranks;
  for (StoredBatch& batch : batches) batch.rank = ranks[batch.region]++;
  std::sort(batches.begin(), batches.end(), [](const StoredBatch& a, const StoredBatch& b) {
    return std::tie(a.rank, a.region) < std::tie(b.rank, b.region);
  });
}

// Appends the decoded batches. Returns how many were read until the reply was full.
size_t decode(const std::vector<StoredBatch>& batches, FeedChanges& changes) {
  size_t read = 0;
  size_t rows = 0;
  for (const StoredBatch& stored : batches) {
    if (rows >= kMaxFeedRows) break;
    ++read;
    auto batch = decode_batch(stored.region, stored.body);
    if (!batch) {
      ++changes.invalid;
      continue;
    }
    rows += batch->rows.size() + batch->invalid;
    changes.invalid += batch->invalid;
    changes.batches.push_back(
        {.region = stored.region, .at = stored.at, .rows = std::move(batch->rows)});
  }
  return read;
}

}  // namespace

// One statement, so that all is of one moment.
Result<FeedChanges> SqlStore::read_feeds(const std::vector<RegionFeed>& after) {
  FeedChanges changes;
  std::string text = texts_.heads;
  SqlStatement statement;
  const size_t most = std::max<size_t>(max_batches_ / std::max<size_t>(after.size(), 1), 1);
  for (const RegionFeed& feed : after) {
    const FeedPosition at = known_position(feed.at);
    if (at.epoch == 0) continue;
    text += texts_.batches_branch;
    statement.values.emplace_back(std::string_view(feed.region));
    statement.values.emplace_back(static_cast<int64_t>(at.epoch));
    statement.values.emplace_back(static_cast<int64_t>(at.number));
    statement.values.emplace_back(static_cast<int64_t>(most));
  }
  statement.sql = text;

  std::vector<StoredBatch> batches;
  const auto failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
    const auto at = position_at(row, 2, 3);
    if (!at) {
      ++changes.invalid;
    } else if (row.number(0) == 0) {
      changes.heads.push_back({.region = std::string(row.bytes(1)), .at = *at});
    } else {
      batches.push_back(
          {.at = *at, .region = std::string(row.bytes(1)), .body = std::string(row.bytes(4))});
    }
  });
  if (failure) {
    // The same request would time out again: ask for less.
    if (failure->kind == LedgerError::kTimeout)
      max_batches_ = std::max<size_t>(max_batches_ / 2, 1);
    return to_error(*failure);
  }
  std::map<std::string_view, uint64_t> epochs;
  for (const RegionFeed& head : changes.heads) epochs[head.region] = head.at.epoch;
  std::erase_if(batches, [&](const StoredBatch& batch) {
    const auto head = epochs.find(batch.region);
    return head == epochs.end() || head->second != batch.at.epoch;
  });
  sort(batches);
  const size_t read = decode(batches, changes);
  const bool full = read < batches.size();
  const bool limited = std::any_of(batches.begin(), batches.end(), [&](const StoredBatch& batch) {
    return batch.rank + 1 == most;
  });
  // A caller that got no batch would ask for the same again.
  changes.more = (full || limited) && !changes.batches.empty();
  max_batches_ = full ? read : std::min(2 * max_batches_, kMaxBatches);
  return changes;
}

// One statement, so that the head is of the same moment.
Result<LedgerPage> SqlStore::read_page(const std::string& region, const LedgerPosition& position) {
  const auto from = ledgers::decode(position);
  if (!from) {
    last_error_kind_ = LedgerError::kOther;
    return bad_position();
  }
  LedgerPage page;
  // -1 is before the first sequence.
  const int64_t sequence = position.after.empty() ? -1 : from->sequence;
  const std::string_view key = from->key;
  const std::string_view name = region;
  const SqlStatement statement{.sql = texts_.page_of_cells,
                               .values = {name, name, key, key, sequence}};
  size_t read = 0;
  PageCursor last;  // the largest, because the order of a UNION is undefined
  const auto failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
    if (row.number(0) == 0) {
      const auto head = position_at(row, 4, 6);
      if (!head) return void(++page.invalid);
      page.head = *head;
      return;
    }
    ++read;
    const std::pair at(row.bytes(11), row.number(6).value_or(0));
    if (at > std::pair(std::string_view(last.key), last.sequence)) {
      last = {.key = std::string(at.first), .sequence = at.second};
    }
    if (auto cell = cell_at(row)) {
      page.rows.push_back(std::move(*cell));
    } else {
      ++page.invalid;
    }
  });
  if (failure) return to_error(*failure);
  page.last = read < kRowsPerPage;
  if (!page.last) page.next = encode(last);
  return page;
}

}  // namespace weir::ledgers
