#include "ledgers/sql/sql_store.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/split_mix.h"
#include "ledgers/rows.h"
#include "ledgers/sql/settings.h"
#include "platform/thread_group.h"

namespace weir::ledgers {
namespace {

constexpr int kTries = 8;
constexpr Millis kShortestPause{2};
// Well within kOverlap, as the commit itself takes time, too.
constexpr Nanos kLongestTransaction = std::chrono::seconds(3);
static_assert(kLongestTransaction + std::chrono::seconds(1) < kOverlap);
// Servers take 16 MB at once, or less where somebody said so.
constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kDeletedAtOnce = 500;
// For so long after others held a row nothing waits for them again.
constexpr Nanos kImpatientFor = std::chrono::seconds(5);

std::optional<LedgerKey> key_at(const SqlRow& row) {
  const auto duration = row.number(3);
  if (!duration) return std::nullopt;
  return LedgerKey{.workspace = std::string(row.bytes(0)),
                   .ns = std::string(row.bytes(1)),
                   .identifier = std::string(row.bytes(2)),
                   .duration = Millis(*duration)};
}

// Columns as in the statements of schema.cc; none for what no region can have meant.
std::optional<LedgerRow> cell_at(const SqlRow& row) {
  auto key = key_at(row);
  const auto sequence = row.number(5);
  const auto count = row.number(6);
  const auto limit = row.number(7);
  const auto end = row.number(8);
  if (!key || !sequence || !count || *count < 0 || !limit || *limit < 0 || !end) {
    return std::nullopt;
  }
  LedgerRow cell{.key = std::move(*key),
                 .sequence = *sequence,
                 .region = std::string(row.bytes(4)),
                 .count = static_cast<Count>(*count),
                 .limit_seen = static_cast<Count>(*limit)};
  if (!plausible(cell) || cell.expires_at() != WallTime(Millis(*end))) return std::nullopt;
  return cell;
}

std::optional<LedgerPresence> presence_at(const SqlRow& row) {
  auto key = key_at(row);
  const auto until = row.number(5);
  if (!key || !until) return std::nullopt;
  LedgerPresence presence{.key = std::move(*key),
                          .region = std::string(row.bytes(4)),
                          .until = WallTime(Millis(*until))};
  if (!plausible(presence)) return std::nullopt;
  return presence;
}

template <typename Item>
void take(std::optional<Item> item, std::vector<Item>& list, uint64_t& invalid) {
  if (item) {
    list.push_back(std::move(*item));
  } else {
    ++invalid;
  }
}

std::string hex(uint64_t number) {
  char text[17];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number, 16);
  return {text, end};
}

SqlFailure wrong_version(int64_t version) {
  return {.why = LedgerError::kOther,
          .detail = "its tables are of version " + std::to_string(version) +
                    ", and this program knows " + std::to_string(kSchemaVersion),
          .fix = "use the version of weir that made them, or another database"};
}

// What to do about a file; nothing, where it is the same as for a server.
std::string_view remedy_for_file(LedgerError why) {
  switch (why) {
    case LedgerError::kUnreachable:
      return "see whether its folder is there, whether this user may write there, and whether its "
             "disk works and is not read-only";
    case LedgerError::kTimeout: return "another process holds its lock: see who has it open";
    case LedgerError::kReadOnly: return "let this user write to it and its folder";
    case LedgerError::kFull: return "free space on its disk";
    case LedgerError::kRefused: return "let this user read and write it";
    case LedgerError::kCorrupt:
      return "move the file away: a new one is made, without what was counted in the old one";
    default: return {};
  }
}

std::function<void(Millis)> pause_of(const StoreOptions& options) {
  if (options.pause) return options.pause;
  return [](Millis span) { platform::ThreadGroup::rest(span); };
}

}  // namespace

