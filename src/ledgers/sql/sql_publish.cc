// Publishing: one transaction per batch, in one message unless it is large.

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/split_mix.h"
#include "ledgers/sql/feed_codec.h"
#include "ledgers/sql/sql_publication.h"

namespace weir::ledgers {
namespace {

// Servers accept 16 MB in one message by default; some are configured for less.
constexpr size_t kMaxMessageBytes = 1 << 20;
// For so long after it met a locked row, a publish does not wait for locks.
constexpr Nanos kNoWaitPeriod = std::chrono::seconds(5);

}  // namespace

Result<FeedPosition> SqlStore::publish(const std::string& region, FeedPosition known,
                                       const std::vector<LedgerRow>& rows) {
  if (const auto error = find_unstorable(region, rows)) {
    last_error_kind_ = LedgerError::kBadRows;
    return *error;
  }
  const Publication publication = make_publication(region, known_position(known), rows);
  FeedPosition at;
  if (const Failure failure = retry_deadlocks([&] { return commit(publication, at); })) {
    Error error = to_error(*failure);
    if (failure->kind == LedgerError::kLocked) {
      if (publication.is_of_cells(*failure)) {
        locked_at_ = clock_.now().mono;
      } else {
        error.field.clear();  // the row of the region: fewer cells would not help
      }
    }
    return error;
  }
  return at;
}

SqlStore::Failure SqlStore::commit(const Publication& publication, FeedPosition& at) {
  if (Failure failure = ensure_tables()) return failure;
  std::vector<SqlStatement> message;
  if (!texts_.set_now.empty()) message.push_back({.sql = texts_.set_now});
  message.push_back({.sql = texts_.begin});
  Failure failure;
  auto connection = SqlLink::Connection::kAny;
  size_t bytes = 0;
  const auto send = [&](const SqlLink::EachRow& each) {
    failure = link_->run(std::exchange(message, {}), each,
                         std::exchange(connection, SqlLink::Connection::kSame));
    bytes = 0;
  };
  for (size_t i = 0; i < publication.cells.size() && !failure; ++i) {
    if (bytes + publication.cell_bytes[i] > kMaxMessageBytes && bytes > 0) send({});
    message.push_back(publication.cells[i]);
    bytes += publication.cell_bytes[i];
  }
  if (!failure && bytes + 2 * publication.body.size() > kMaxMessageBytes && bytes > 0) send({});
  if (failure) {
    failure->statement = 0;
  } else {
    // The lock on the head begins here, and ends in the same message.
    const size_t first = message.size();
    message.insert(message.end(), publication.batch.begin(), publication.batch.end());
    message.push_back({.sql = "COMMIT"});
    std::optional<FeedPosition> head;
    send([&](size_t, const SqlRow& row) {
      const auto epoch = row.number(0);
      const auto number = row.number(1);
      if (epoch && number) {
        head = {.epoch = static_cast<uint64_t>(*epoch), .number = static_cast<uint64_t>(*number)};
      }
    });
    if (failure) {
      failure->statement =
          failure->statement < first ? 0 : publication.cells.size() + failure->statement - first;
    }
    if (!failure && !head) {
      return SqlFailure{.kind = LedgerError::kOther, .detail = "the ledger lost the region"};
    }
    if (!failure) at = *head;
  }
  if (failure) {
    // Fails if the connection was lost; then the server has rolled back.
    const SqlStatement rollback{.sql = "ROLLBACK"};
    (void)link_->run({&rollback, 1}, {}, SqlLink::Connection::kSame);
  }
  return failure;
}

SqlStore::Publication SqlStore::make_publication(const std::string& region, FeedPosition known,
                                                 const std::vector<LedgerRow>& rows) {
  Publication publication;
  add_cells(rows, publication);
  publication.body = encode_batch(rows);
  const std::string_view name = region;
  const auto random_bits = static_cast<int64_t>(base::split_mix(random_) & kEpochRandomMask);
  const auto epoch = static_cast<int64_t>(known.epoch);
  const auto number = static_cast<int64_t>(known.number);
  publication.batch = {
      {.sql = texts_.raise_head,
       .values = {name, random_bits, epoch + 1, epoch, epoch, epoch, number}},
      {.sql = texts_.insert_batch, .values = {std::string_view(publication.body), name}},
      {.sql = texts_.head, .values = {name}}};
  return publication;
}

void SqlStore::add_cells(const std::vector<LedgerRow>& rows, Publication& publication) const {
  std::vector<Publication::Cell>& cells = publication.sorted;
  cells.reserve(rows.size());
  for (const LedgerRow& row : rows) cells.push_back({hash_(row.key), &row});
  std::sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) {
    return std::tie(a.hash, a.row->sequence) < std::tie(b.hash, b.row->sequence);
  });

  const size_t statements = (cells.size() + texts_.rows_per_insert - 1) / texts_.rows_per_insert;
  publication.texts.reserve(statements);
  // After a batch met a locked row, the caller sends smaller batches to find it. These must not
  // wait for the lock each time.
  const bool skips_waiting =
      locked_at_ != MonoTime{} && clock_.now().mono - locked_at_ < kNoWaitPeriod;
  const std::string head = (skips_waiting ? no_wait() : "") + texts_.cells_head;
  const auto millis = [](WallTime time) { return int64_t{time.time_since_epoch().count()}; };
  for (size_t first = 0; first < cells.size(); first += texts_.rows_per_insert) {
    const size_t end = std::min(first + texts_.rows_per_insert, cells.size());
    SqlStatement statement;
    std::string text = head;
    text.reserve(head.size() + (end - first) * (texts_.cells_group.size() + 1) +
                 texts_.cells_tail.size());
    size_t bytes = 0;
    for (size_t i = first; i < end; ++i) {
      if (i > first) text += ',';
      text += texts_.cells_group;
      const LedgerRow& row = *cells[i].row;
      const LedgerKey& key = row.key;
      for (const SqlValue& value : std::initializer_list<SqlValue>{
               std::string_view(row.region), std::string_view(cells[i].hash), row.sequence,
               static_cast<int64_t>(row.count), static_cast<int64_t>(row.limit_seen),
               millis(row.leased_until), millis(row.kept_until()), std::string_view(key.workspace),
               std::string_view(key.ns), std::string_view(key.identifier),
               int64_t{key.duration.count()}}) {
        statement.values.push_back(value);
      }
      bytes += 300 + 2 * (key.workspace.size() + key.ns.size() + key.identifier.size());
    }
    text += texts_.cells_tail;
    publication.texts.push_back(std::move(text));
    statement.sql = publication.texts.back();
    publication.cells.push_back(std::move(statement));
    publication.cell_bytes.push_back(bytes);
  }
}

}  // namespace weir::ledgers
