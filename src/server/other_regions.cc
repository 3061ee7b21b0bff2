#include "server/other_regions.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "command_line/print_error.h"
#include "ledgers/sql/make_ledger.h"
#include "ledgers/sql/schema.h"
#include "platform/entropy.h"
#include "server/data_folder.h"
#include "server/password.h"

namespace weir::server {
namespace {

constexpr Millis kClaimTimeout{1000};
// Of a command that a person or a job runs. No request waits for it, and a busy server may need
// long to create tables.
constexpr Millis kCommandConnectTimeout{10'000};
constexpr Millis kCommandTimeout{60'000};
// Rows and batches that one step of `weir ledger clean` deletes.
constexpr size_t kCleanedAtOnce = 10'000;
// A shorter loss of the ledger is not logged.
constexpr Nanos kLedgerLossLogged = Millis(2000);

ledgers::LedgerAddress needed_ledger(const Config& config) {
  const auto address = ledger_of(config);
  if (!address) throw std::runtime_error("ledger is none: name one with --ledger");
  return *address;
}

ledgers::StoreOptions command_options() {
  return {.seed = platform::entropy(),
          .connect_timeout = kCommandConnectTimeout,
          .answer_timeout = kCommandTimeout,
          .lock_timeout = kCommandTimeout / 2};
}

[[noreturn]] void fail(const Error& error) {
  throw std::runtime_error(error.detail + (error.fix.empty() ? "" : "; " + error.fix));
}

}  // namespace

std::optional<ledgers::LedgerAddress> ledger_of(const Config& config) {
  if (!config.has_ledger()) return std::nullopt;
  if (config.ledger_choice == LedgerChoice::kGiven) {
    ledgers::LedgerAddress address = config.ledger;
    if (address.password.empty()) {
      address.password = password_from("ledger-password-file", config.ledger_password_file,
                                       "WEIR_LEDGER_PASSWORD");
    }
    return address;
  }
  return ledgers::LedgerAddress{.kind = ledgers::LedgerKind::kSqlite,
                                .path = ledger_file(config.data)};
}

void migrate(const Config& config) {
  const ledgers::LedgerAddress address = needed_ledger(config);
  const auto store = ledgers::make_store(system_clock(), address, command_options());
  const auto version = store->migrate();
  if (!version) fail(version.error());
  fmt::print("ledger {}: its tables are there, version {}\n", to_string(address), *version);
}

void print_schema(const Config& config) {
  const bool file = needed_ledger(config).kind == ledgers::LedgerKind::kSqlite;
  fmt::print("{}",
             ledgers::schema_sql(file ? ledgers::Dialect::kSqlite : ledgers::Dialect::kMySql));
}

void clean_ledger(const Config& config) {
  const ledgers::LedgerAddress address = needed_ledger(config);
  const auto store = ledgers::make_store(system_clock(), address, command_options());
  size_t deleted = 0;
  for (bool done = false; !done;) {
    const auto cleaning = store->clean(kCleanedAtOnce);
    if (!cleaning) fail(cleaning.error());
    if (!cleaning->ours) {
      fmt::print("ledger {}: another process cleans it now\n", to_string(address));
      return;
    }
    deleted += cleaning->deleted;
    done = cleaning->deleted < kCleanedAtOnce;
  }
  fmt::print("ledger {}: {} expired rows and old batches deleted\n", to_string(address), deleted);
}

LedgerCheck check_ledger(const Config& config) {
  const auto address = ledger_of(config);
  if (!address) return {.usable = true, .text = "ledger none: nothing to connect to\n"};
  if (address->kind == ledgers::LedgerKind::kSqlite && !std::filesystem::exists(address->path)) {
    return {
        .usable = true,
        .text = fmt::format("ledger {}: will be made by the first start\n", to_string(*address))};
  }
  const auto store = ledgers::make_store(system_clock(), *address, {.seed = platform::entropy()});
  const MonoTime began = system_clock().now().mono;
  const auto checked = store->dry_run();
  if (!checked) {
    return {.text = fmt::format("ledger {}: {}\n  {}\n", to_string(*address),
                                checked.error().detail, checked.error().fix)};
  }
  const Nanos took = system_clock().now().mono - began;
  return {.usable = true,
          .text = fmt::format("ledger {}: connected, its tables are there, reads and writes\n"
                              "  answers after {:.1f} ms\n",
                              to_string(*address), static_cast<double>(took.count()) / 1e6)};
}

OtherRegions::OtherRegions(const Clock& clock, const Config& config, const std::string& node,
                           const std::string& folder_trouble)
    : clock_(clock) {
  const auto address = ledger_of(config);
  if (!address) return;
  const bool usual = config.ledger_choice == LedgerChoice::kUsual;
  // The default ledger is optional: a server without a writable folder runs without it.
  if (usual && !folder_trouble.empty()) {
    name_ = fmt::format("none: {} cannot be written to ({}), so a restart loses all counts",
                        config.data, folder_trouble);
    return;
  }
  name_ = to_string(*address);
  ledger_ = ledgers::make_ledger(clock, *address);
  if (usual) return;
  const uint64_t seed = platform::entropy();
  claim_ = std::make_unique<RegionClaim>(
      clock,
      ledgers::make_store(
          clock, *address,
          {.seed = seed, .connect_timeout = kClaimTimeout, .answer_timeout = kClaimTimeout}),
      RegionClaim::Claimant{
          .region = config.region_name(), .node = node, .origin = config.origin.has_value()},
      seed);
}

void OtherRegions::claim_region() {
  if (claim_) claim_->take();
}

void OtherRegions::start() {
  if (!ledger_) return;
  running_ = true;
  ledger_->start();
  if (claim_) claim_->start();
}

void OtherRegions::stop() {
  if (!std::exchange(running_, false)) return;
  if (claim_) claim_->stop();
  ledger_->stop();
}

void OtherRegions::report(const SyncStats& stats) {
  if (claim_) claim_->set_bridge(stats.bridge);
  const bool readable = stats.import_lag < kLedgerLossLogged;
  if (readable != was_readable_) {
    was_readable_ = readable;
    if (readable) {
      command_line::print_error("weir: the ledger {} answers\n", name_);
    } else {
      const std::string why = ledger_->last_error();
      command_line::print_error(
          "weir: the ledger {} does not answer{}{}; counts of other regions are not "
          "imported\n",
          name_, why.empty() ? "" : ": ", why);
    }
  }
  // A ledger that does not answer at all was logged above.
  const bool writable = stats.write_lag == Nanos(0);
  if (writable && !write_errors_.empty()) {
    write_errors_.clear();
    command_line::print_error("weir: the ledger {} accepts writes\n", name_);
  }
  if (!writable && readable) {
    // The first error may be a timeout, and the next one name the cause: each is logged once.
    const std::string why = ledger_->last_write_error();
    if (write_errors_.size() < kMaxWriteErrorsLogged && write_errors_.insert(why).second) {
      command_line::print_error(
          "weir: the ledger {} accepts no writes{}{}; other regions do not see the counts "
          "of this one, and a restart loses new counts\n",
          name_, why.empty() ? "" : ": ", why);
    }
  }
  if (stats.rules_differ && !std::exchange(logged_rules_, true)) {
    command_line::print_error(
        "weir: the ledger {} has other sync rules than this process; the rules of the "
        "ledger apply (table weir_settings)\n",
        name_);
  }
}

void OtherRegions::report(const DrainReport& drained) const {
  if (!ledger_) return;
  if (drained.not_published == 0) {
    command_line::print_error("weir: all counts were written to the ledger\n");
  } else {
    command_line::print_error("weir: {} rows were not written to the ledger\n",
                              drained.not_published);
  }
}

}  // namespace weir::server