SqlStore::SqlStore(const Clock& clock, Dialect dialect, std::unique_ptr<SqlLink> link,
                   std::string address, StoreOptions options)
    : clock_(clock),
      dialect_(dialect),
      texts_(statements_of(dialect)),
      link_(std::move(link)),
      address_(std::move(address)),
      holder_(hex(options.seed)),
      pause_(pause_of(options)),
      random_(options.seed),
      ready_(dialect != Dialect::kSqlite) {}

SqlStore::Failure SqlStore::make_ready() {
  if (ready_) return std::nullopt;
  int64_t version = 0;
  Failure failure = create_tables(version);
  ready_ = !failure;
  return failure;
}

SqlStore::Failure SqlStore::run(std::span<const SqlStatement> statements,
                                const SqlLink::EachRow& each) {
  if (Failure failure = make_ready()) return failure;
  Failure failure = link_->run(statements, each);
  // A file may have been replaced by another.
  if (failure && failure->why == LedgerError::kMissingTables && dialect_ == Dialect::kSqlite) {
    ready_ = false;
  }
  return failure;
}

SqlStore::Failure SqlStore::insist(const std::function<Failure()>& what) {
  Millis longest = kShortestPause;
  for (int tries = 1;; ++tries) {
    Failure failure = what();
    if (!failure || failure->why != LedgerError::kDeadlock || tries == kTries) return failure;
    ++retries_;
    // Never the same for two who met.
    pause_(Millis(1 + static_cast<int64_t>(base::split_mix(random_) %
                                           static_cast<uint64_t>(longest.count()))));
    longest *= 2;
  }
}

Error SqlStore::error_of(const SqlFailure& failure) {
  why_ = failure.why;
  const bool rows = failure.why == LedgerError::kBadRows;
  std::string fix = "see whether " + address_ + " is up and can be reached";
  switch (failure.why) {
    case LedgerError::kBadRows: fix = "publish fewer rows at once, or without the bad one"; break;
    case LedgerError::kMissingTables: fix = "run: weir migrate --ledger " + address_; break;
    case LedgerError::kReadOnly: fix = "name a server that can be written to"; break;
    case LedgerError::kFull: fix = "give " + address_ + " more space"; break;
    case LedgerError::kRefused: fix = "check user, password, database and TLS"; break;
    case LedgerError::kDeadlock:
    case LedgerError::kLocked: fix = "try again later: others hold the same rows"; break;
    default: break;
  }
  if (dialect_ == Dialect::kSqlite && !remedy_for_file(failure.why).empty()) {
    fix = remedy_for_file(failure.why);
  }
  if (!failure.fix.empty()) fix = failure.fix;
  return {.code = rows                                   ? ErrorCode::kInvalidArgument
                  : failure.why == LedgerError::kTimeout ? ErrorCode::kTimeout
                                                         : ErrorCode::kUnavailable,
          .retry = rows ? Retry::kPointless : Retry::kMayHelp,
          .field = rows || failure.why == LedgerError::kLocked ? "rows" : "",
          .detail = "the ledger failed: " + failure.detail,
          .fix = std::move(fix)};
}

// What one publish says, in the order in which it is said.
struct SqlStore::Inserts {
  struct Cell {
    std::string hash;
    const LedgerRow* row;
  };
  struct Presence {
    std::string hash;
    const LedgerPresence* presence;
  };
  // Owned: a statement only looks.
  std::vector<Cell> cells;
  std::vector<Presence> presences;
  std::vector<std::string> texts;
  std::vector<SqlStatement> statements;
  std::vector<size_t> sizes;  // in bytes, about
};

