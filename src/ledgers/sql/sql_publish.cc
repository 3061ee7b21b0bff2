// Publishing: one transaction per batch.

#include <algorithm>
#include <tuple>
#include <utility>

#include "ledgers/sql/sql_inserts.h"
#include "ledgers/sql/sql_store.h"

namespace weir::ledgers {
namespace {

// Well below kLongLookBack, since the commit takes time, too.
constexpr Nanos kMaxTransaction = std::chrono::seconds(3);
static_assert(kMaxTransaction + std::chrono::seconds(1) < kLongLookBack);
// Servers accept 16 MB in one message by default; some are configured for less.
constexpr size_t kMaxMessageBytes = 1 << 20;
// For so long after it met a locked row, a publish does not wait for locks.
constexpr Nanos kNoWaitPeriod = std::chrono::seconds(5);

}  // namespace

Result<size_t> SqlStore::publish(const LedgerNews& batch) {
  if (const auto error = find_unstorable(batch)) {
    last_error_kind_ = LedgerError::kBadRows;
    return *error;
  }
  if (batch.rows.empty() && batch.presences.empty()) return size_t{0};
  const Inserts inserts = make_inserts(batch);
  if (const Failure failure = retry_deadlocks([&] { return insert(inserts); })) {
    if (failure->kind == LedgerError::kLocked) locked_at_ = clock_.now().mono;
    return to_error(*failure);
  }
  return batch.rows.size();
}

SqlStore::Failure SqlStore::insert(const Inserts& inserts) {
  std::vector<SqlStatement> message;
  if (!texts_.set_now.empty()) message.push_back({.sql = texts_.set_now});
  // A single statement is a transaction of its own, and needs one round trip.
  if (inserts.statements.size() == 1 && link_->ends_long_statements()) {
    message.push_back(inserts.statements[0]);
    return run(message);
  }
  if (Failure failure = ensure_tables()) return failure;
  const MonoTime began = clock_.now().mono;
  const SqlLink::EachRow no_rows = {};
  Failure failure;
  message.push_back({.sql = texts_.begin});
  auto connection = SqlLink::Connection::kAny;
  size_t bytes = 0;
  const auto send = [&] {
    failure = link_->run(std::exchange(message, {}), no_rows,
                         std::exchange(connection, SqlLink::Connection::kSame));
    bytes = 0;
  };
  for (size_t i = 0; i < inserts.statements.size() && !failure; ++i) {
    if (bytes + inserts.sizes[i] > kMaxMessageBytes && bytes > 0) send();
    if (failure) break;
    message.push_back(inserts.statements[i]);
    bytes += inserts.sizes[i];
  }
  if (!failure && !message.empty()) send();
  if (!failure && clock_.now().mono - began > kMaxTransaction) {
    failure = SqlFailure{.kind = LedgerError::kTimeout, .detail = "the transaction took too long"};
  }
  if (!failure) {
    const SqlStatement commit{.sql = "COMMIT"};
    failure = link_->run({&commit, 1}, no_rows, SqlLink::Connection::kSame);
  }
  if (failure) {
    // Fails if the connection was lost; then the server has rolled back.
    const SqlStatement rollback{.sql = "ROLLBACK"};
    (void)link_->run({&rollback, 1}, no_rows, SqlLink::Connection::kSame);
  }
  return failure;
}

SqlStore::Inserts SqlStore::make_inserts(const LedgerNews& batch) const {
  Inserts inserts;
  std::vector<Inserts::Cell>& cells = inserts.cells;
  cells.reserve(batch.rows.size());
  for (const LedgerRow& row : batch.rows) cells.push_back({hash_(row.key), &row});
  std::sort(cells.begin(), cells.end(), [](const Inserts::Cell& a, const Inserts::Cell& b) {
    return std::tie(a.hash, a.row->sequence, a.row->region) <
           std::tie(b.hash, b.row->sequence, b.row->region);
  });
  std::vector<Inserts::Presence>& presences = inserts.presences;
  presences.reserve(batch.presences.size());
  for (const LedgerPresence& each : batch.presences) presences.push_back({hash_(each.key), &each});
  std::sort(presences.begin(), presences.end(),
            [](const Inserts::Presence& a, const Inserts::Presence& b) {
              return std::tie(a.hash, a.presence->region) < std::tie(b.hash, b.presence->region);
            });

  inserts.texts.reserve(cells.size() + presences.size());
  // After a batch met a locked row, the caller sends smaller batches to find it. These must not
  // wait for the lock each time.
  const bool skips_waiting =
      locked_at_ != MonoTime{} && clock_.now().mono - locked_at_ < kNoWaitPeriod;
  const std::string prefix = skips_waiting ? no_wait() : "";
  const auto add = [&](size_t total, const std::string& head, const std::string& group,
                       const std::string& tail, const auto& bind) {
    for (size_t first = 0; first < total; first += texts_.rows_per_insert) {
      const size_t count = std::min(total - first, texts_.rows_per_insert);
      SqlStatement statement;
      std::string text = prefix + head;
      text.reserve(text.size() + count * (group.size() + 1) + tail.size());
      size_t bytes = 0;
      for (size_t i = 0; i < count; ++i) {
        if (i > 0) text += ',';
        text += group;
        bytes += 300 + 2 * bind(first + i, statement.values);
      }
      text += tail;
      inserts.texts.push_back(std::move(text));
      statement.sql = inserts.texts.back();
      inserts.statements.push_back(std::move(statement));
      inserts.sizes.push_back(bytes);
    }
  };
  const auto bind_key = [](const LedgerKey& key, std::vector<SqlValue>& values) {
    values.emplace_back(std::string_view(key.workspace));
    values.emplace_back(std::string_view(key.ns));
    values.emplace_back(std::string_view(key.identifier));
    values.emplace_back(int64_t{key.duration.count()});
    return key.workspace.size() + key.ns.size() + key.identifier.size();
  };
  add(cells.size(), texts_.cells_head, texts_.cells_group, texts_.cells_tail,
      [&](size_t i, std::vector<SqlValue>& values) {
        const LedgerRow& row = *cells[i].row;
        values.emplace_back(std::string_view(cells[i].hash));
        values.emplace_back(row.sequence);
        values.emplace_back(std::string_view(row.region));
        values.emplace_back(static_cast<int64_t>(row.count));
        values.emplace_back(static_cast<int64_t>(row.limit_seen));
        values.emplace_back(int64_t{row.expires_at().time_since_epoch().count()});
        return bind_key(row.key, values);
      });
  add(presences.size(), texts_.presence_head, texts_.presence_group, texts_.presence_tail,
      [&](size_t i, std::vector<SqlValue>& values) {
        const LedgerPresence& presence = *presences[i].presence;
        values.emplace_back(std::string_view(presences[i].hash));
        values.emplace_back(std::string_view(presence.region));
        values.emplace_back(int64_t{presence.until.time_since_epoch().count()});
        return bind_key(presence.key, values);
      });
  return inserts;
}

}  // namespace weir::ledgers
