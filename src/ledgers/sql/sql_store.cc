#include "ledgers/sql/sql_store.h"

#include <algorithm>
#include <charconv>
#include <list>

#include "base/split_mix.h"
#include "ledgers/sql/settings.h"
#include "ledgers/sql/sql_errors.h"
#include "platform/thread_group.h"

namespace weir::ledgers {
namespace {

constexpr int kMaxTries = 8;
constexpr Millis kFirstPause{2};

std::string hex(uint64_t number) {
  char text[17];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number, 16);
  return {text, end};
}

std::function<void(Millis)> pause_of(const StoreOptions& options) {
  if (options.pause) return options.pause;
  return [](Millis span) { platform::ThreadGroup::sleep(span); };
}

// A region, or a namespace of one that was listed, or the present time. Ignores impossible values.
void read_region(const SqlRow& row, LedgerFleet& fleet) {
  std::vector<LedgerRegion>& regions = fleet.regions;
  if (row.number(0) == 2) {
    fleet.now = WallTime(Millis(row.number(5).value_or(0)));
    return;
  }
  const auto unpublished = row.number(4);
  const std::string_view name = row.bytes(1);
  if (!unpublished || *unpublished < 0 || name.empty() || name.size() > kMaxRegionBytes) return;
  const auto ppm = static_cast<uint64_t>(*unpublished);
  if (row.number(0) == 0) {
    const auto silent = row.number(5);
    if (!silent) return;
    regions.push_back(
        {.region = std::string(name), .unpublished_ppm = ppm, .silent = Millis(*silent)});
    return;
  }
  const auto region = std::ranges::find(regions, name, &LedgerRegion::region);
  if (region == regions.end()) return;
  region->namespaces.push_back({.workspace = std::string(row.bytes(2)),
                                .ns = std::string(row.bytes(3)),
                                .unpublished_ppm = ppm});
}

}  // namespace

SqlStore::SqlStore(const Clock& clock, Dialect dialect, std::unique_ptr<SqlLink> link,
                   std::string address, StoreOptions options)
    : clock_(clock),
      dialect_(dialect),
      texts_(sql_texts(dialect)),
      link_(std::move(link)),
      address_(std::move(address)),
      holder_(hex(options.seed)),
      pause_(pause_of(options)),
      random_(options.seed),
      has_tables_(dialect != Dialect::kSqlite) {}

SqlStore::Failure SqlStore::ensure_tables() {
  if (has_tables_) return std::nullopt;
  int64_t version = 0;
  Failure failure = create_tables(version);
  has_tables_ = !failure;
  return failure;
}

SqlStore::Failure SqlStore::run(std::span<const SqlStatement> statements,
                                const SqlLink::EachRow& each) {
  if (Failure failure = ensure_tables()) return failure;
  Failure failure = link_->run(statements, each);
  // Another file may have replaced this one.
  if (failure && failure->kind == LedgerError::kMissingTables && dialect_ == Dialect::kSqlite) {
    has_tables_ = false;
  }
  return failure;
}

SqlStore::Failure SqlStore::retry_deadlocks(const std::function<Failure()>& call) {
  Millis longest = kFirstPause;
  for (int tries = 1;; ++tries) {
    Failure failure = call();
    if (!failure || failure->kind != LedgerError::kDeadlock || tries == kMaxTries) return failure;
    ++retries_;
    // Random, so that two processes in a deadlock do not retry at the same time.
    pause_(Millis(1 + static_cast<int64_t>(base::split_mix(random_) %
                                           static_cast<uint64_t>(longest.count()))));
    longest *= 2;
  }
}

Error SqlStore::to_error(const SqlFailure& failure) {
  last_error_kind_ = failure.kind;
  return error_of(failure, dialect_, address_);
}

std::string SqlStore::no_wait() const {
  return link_->supports_no_wait() ? std::string(kNoWait) : "";
}