SqlStore::Failure SqlStore::insert(const Inserts& inserts) {
  std::vector<SqlStatement> part;
  if (!texts_.note_now.empty()) part.push_back({.sql = texts_.note_now});
  // A single statement is a transaction of its own, and one way to the server and back.
  if (inserts.statements.size() == 1 && link_->ends_long_statements()) {
    part.push_back(inserts.statements[0]);
    return run(part);
  }
  if (Failure failure = make_ready()) return failure;
  const MonoTime began = clock_.now().mono;
  const SqlLink::EachRow nothing = {};
  Failure failure;
  part.push_back({.sql = texts_.begin});
  auto connection = SqlLink::Connection::kAny;
  size_t bytes = 0;
  const auto send = [&] {
    failure = link_->run(std::exchange(part, {}), nothing,
                         std::exchange(connection, SqlLink::Connection::kTheSame));
    bytes = 0;
  };
  for (size_t i = 0; i < inserts.statements.size() && !failure; ++i) {
    if (bytes + inserts.sizes[i] > kMostBytes && bytes > 0) send();
    if (failure) break;
    part.push_back(inserts.statements[i]);
    bytes += inserts.sizes[i];
  }
  if (!failure && !part.empty()) send();
  if (!failure && clock_.now().mono - began > kLongestTransaction) {
    failure = SqlFailure{.why = LedgerError::kTimeout, .detail = "the transaction took too long"};
  }
  if (!failure) {
    const SqlStatement commit{.sql = "COMMIT"};
    failure = link_->run({&commit, 1}, nothing, SqlLink::Connection::kTheSame);
  }
  if (failure) {
    // Fails where the connection is gone, and the transaction with it.
    const SqlStatement rollback{.sql = "ROLLBACK"};
    (void)link_->run({&rollback, 1}, nothing, SqlLink::Connection::kTheSame);
  }
  return failure;
}

std::string SqlStore::no_wait() const {
  return link_->supports_no_wait() ? std::string(kNoWait) : "";
}

Result<size_t> SqlStore::publish(const LedgerNews& news) {
  if (const auto misfit = find_misfit(news)) {
    why_ = LedgerError::kBadRows;
    return *misfit;
  }
  if (news.rows.empty() && news.presences.empty()) return size_t{0};
  const Inserts inserts = inserts_of(news);
  if (const Failure failure = insist([&] { return insert(inserts); })) {
    if (failure->why == LedgerError::kLocked) locked_at_ = clock_.now().mono;
    return error_of(*failure);
  }
  return news.rows.size();
}

