#include "server/catalog_commands.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/changes.h"
#include "catalog/checks.h"
#include "catalog/sql_catalog.h"
#include "command_line/print_error.h"
#include "platform/entropy.h"
#include "server/config_values.h"
#include "server/data_folder.h"
#include "server/other_regions.h"
#include "server/shown_text.h"

namespace weir::server {
namespace {

using catalog::CatalogWrite;
using catalog::NamespaceView;

[[noreturn]] void stop_with(const std::string& text) {
  throw std::runtime_error(text);
}

[[noreturn]] void stop_with(const Error& error) {
  stop_with(error.detail + (error.fix.empty() ? "" : "; " + error.fix));
}

void stop_if(const std::optional<Error>& error) {
  if (error) stop_with(*error);
}

// The connection to the catalog. It is read only when a command needs more than one record: an
// urgent command must not wait for a million others.
class Database {
 public:
  explicit Database(const Config& config) {
    const auto address = ledger_of(config);
    if (!address)
      stop_with("ledger is none, and the catalog is in its database: name one with --ledger");
    if (address->kind == ledgers::LedgerKind::kSqlite) {
      const auto folder = std::filesystem::path(address->path).parent_path();
      if (!folder.empty() && !std::filesystem::exists(folder)) {
        stop_with(
            fmt::format("the folder {} does not exist: start a server first, or name its folder "
                        "with --data",
                        folder.string()));
      }
    }
    if (config.ledger_choice == LedgerChoice::kUsual) default_folder_ = config.data;
    address_ = *address;
    store_ = catalog::make_catalog_store(system_clock(), address_);
  }

  // The catalog as it is at the first call.
  [[nodiscard]] const catalog::Snapshot& snapshot() {
    if (snapshot_ == nullptr) {
      catalog::Catalog view(system_clock(), catalog::make_catalog_store(system_clock(), address_));
      if (const auto error = view.poll_once()) stop_with(*error);
      snapshot_ = view.snapshot();
    }
    return *snapshot_;
  }
  [[nodiscard]] catalog::CatalogStore& store() { return *store_; }
  [[nodiscard]] static catalog::Author author() {
    return {.actor = "cli", .now = system_clock().now().wall};
  }

  void write(const std::vector<CatalogWrite>& writes) {
    const auto revision = store_->write(writes);
    if (!revision) stop_with(revision.error());
    if (!default_folder_.empty() && !is_locked(default_folder_)) {
      command_line::print_error(
          "weir: written to the catalog in '{}', which no running server uses. A server with an "
          "origin has a catalog only with --ledger: give these commands the same one\n",
          default_folder_);
    }
  }

  // By id or name.
  [[nodiscard]] const catalog::WorkspaceView& workspace(const std::string& name) {
    if (const auto* const found = snapshot().find_workspace(name)) return *found;
    const catalog::WorkspaceView* named = nullptr;
    for (const auto& [id, view] : snapshot().workspaces()) {
      if (view->record.name != name) continue;
      if (named != nullptr)
        stop_with(fmt::format("several workspaces are named {}: give the id", name));
      named = view.get();
    }
    if (named == nullptr)
      stop_with(fmt::format("there is no workspace {}: see weir workspaces list", name));
    return *named;
  }

  [[nodiscard]] const NamespaceView& ns(const std::string& workspace_name,
                                        const std::string& name) {
    const NamespaceView* const found = workspace(workspace_name).find(name);
    if (found == nullptr || found->record.deleted) {
      stop_with(fmt::format("there is no namespace {}: see weir namespaces list", name));
    }
    return *found;
  }

  // Of this record alone.
  [[nodiscard]] catalog::Key key(const std::string& id) {
    const auto row = store_->read_row(id);
    if (!row) stop_with(row.error());
    const bool lives = *row && (*row)->kind == 'k' && !(*row)->deleted;
    if (!lives) stop_with(fmt::format("there is no key {}: see weir keys list", id));
    const auto record = catalog::record_of(**row);
    if (!record) stop_with(fmt::format("the record of the key {} cannot be read", id));
    return std::get<catalog::Key>(*record);
  }