Result<LedgerFleet> SqlStore::heartbeat(const LedgerRegion& self, const SyncRules& rules) {
  const std::string_view region = self.region;
  std::string settings_text = texts_.settings_head;
  SqlStatement settings;
  const std::vector<Setting> initial = settings_of(rules);
  for (const Setting& setting : initial) {
    settings_text += settings.values.empty() ? "(?,?)" : ",(?,?)";
    settings.values.emplace_back(setting.name);
    settings.values.emplace_back(std::string_view(setting.value));
  }
  settings.sql = settings_text;
  std::vector<SqlStatement> statements{
      {.sql = texts_.heartbeat,
       .values = {region, static_cast<int64_t>(self.unpublished_ppm),
                  int64_t{self.by_bridge ? 1 : 0}}},
      settings};

  std::string reports_text = texts_.reports_head;
  SqlStatement reports;
  std::list<std::string> hashes;  // which the values point to
  for (const NamespaceReport& each : self.namespaces) {
    const std::string& hash = hashes.emplace_back(hash_(
        {.workspace = each.workspace, .ns = each.ns, .identifier = {}, .duration = Millis(0)}));
    reports_text += (reports.values.empty() ? "" : ",") + texts_.reports_group;
    for (const std::string_view text :
         {region, std::string_view(hash), std::string_view(each.workspace),
          std::string_view(each.ns)}) {
      reports.values.emplace_back(text);
    }
    reports.values.emplace_back(static_cast<int64_t>(each.unpublished_ppm));
  }
  reports_text += texts_.reports_tail;
  reports.sql = reports_text;
  if (!self.namespaces.empty()) statements.push_back(reports);

  const size_t regions = statements.size();
  statements.push_back({.sql = texts_.regions});
  statements.push_back({.sql = texts_.settings});
  LedgerFleet fleet{.regions = {}, .rules = rules};
  const auto failure = retry_deadlocks([&] {
    fleet.regions.clear();
    return run(statements, [&](size_t statement, const SqlRow& row) {
      if (statement == regions) {
        read_region(row, fleet);
      } else {
        read_setting(row.bytes(0), row.bytes(1), fleet.rules);
      }
    });
  });
  if (failure) return to_error(*failure);
  return fleet;
}

// The column for names of leases holds 64 bytes; a longer name is hashed.
std::string SqlStore::lease_name(const std::string& region) const {
  constexpr size_t kMaxBytes = 64;
  const std::string name = "region " + region;
  if (name.size() <= kMaxBytes) return name;
  return "region#" +
         hash_({.workspace = region, .ns = {}, .identifier = {}, .duration = Millis(0)});
}

Result<RegionLease> SqlStore::acquire_region(const std::string& region, const std::string& holder,
                                             const RegionLease& expired) {
  RegionLease lease;
  const std::string text = lease_name(region);
  const std::string_view name = text;
  const std::string_view self = holder;
  const SqlStatement statements[] = {
      {.sql = texts_.insert_region_lease, .values = {name}},
      {.sql = texts_.take_region_lease,
       .values = {self, name, self, std::string_view(expired.holder), expired.until}},
      {.sql = texts_.region_lease, .values = {name}}};
  bool exists = false;
  const auto run_from = [&](size_t first) {
    return retry_deadlocks([&] {
      return run(std::span(statements).subspan(first), [&](size_t, const SqlRow& row) {
        exists = true;
        lease = {.holder = std::string(row.bytes(0)), .until = row.number(1).value_or(0)};
      });
    });
  };
  // The row is inserted once; each renewal needs two statements.
  auto failure = run_from(1);
  if (!failure && !exists) failure = run_from(0);
  if (failure) return to_error(*failure);
  return lease;
}

void SqlStore::release_region(const std::string& region, const std::string& holder) {
  const std::string name = lease_name(region);
  const SqlStatement statement{.sql = texts_.release_region_lease,
                               .values = {std::string_view(name), std::string_view(holder)}};
  (void)run({&statement, 1});
}

Result<WallTime> SqlStore::time() {
  WallTime now{};
  const SqlStatement statement{.sql = texts_.now};
  const auto failure = run({&statement, 1}, [&](size_t, const SqlRow& row) {
    now = WallTime(Millis(row.number(0).value_or(0)));
  });
  if (failure) return to_error(*failure);
  return now;
}

}  // namespace weir::ledgers