// Rows in the order of their keys. `news` must outlive it.
SqlStore::Inserts SqlStore::inserts_of(const LedgerNews& news) const {
  Inserts inserts;
  std::vector<Inserts::Cell>& cells = inserts.cells;
  cells.reserve(news.rows.size());
  for (const LedgerRow& row : news.rows) cells.push_back({hash_(row.key), &row});
  std::sort(cells.begin(), cells.end(), [](const Inserts::Cell& a, const Inserts::Cell& b) {
    return std::tie(a.hash, a.row->sequence, a.row->region) <
           std::tie(b.hash, b.row->sequence, b.row->region);
  });
  std::vector<Inserts::Presence>& presences = inserts.presences;
  presences.reserve(news.presences.size());
  for (const LedgerPresence& each : news.presences) presences.push_back({hash_(each.key), &each});
  std::sort(presences.begin(), presences.end(),
            [](const Inserts::Presence& a, const Inserts::Presence& b) {
              return std::tie(a.hash, a.presence->region) < std::tie(b.hash, b.presence->region);
            });

  inserts.texts.reserve(cells.size() + presences.size());
  // Who sends fewer rows to find the one that is held must not wait for it each time.
  const bool impatient = locked_at_ != MonoTime{} && clock_.now().mono - locked_at_ < kImpatientFor;
  const std::string prefix = impatient ? no_wait() : "";
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

Result<LedgerChanges> SqlStore::changes_since(LedgerCursor cursor) {
  LedgerChanges changes;
  const Millis since = first_acked(cursor);
  const size_t most = most_changes_;
  // One more, to see whether there are more.
  const std::vector<SqlValue> values = {since.count(), static_cast<int64_t>(most + 1)};
  // The time first: what commits after it is read is found by the next.
  const SqlStatement statements[] = {{.sql = texts_.now},
                                     {.sql = texts_.changed_cells, .values = values},
                                     {.sql = texts_.changed_presences, .values = values}};
  size_t read[2] = {0, 0};
  Millis last{0};
  const auto failure = run(std::span(statements).first(cursor.position == 0 ? 1 : 3),
                           [&](size_t statement, const SqlRow& row) {
                             if (statement == 0) {
                               changes.next.position = row.number(0).value_or(0);
                               return;
                             }
                             const bool cells = statement == 1;
                             if (++read[statement - 1] > most) {
                               leave_rest(since, last, changes);
                               return;
                             }
                             last = Millis(row.number(cells ? 9 : 6).value_or(0));
                             if (cells) {
                               take(cell_at(row), changes.news.rows, changes.invalid);
                             } else {
                               take(presence_at(row), changes.news.presences, changes.invalid);
                             }
                           });
  if (failure) {
    // What was too much for its time would be so again, and more each time.
    if (failure->why == LedgerError::kTimeout) most_changes_ = std::max(most / 2, kRowsPerPage);
    return error_of(*failure);
  }
  most_changes_ = std::min(most + kRowsPerPage, kMostChanges);
  return changes;
}

Result<LedgerPage> SqlStore::read_page(const LedgerPosition& place) {
  const auto from = decode(place);
  if (!from) {
    why_ = LedgerError::kOther;
    return bad_place();
  }
  LedgerPage page;
  const bool cells = from->part == PagePlace::Part::kRows;
  // Before the first of all keys.
  const int64_t sequence = place.after.empty() ? -1 : from->sequence;
  const std::string_view key = from->key;
  const std::string_view region = from->region;
  SqlStatement statement{.sql = texts_.page_of_presences, .values = {key, key, region}};
  if (cells) {
    statement = {.sql = texts_.page_of_cells, .values = {key, key, sequence, sequence, region}};
  }
  PagePlace last{.part = from->part};
  size_t read = 0;
  const auto failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
    ++read;
    if (cells) {
      take(cell_at(row), page.news.rows, page.invalid);
    } else {
      take(presence_at(row), page.news.presences, page.invalid);
    }
    if (read < kRowsPerPage) return;
    last.region = row.bytes(4);
    last.sequence = cells ? row.number(5).value_or(0) : 0;
    last.key = row.bytes(cells ? 9 : 6);
  });
  if (failure) return error_of(*failure);
  if (read == kRowsPerPage) {
    page.next.after = encode(last);
  } else if (cells) {
    page.next.after = encode({.part = PagePlace::Part::kPresences});
  }
  page.last = page.next.after.empty();
  return page;
}

Result<LedgerFleet> SqlStore::heartbeat(const LedgerRegion& self, const SyncRules& rules) {
  LedgerFleet fleet{.regions = {}, .rules = rules};
  std::string text = texts_.settings_head;
  SqlStatement insert;
  const std::vector<Setting> settings = settings_of(rules);
  for (const Setting& setting : settings) {
    text += insert.values.empty() ? "(?,?)" : ",(?,?)";
    insert.values.emplace_back(setting.name);
    insert.values.emplace_back(std::string_view(setting.value));
  }
  insert.sql = text;
  const SqlStatement statements[] = {
      {.sql = texts_.heartbeat,
       .values = {std::string_view(self.region), static_cast<int64_t>(self.hidden_ppm)}},
      insert,
      {.sql = texts_.regions},
      {.sql = texts_.settings}};
  const auto failure = insist([&] {
    fleet.regions.clear();
    return run(statements, [&](size_t statement, const SqlRow& row) {
      if (statement == 2) {
        const auto hidden = row.number(1);
        const auto silent = row.number(2);
        const size_t name = row.bytes(0).size();
        if (!hidden || *hidden < 0 || !silent || name == 0 || name > kMaxRegionBytes) return;
        fleet.regions.push_back({.region = std::string(row.bytes(0)),
                                 .hidden_ppm = static_cast<uint64_t>(*hidden),
                                 .silent = Millis(*silent)});
      } else {
        read_setting(row.bytes(0), row.bytes(1), fleet.rules);
      }
    });
  });
  if (failure) return error_of(*failure);
  return fleet;
}