 private:
  std::string default_folder_;  // empty: the database was named
  ledgers::LedgerAddress address_;
  std::unique_ptr<catalog::CatalogStore> store_;
  std::shared_ptr<const catalog::Snapshot> snapshot_;
};

// A table with aligned columns.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) { rows_.push_back(std::move(titles)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print() {
    std::sort(rows_.begin() + 1, rows_.end());
    std::vector<size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
      line.erase(line.find_last_not_of(' ') + 1);
      fmt::print("{}\n", line);
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string date_text(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

// The start of a day in UTC, like 2027-01-01, or an instant, like 2027-01-01T12:00:00Z.
std::optional<WallTime> read_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  constexpr size_t kDate = 10;
  if (text.size() != kDate && text.size() != kForm.size()) return std::nullopt;
  std::array<unsigned, 6> parts{};
  size_t part = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !digit : text[i] != kForm[i]) return std::nullopt;
    if (digit) {
      parts[part] = parts[part] * 10 + static_cast<unsigned>(text[i] - '0');
    } else {
      ++part;
    }
  }
  const auto [year, month, day, hour, minute, second] = parts;
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(month), std::chrono::day(day));
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return WallTime(std::chrono::duration_cast<Millis>(
      std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
      std::chrono::minutes(minute) + std::chrono::seconds(second)));
}

std::string number_text(const std::optional<Count>& number) {
  return number ? std::to_string(*number) : "-";
}

std::string with_spaces(const std::vector<std::string>& texts) {
  std::string text;
  for (const std::string& each : texts) text += (text.empty() ? "" : " ") + each;
  return text.empty() ? "-" : text;
}

constexpr TimeRange kExpiries{.min = Millis(1), .max = std::chrono::days(100'000'000)};
constexpr TimeRange kGraces{.max = kMaxDuration, .text = "a time from 0s to 30d, like 5m or 1h"};
constexpr TimeRange kOverrideDurations{.min = Millis(1000),
                                       .max = kMaxDuration,
                                       .text =
                                           "a time from 1s to 30d, like 60s, 5m, 1h or 1d, "
                                           "or a number of ms",
                                       .unit = "ms"};

Millis time_of(const char* option, const std::string& text, const TimeRange& range) {
  Millis time{};
  const std::string error = read_time(text, time, range);
  if (error.empty()) return time;
  throw CLI::ValidationError(option, fmt::format("is '{}': it {}", text, error));
}

// The end of a key: after a time, or at a date.
WallTime end_of(const std::string& text, WallTime now) {
  Millis time{};
  if (read_time(text, time, kExpiries).empty()) return now + time;
  const auto date = read_date(text);
  if (date && *date > now) return *date;
  throw CLI::ValidationError(
      "--expires", fmt::format("is '{}': it must be {}", text,
                               date ? "in the future"
                                    : "a time above 0, like 90d or 12h, or a date in UTC, like "
                                      "2027-01-01 or 2027-01-01T12:00:00Z"));
}

}  // namespace

struct CatalogCommands::Options {
  std::string workspace{catalog::kDefaultWorkspace};
  std::string name, id, ns, identifier;
  std::vector<std::string> permissions;
  std::string expires, grace, duration, algorithm, consistency;
  std::optional<Count> per_second, limit, burst;
  size_t most = 50;

  [[nodiscard]] catalog::LimitValues values() const;
};

catalog::LimitValues CatalogCommands::Options::values() const {
  catalog::LimitValues values;
  values.limit = limit;
  if (!duration.empty()) values.duration = time_of("--duration", duration, kLimitDurations);
  if (values.limit.has_value() != values.duration.has_value()) {
    throw CLI::ValidationError("--limit", "and --duration are given together");
  }
  if (!algorithm.empty()) values.algorithm = algorithm_from(algorithm);
  if (!consistency.empty()) values.consistency = consistency_from(consistency);
  values.burst = burst;
  const bool takes_burst =
      values.algorithm == Algorithm::kGcra || values.algorithm == Algorithm::kTokenBucket;
  if (burst && !takes_burst) {
    throw CLI::ValidationError("--burst", "needs --algorithm gcra or token_bucket");
  }
  stop_if(catalog::error_in(values));
  return values;
}

CatalogCommands::~CatalogCommands() = default;

