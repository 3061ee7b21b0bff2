#include "server/other_regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <utility>

#include "ledgers/sql/make_ledger.h"
#include "ledgers/sql/schema.h"
#include "platform/entropy.h"
#include "platform/thread_group.h"
#include "server/data_folder.h"
#include "server/password.h"

namespace weir::server {
namespace {

constexpr Millis kShareEvery{10};
constexpr Millis kToLeave{2000};
constexpr Millis kStep{20};
constexpr Millis kToClaim{1000};
// Silences shorter than this are not worth a line.
constexpr Nanos kNoticed = Millis(2000);

ledgers::LedgerAddress needed_ledger(const Config& config) {
  const auto address = ledger_of(config);
  if (!address) throw std::runtime_error("ledger is none: there is nothing to migrate");
  return *address;
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
  const auto store = ledgers::make_store(system_clock(), address, {.seed = platform::entropy()});
  const auto version = store->migrate();
  if (!version) {
    throw std::runtime_error(version.error().detail +
                             (version.error().fix.empty() ? "" : "; " + version.error().fix));
  }
  fmt::print("ledger {}: its tables are there, version {}\n", to_string(address), *version);
}

void print_schema(const Config& config) {
  const bool file = needed_ledger(config).kind == ledgers::LedgerKind::kSqlite;
  fmt::print("{}",
             ledgers::schema_sql(file ? ledgers::Dialect::kSqlite : ledgers::Dialect::kMySql));
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
  const auto rehearsed = store->rehearse();
  if (!rehearsed) {
    return {.text = fmt::format("ledger {}: {}\n  {}\n", to_string(*address),
                                rehearsed.error().detail, rehearsed.error().fix)};
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
  // It is a convenience: a server that may not write anywhere does without.
  if (usual && !folder_trouble.empty()) {
    name_ =
        fmt::format("none: {} cannot be written to ({}), so nothing is remembered over a restart",
                    config.data, folder_trouble);
    return;
  }
  name_ = to_string(*address);
  ledger_ = ledgers::make_ledger(clock, *address);
  if (usual) return;
  const uint64_t seed = platform::entropy();
  claim_ = std::make_unique<RegionClaim>(
      clock,
      ledgers::make_store(clock, *address,
                          {.seed = seed, .connect_timeout = kToClaim, .answer_timeout = kToClaim}),
      RegionClaim::Claimant{
          .region = config.region_name(), .node = node, .origin = config.origin.has_value()},
      seed);
}

void OtherRegions::claim_region() {
  if (claim_) claim_->take();
}

void OtherRegions::start(Limiter& limiter) {
  if (!ledger_) return;
  running_ = true;
  ledger_->start();
  if (claim_) claim_->start();
  sharer_.start();
  sharer_.post([this, &limiter, now = clock_.now().mono] { share(limiter, now); });
}

void OtherRegions::stop() {
  if (!std::exchange(running_, false)) return;
  if (claim_) claim_->stop();
  sharer_.stop();
  ledger_->stop();
}

void OtherRegions::share(Limiter& limiter, MonoTime planned) {
  if (leaving_.load(std::memory_order_relaxed)) return;
  const Instant now = clock_.now();
  limiter.run_sync(now);
  report(limiter.sync_stats(), now.mono);
  const MonoTime next = std::max(planned + kShareEvery, now.mono);
  sharer_.post_at(next, [this, &limiter, next] { share(limiter, next); });
}

// Says once when nothing is heard of other regions or told to them, and once when that is over.
void OtherRegions::report(const SyncStats& stats, MonoTime /*now*/) {
  const bool received = stats.import_lag < kNoticed;
  if (received != was_received_) {
    was_received_ = received;
    if (received) {
      fmt::print(stderr, "weir: the ledger {} answers\n", name_);
    } else {
      const std::string why = ledger_->trouble();
      fmt::print(stderr, "weir: the ledger {} does not answer{}{}; other regions are not heard\n",
                 name_, why.empty() ? "" : ": ", why);
    }
  }
  // Where it does not answer at all, that was said.
  const bool written = stats.write_lag == Nanos(0);
  if (written != was_written_ && (written || received)) {
    was_written_ = written;
    if (written) {
      fmt::print(stderr, "weir: the ledger {} accepts writes\n", name_);
    } else {
      const std::string why = ledger_->write_trouble();
      fmt::print(stderr,
                 "weir: the ledger {} accepts no writes{}{}; other regions do not hear of this "
                 "one, and a restart forgets what is counted now\n",
                 name_, why.empty() ? "" : ": ", why);
    }
  }
  if (stats.rules_differ && !std::exchange(acked_of_rules_, true)) {
    fmt::print(stderr,
               "weir: the ledger {} has other rules of sharing than this process was given; "
               "those of the ledger count (table weir_settings)\n",
               name_);
  }
}

void OtherRegions::leave(Limiter& limiter) {
  if (!ledger_) return;
  leaving_.store(true, std::memory_order_relaxed);
  const auto write_all = [&] {
    std::promise<WorkReport> done;
    sharer_.post([&] { done.set_value(limiter.run_sync(clock_.now(), Flush::kAll)); });
    return done.get_future().get();
  };
  const MonoTime until = clock_.now().mono + kToLeave;
  size_t waiting = write_all().waiting;
  while (waiting > 0 && clock_.now().mono < until) {
    platform::ThreadGroup::rest(kStep);
    waiting = write_all().waiting;
  }
  if (waiting == 0) {
    fmt::print(stderr, "weir: other regions were told all that they need to know\n");
  } else {
    fmt::print(stderr, "weir: {} cells could not be told to other regions\n", waiting);
  }
}

}  // namespace weir::server