Result<LedgerCleaning> SqlStore::clean(size_t most) {
  LedgerCleaning cleaning;
  const std::string_view holder = holder_;
  const SqlStatement lease[] = {{.sql = texts_.make_lease},
                                {.sql = texts_.take_lease, .values = {holder, holder}},
                                {.sql = texts_.lease}};
  auto failure = insist([&] {
    return run(lease, [&](size_t, const SqlRow& row) { cleaning.ours = row.bytes(0) == holder; });
  });
  if (failure) return error_of(*failure);
  if (!cleaning.ours) return cleaning;
  failure = clean(texts_.clean_cells, most, cleaning);
  if (failure && failure->why == LedgerError::kLocked) {
    failure = clean_around(texts_.expired_cells, texts_.delete_cells_head,
                           texts_.delete_cells_group, most, cleaning);
  }
  if (failure) return error_of(*failure);
  failure = clean(texts_.clean_presences, most, cleaning);
  if (failure && failure->why == LedgerError::kLocked) {
    failure = clean_around(texts_.expired_presences, texts_.delete_presences_head,
                           texts_.delete_presences_group, most, cleaning);
  }
  if (failure) return error_of(*failure);
  const SqlStatement regions{.sql = texts_.clean_regions};
  failure = insist([&] { return run({&regions, 1}); });
  if (failure && failure->why != LedgerError::kLocked) return error_of(*failure);
  return cleaning;
}

// Little at a time, so that nobody waits long for its locks; and it waits for nobody's.
SqlStore::Failure SqlStore::clean(const std::string& text, size_t most, LedgerCleaning& cleaning) {
  while (cleaning.deleted < most) {
    const size_t wanted = std::min(most - cleaning.deleted, kDeletedAtOnce);
    const std::string sql = no_wait() + text;
    const SqlStatement statement{.sql = sql, .values = {static_cast<int64_t>(wanted)}};
    if (Failure failure = insist([&] { return run({&statement, 1}); })) return failure;
    cleaning.deleted += link_->affected();
    if (link_->affected() < wanted) break;
  }
  return std::nullopt;
}

// A row that has expired, by its key.
struct SqlStore::Expired {
  std::string hash;
  std::string region;
  int64_t sequence = 0;
};

// Somebody holds one of the rows: all others are deleted by their keys.
SqlStore::Failure SqlStore::clean_around(const std::string& list, const std::string& head,
                                         const std::string& group, size_t most,
                                         LedgerCleaning& cleaning) {
  // Where each try would wait for the lock, the rows wait instead.
  if (!link_->supports_no_wait()) return std::nullopt;
  for (size_t before = ~size_t{0}; cleaning.deleted < most && before != cleaning.deleted;) {
    before = cleaning.deleted;
    const SqlStatement statement{.sql = list, .values = {static_cast<int64_t>(kDeletedAtOnce)}};
    std::vector<Expired> rows;
    Failure failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
      rows.push_back({.hash = std::string(row.bytes(0)),
                      .region = std::string(row.bytes(1)),
                      .sequence = row.number(2).value_or(0)});
    });
    rows.resize(std::min(rows.size(), most - cleaning.deleted));
    if (!failure) failure = remove(rows, head, group, cleaning);
    if (failure) return failure;
  }
  return std::nullopt;
}