CatalogCommands::CatalogCommands(CLI::App& app, const char* group, const AddSettings& add_settings)
    : options_(std::make_unique<Options>()) {
  Options& o = *options_;
  const auto family = [&](const char* name, const char* description) -> CLI::App& {
    CLI::App& command = *app.add_subcommand(name, description);
    command.group(group)->require_subcommand(1);
    return command;
  };
  const auto add = [&](CLI::App& parent, const char* name, const char* description,
                       std::function<void(Database&)> run) -> CLI::App& {
    CLI::App& command = *parent.add_subcommand(name, description);
    const ReadConfig read = add_settings(command);
    command.callback([read, run = std::move(run)] {
      Database database(read());
      run(database);
    });
    return command;
  };
  const auto in_workspace = [&](CLI::App& command) {
    command
        .add_option("--workspace", o.workspace,
                    "The workspace, by id or name (default: " + o.workspace + ")")
        ->option_text("NAME");
  };
  const CLI::Validator is_name(
      [](const std::string& text) {
        return !text.empty() && text.size() <= kMaxNameBytes
                   ? std::string()
                   : fmt::format("has {} bytes: it must have 1 to {}", text.size(), kMaxNameBytes);
      },
      "");
  const CLI::Range counts(uint64_t{1}, uint64_t{kMaxLimit});
  const auto with_values = [&](CLI::App& command) {
    command.add_option("--limit", o.limit, "Units per duration (default: that of each request)")
        ->check(counts)
        ->option_text("N");
    command
        .add_option("--duration", o.duration,
                    "100ms to 30d; a number is ms (default: that of each request)")
        ->option_text("TIME");
    command.add_option("--algorithm", o.algorithm, "The algorithm (default: that of each request)")
        ->check(CLI::IsMember({"sliding_window", "sliding_window_strict", "fixed_window",
                               "sliding_log", "gcra", "token_bucket"}))
        ->option_text("NAME");
    command
        .add_option("--burst", o.burst, "For gcra and token_bucket (default: that of each request)")
        ->check(counts)
        ->option_text("N");
    command
        .add_option("--consistency", o.consistency,
                    "converge, exact or relaxed (default: that of each request)")
        ->check(CLI::IsMember({"converge", "exact", "relaxed"}))
        ->option_text("NAME");
  };

  CLI::App& workspaces = family("workspaces", "Manage workspaces: tenants that never meet");
  add(workspaces, "create", "Create a workspace and print its id",
      [&o](Database& database) {
        const CatalogWrite write =
            catalog::create_workspace(Database::author(), o.name, platform::entropy());
        database.write({write});
        fmt::print("{}\n", write.row.id);
      })
      .add_option("NAME", o.name, "Its name")
      ->required()
      ->check(is_name);
  add(workspaces, "list", "List the workspaces", [](Database& database) {
    TextTable table({"ID", "NAME", "NAMESPACES"});
    for (const auto& [id, view] : database.snapshot().workspaces()) {
      table.add({id, shown(view->record.name), std::to_string(view->by_id.size())});
    }
    table.print();
  });
  add(workspaces, "delete", "Delete a workspace: its keys end",
      [&o](Database& database) {
        const catalog::Workspace& workspace = database.workspace(o.name).record;
        if (workspace.id == catalog::kDefaultWorkspace)
          stop_with("the default workspace cannot be deleted");
        database.write({catalog::delete_workspace(Database::author(), workspace)});
      })
      .add_option("NAME", o.name, "By id or name")
      ->required();

  CLI::App& keys = family("keys", "Manage keys");
  CLI::App& create_key = add(
      keys, "create", "Create a key and print it: it is shown only now", [&o](Database& database) {
        const auto rights = catalog::PermissionSet::parse(o.permissions);
        if (!rights) stop_with(rights.error());
        const std::string& workspace = database.workspace(o.workspace).record.id;
        stop_if(catalog::refuse_key(database.snapshot(), workspace));
        catalog::KeyValues values{.workspace = workspace,
                                  .name = o.name,
                                  .permissions = o.permissions,
                                  .per_second = o.per_second};
        const catalog::Author author = Database::author();
        if (!o.expires.empty()) values.expires = end_of(o.expires, author.now);
        const catalog::NewKey fresh = catalog::create_key(
            author, values, {platform::entropy(), platform::entropy(), platform::entropy()});
        database.write({fresh.write});
        fmt::print("id   {}\nkey  {}\n", fresh.key.id, fresh.secret);
      });
  create_key.add_option("NAME", o.name, "Its name")->required()->check(is_name);
  create_key
      .add_option("--permission", o.permissions, "Such as ratelimit.*.limit; may be repeated")
      ->required()
      ->option_text("TEXT");
  create_key
      .add_option(
          "--expires", o.expires,
          "It ends after this time, like 90d, or at this date, like 2027-01-01 (default: never)")
      ->option_text("TIME");
  create_key
      .add_option("--per-second", o.per_second,
                  "Requests per second to one server (default: no limit)")
      ->check(counts)
      ->option_text("N");
  in_workspace(create_key);
  in_workspace(add(keys, "list", "List the keys of a workspace", [&o](Database& database) {
    const std::string& workspace = database.workspace(o.workspace).record.id;
    TextTable table({"ID", "NAME", "START", "CREATED", "EXPIRES", "PERMISSIONS"});
    for (const catalog::KeyView* const key : database.snapshot().keys_of(workspace)) {
      const catalog::Key& record = key->record;
      table.add({record.id, shown(record.name), record.start, date_text(record.created),
                 record.expires ? date_text(*record.expires) : "never",
                 with_spaces(record.permissions)});
    }
    table.print();
  }));
  add(keys, "revoke", "End a key everywhere within seconds",
      [&o](Database& database) {
        database.write({catalog::revoke_key(Database::author(), database.key(o.id))});
      })
      .add_option("ID", o.id, "The id of the key")
      ->required();
  CLI::App& rotate =
      add(keys, "rotate", "Create a key with the same rights, and end the old one",
          [&o](Database& database) {
            const Millis grace = o.grace.empty() ? Millis(0) : time_of("--grace", o.grace, kGraces);
            const catalog::Key key = database.key(o.id);
            if (catalog::is_expired(key, Database::author().now)) {
              stop_with({.code = ErrorCode::kInvalidArgument,
                         .field = "ID",
                         .detail = "the key " + o.id + " has expired",
                         .fix = "create another one with weir keys create"});
            }
            // The old key counts until its end.
            if (grace > Millis(0)) stop_if(catalog::refuse_key(database.snapshot(), key.workspace));
            const catalog::Rotation rotation = catalog::rotate_key(
                Database::author(), key, grace,
                {platform::entropy(), platform::entropy(), platform::entropy()});
            database.write({rotation.fresh.write, rotation.old});
            fmt::print("id   {}\nkey  {}\n", rotation.fresh.key.id, rotation.fresh.secret);
          });
  rotate.add_option("ID", o.id, "The id of the key")->required();
  rotate.add_option("--grace", o.grace, "The old key works for this time, like 1h (default: 0s)")
      ->option_text("TIME");

  CLI::App& namespaces = family("namespaces", "Manage namespaces and their limits");
  CLI::App& set_namespace =
      add(namespaces, "set", "Create a namespace, or replace its limit", [&o](Database& database) {
        const catalog::WorkspaceView& workspace = database.workspace(o.workspace);
        const NamespaceView* const known = workspace.find(o.name);
        if (known == nullptr && o.name.starts_with(catalog::kNamespaceIds)) {
          stop_with("a name must not begin with rlns_, as an id does");
        }
        if (known == nullptr) stop_if(catalog::refuse_namespace(workspace));
        const catalog::Author author = Database::author();
        catalog::Namespace ns = catalog::new_namespace(workspace.record.id, o.name, author.now);
        if (known != nullptr) {
          ns = known->record.deleted ? catalog::new_namespace(known->record, author.now)
                                     : known->record;
        }
        const auto applied = known != nullptr ? known->values.duration : std::nullopt;
        catalog::replace_values(ns, applied, o.values(), author.now);
        database.write({catalog::set_namespace(
            author, ns, known == nullptr ? "namespace.create" : "namespace.update")});
        fmt::print("{}\n", ns.id);
      });
  set_namespace.add_option("NAME", o.name, "Its name")->required()->check(is_name);
  with_values(set_namespace);
  in_workspace(set_namespace);
  in_workspace(
      add(namespaces, "list", "List the namespaces of a workspace", [&o](Database& database) {
        TextTable table({"NAME", "ID", "LIMIT", "DURATION", "ALGORITHM", "BURST", "OVERRIDES"});
        for (const auto& [id, view] : database.workspace(o.workspace).by_id) {
          if (view->record.deleted) continue;
          const catalog::LimitValues& values = view->values;
          table.add({shown(view->record.name), id, number_text(values.limit),
                     values.duration ? time_text(*values.duration) : "-",
                     std::string(values.algorithm ? to_string(*values.algorithm) : "-"),
                     number_text(values.burst),
                     std::to_string(view->overrides ? view->overrides->all().size() : 0)});
        }
        table.print();
      }));
  CLI::App& delete_namespace =
      add(namespaces, "delete", "Delete a namespace: its requests are answered with 410",
          [&o](Database& database) {
            database.write({catalog::delete_namespace(Database::author(),
                                                      database.ns(o.workspace, o.name).record)});
          });
  delete_namespace.add_option("NAME", o.name, "By name or id")->required();
  in_workspace(delete_namespace);

  CLI::App& overrides = family("overrides", "Manage limits of single identifiers");
  CLI::App& set_override = add(
      overrides, "set", "Set the limit of an identifier, or of all that match a '*'",
      [&o](Database& database) {
        const Millis duration = time_of("--duration", o.duration, kOverrideDurations);
        const NamespaceView& view = database.ns(o.workspace, o.ns);
        const catalog::OverrideValues values{
            .identifier = o.identifier, .limit = *o.limit, .duration = duration, .burst = o.burst};
        stop_if(catalog::error_in(database.workspace(o.workspace), &view, values));
        const CatalogWrite write = catalog::set_override(Database::author(), view.record, values,
                                                         view.before_override(o.identifier));
        database.write({write});
        fmt::print("{}\n", write.row.id);
      });
  const auto names_override = [&](CLI::App& command) {
    command.add_option("NAMESPACE", o.ns, "By name or id")->required();
    command.add_option("IDENTIFIER", o.identifier, "The identifier; '*' matches any text")
        ->required();
    in_workspace(command);
  };
  names_override(set_override);
  set_override.get_option("IDENTIFIER")->check(is_name);
  set_override.add_option("--limit", o.limit, "Units per duration; 0 denies everything")
      ->required()
      ->check(CLI::Range(uint64_t{0}, uint64_t{kMaxLimit}))
      ->option_text("N");
  set_override.add_option("--duration", o.duration, "1s to 30d; a number is ms")
      ->required()
      ->option_text("TIME");
  set_override
      .add_option("--burst", o.burst,
                  "For gcra and token_bucket (default: that of the namespace or the request, at "
                  "most the limit)")
      ->check(counts)
      ->option_text("N");
  CLI::App& list_overrides =
      add(overrides, "list", "List the overrides of a namespace", [&o](Database& database) {
        TextTable table({"IDENTIFIER", "ID", "LIMIT", "DURATION", "BURST"});
        const NamespaceView& ns = database.ns(o.workspace, o.ns);
        if (ns.overrides) {
          for (const auto& each : ns.overrides->all()) {
            table.add({shown(each->identifier), std::string(each->id.text()),
                       std::to_string(each->limit), time_text(each->duration),
                       number_text(each->burst)});
          }
        }
        table.print();
      });
  list_overrides.add_option("NAMESPACE", o.ns, "By name or id")->required();
  in_workspace(list_overrides);
  names_override(add(overrides, "delete", "Delete an override", [&o](Database& database) {
    const NamespaceView& ns = database.ns(o.workspace, o.ns);
    const catalog::Override* const found =
        ns.overrides ? ns.overrides->find_exact(o.identifier) : nullptr;
    if (found == nullptr) {
      stop_with(fmt::format("there is no override of {}: see weir overrides list", o.identifier));
    }
    database.write({catalog::delete_override(Database::author(), ns.record, *found)});
  }));

  CLI::App& audit = *app.add_subcommand("audit", "Print the changes of the catalog, newest first");
  audit.group(group);
  const ReadConfig read = add_settings(audit);
  audit
      .add_option("--most", o.most,
                  fmt::format("How many entries (default: {}; range: 1 to 10000)", o.most))
      ->check(CLI::Range(size_t{1}, size_t{10'000}))
      ->option_text("N");
  audit.callback([&o, read] {
    Database database(read());
    const auto entries = database.store().read_audit("", {}, o.most);
    if (!entries) stop_with(entries.error());
    for (const catalog::AuditEntry& entry : *entries) {
      fmt::print("{}  {}  {}  {}  {}  {}\n", date_text(entry.at), entry.workspace, entry.actor,
                 entry.action, entry.target, shown(entry.detail));
    }
  });
}

}  // namespace weir::server