// The one that is held is found by halves.
SqlStore::Failure SqlStore::remove(std::span<const Expired> rows, const std::string& head,
                                   const std::string& group, LedgerCleaning& cleaning) {
  if (rows.empty()) return std::nullopt;
  std::string text = no_wait() + head;
  SqlStatement statement;
  for (const Expired& row : rows) {
    text += statement.values.empty() ? group : " OR " + group;
    statement.values.emplace_back(std::string_view(row.hash));
    statement.values.emplace_back(std::string_view(row.region));
    statement.values.emplace_back(row.sequence);
  }
  text += ')';
  statement.sql = text;
  const Failure failure = insist([&] { return run({&statement, 1}); });
  if (!failure) cleaning.deleted += link_->affected();
  if (!failure || failure->why != LedgerError::kLocked) return failure;
  if (rows.size() == 1) return std::nullopt;
  const size_t half = rows.size() / 2;
  if (Failure first = remove(rows.first(half), head, group, cleaning)) return first;
  return remove(rows.subspan(half), head, group, cleaning);
}

Result<WallTime> SqlStore::rehearse() {
  WallTime now{};
  if (const Failure failure = rehearse(now)) return error_of(*failure);
  return now;
}

SqlStore::Failure SqlStore::rehearse(WallTime& now) {
  if (Failure failure = make_ready()) return failure;
  // Names that nobody has, so that nobody waits for what is undone in the end.
  const std::string name = "check-" + holder_;
  const LedgerKey key{
      .workspace = "", .ns = "weir", .identifier = name, .duration = Millis(60'000)};
  const LedgerNews news{.rows = {{.key = key, .region = name, .count = 1, .limit_seen = 1}},
                        .presences = {{.key = key, .region = name, .until = WallTime(Millis(1))}}};
  const Inserts inserts = inserts_of(news);
  const std::string_view holder = holder_;
  const std::string_view self = name;
  const std::string setting = texts_.settings_head + "(?,?)";
  const std::vector<SqlValue> changed = {int64_t{0}, int64_t{1}};
  const SqlStatement begin[] = {
      {.sql = texts_.now}, {.sql = texts_.settings}, {.sql = texts_.begin}};
  std::vector<SqlStatement> statements;
  if (!texts_.note_now.empty()) statements.push_back({.sql = texts_.note_now});
  statements.insert(statements.end(), inserts.statements.begin(), inserts.statements.end());
  // Written twice, as serving does: then the rows are changed, not made.
  statements.insert(statements.end(), inserts.statements.begin(), inserts.statements.end());
  for (const SqlStatement& each :
       std::initializer_list<SqlStatement>{{.sql = texts_.heartbeat, .values = {self, int64_t{0}}},
                                           {.sql = setting, .values = {self, self}},
                                           {.sql = texts_.regions},
                                           {.sql = texts_.changed_cells, .values = changed},
                                           {.sql = texts_.changed_presences, .values = changed},
                                           {.sql = texts_.make_lease},
                                           {.sql = texts_.take_lease, .values = {holder, holder}},
                                           {.sql = texts_.lease},
                                           {.sql = texts_.clean_cells, .values = {int64_t{0}}},
                                           {.sql = texts_.clean_presences, .values = {int64_t{0}}},
                                           {.sql = texts_.clean_regions}}) {
    statements.push_back(each);
  }
  int64_t version = 0;
  Failure failure = link_->run(begin, [&](size_t statement, const SqlRow& row) {
    if (statement == 0) now = WallTime(Millis(row.number(0).value_or(0)));
    if (statement == 1 && row.bytes(0) == "schema_version") {
      version = number_in(row.bytes(1)).value_or(0);
    }
  });
  if (!failure && version != kSchemaVersion) failure = wrong_version(version);
  if (!failure) failure = link_->run(statements, {}, SqlLink::Connection::kTheSame);
  const SqlStatement rollback{.sql = "ROLLBACK"};
  (void)link_->run({&rollback, 1}, {}, SqlLink::Connection::kTheSame);
  return failure;
}

// The lease of a region. Names of leases have room for 64 bytes; a long one is hashed.
std::string SqlStore::name_of_hold(const std::string& region) const {
  constexpr size_t kMost = 64;
  const std::string name = "region " + region;
  if (name.size() <= kMost) return name;
  return "region#" +
         hash_({.workspace = region, .ns = {}, .identifier = {}, .duration = Millis(0)});
}

Result<RegionHold> SqlStore::hold_region(const std::string& region, const std::string& holder,
                                         const RegionHold& dead) {
  RegionHold hold;
  const std::string text = name_of_hold(region);
  const std::string_view name = text;
  const std::string_view self = holder;
  const SqlStatement statements[] = {
      {.sql = texts_.make_hold, .values = {name}},
      {.sql = texts_.take_hold,
       .values = {self, name, self, std::string_view(dead.holder), dead.until}},
      {.sql = texts_.hold, .values = {name}}};
  const auto failure = insist([&] {
    return run(statements, [&](size_t, const SqlRow& row) {
      hold = {.holder = std::string(row.bytes(0)), .until = row.number(1).value_or(0)};
    });
  });
  if (failure) return error_of(*failure);
  return hold;
}

void SqlStore::release_region(const std::string& region, const std::string& holder) {
  const std::string name = name_of_hold(region);
  const SqlStatement statement{.sql = texts_.release_hold,
                               .values = {std::string_view(name), std::string_view(holder)}};
  (void)run({&statement, 1});
}

SqlStore::Failure SqlStore::create_tables(int64_t& version) {
  const bool sqlite = dialect_ == Dialect::kSqlite;
  // One at a time, whoever else migrates; a server's lock ends with the connection.
  bool locked = sqlite;
  for (int tries = 0; tries < kTries && !locked; ++tries) {
    const SqlStatement lock{.sql = "SELECT GET_LOCK('weir_migrate', 1)"};
    if (Failure failure = link_->run({&lock, 1}, [&](size_t, const SqlRow& row) {
          locked = row.number(0).value_or(0) == 1;
        })) {
      return failure;
    }
  }
  if (!locked) {
    return SqlFailure{.why = LedgerError::kTimeout, .detail = "somebody else is migrating it"};
  }
  const std::vector<std::string> tables = schema_statements(dialect_);
  std::vector<SqlStatement> statements;
  if (sqlite) statements.push_back({.sql = texts_.begin});
  for (const std::string& table : tables) statements.push_back({.sql = table});
  statements.push_back({.sql = texts_.settings});
  statements.push_back({.sql = sqlite ? "COMMIT" : "SELECT RELEASE_LOCK('weir_migrate')"});
  const auto connection = sqlite ? SqlLink::Connection::kAny : SqlLink::Connection::kTheSame;
  Failure failure = link_->run(
      statements,
      [&](size_t statement, const SqlRow& row) {
        if (statement + 2 == statements.size() && row.bytes(0) == "schema_version") {
          version = number_in(row.bytes(1)).value_or(0);
        }
      },
      connection);
  if (failure) {
    const SqlStatement undo{.sql = sqlite ? "ROLLBACK" : "SELECT RELEASE_LOCK('weir_migrate')"};
    (void)link_->run({&undo, 1}, {}, SqlLink::Connection::kTheSame);
  } else if (version != kSchemaVersion) {
    failure = wrong_version(version);
  }
  return failure;
}

Result<int64_t> SqlStore::migrate() {
  int64_t version = 0;
  if (const Failure failure = create_tables(version)) return error_of(*failure);
  ready_ = true;
  return version;
}

Result<WallTime> SqlStore::time() {
  WallTime now{};
  const SqlStatement statement{.sql = texts_.now};
  const auto failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
    now = WallTime(Millis(row.number(0).value_or(0)));
  });
  if (failure) return error_of(*failure);
  return now;
}

}  // namespace weir::ledgers
