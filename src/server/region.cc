#include "server/region.h"

#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>

#include "command_line/print_error.h"
#include "server/origin_check.h"
#include "server/password.h"

namespace weir::server {
namespace {

// A shorter loss of the origin is not logged.
constexpr Millis kOriginLossLogged{500};

}  // namespace

origins::RedisAddress origin_of(const Config& config) {
  origins::RedisAddress address = *config.origin;
  if (!address.password.empty()) return address;
  address.password =
      password_from("origin-password-file", config.origin_password_file, "WEIR_ORIGIN_PASSWORD");
  return address;
}

Region::Region(const Clock& clock, const Config& config) : clock_(clock) {
  if (!config.origin) return;
  const origins::RedisAddress address = origin_of(config);
  name_ = to_string(address);
  const std::string region = config.has_ledger() ? config.region_name() : "";
  const std::string conflict = find_data_conflict(address, region);
  if (!conflict.empty()) throw std::runtime_error(fmt::format("origin {}: {}", name_, conflict));
  origin_ = origins::make_redis_origin(
      clock, {.address = address,
              .region = region,
              .timeouts = origins::RedisTimeouts::with_deadline(config.read_deadline)});
}

void Region::start() {
  if (!origin_) return;
  unchanged_until_ = clock_.now().mono;
  origin_->start();
}

void Region::stop() {
  if (origin_) origin_->stop();
}

void Region::report(MonoTime now) {
  const std::string refusal = origin_->write_refusal();
  const OriginState state = accepts_writes(origin_->reach()) ? OriginState::kAnswers
                            : refusal.empty()                ? OriginState::kSilent
                                                             : OriginState::kRefusesWrites;
  if (state == reported_) {
    unchanged_until_ = now;
    return;
  }
  if (now - unchanged_until_ < kOriginLossLogged) return;
  reported_ = state;
  const std::string why = origin_->last_error();
  if (state == OriginState::kAnswers) {
    command_line::print_error("weir: the origin {} answers\n", name_);
  } else if (state == OriginState::kRefusesWrites) {
    command_line::print_error(
        "weir: the origin {} refuses writes: {}; decisions use the counts in memory\n", name_,
        refusal);
  } else {
    command_line::print_error(
        "weir: the origin {} does not answer{}{}; decisions use the counts in memory\n", name_,
        why.empty() ? "" : ": ", why);
  }
}

void Region::report(const DrainReport& drained) const {
  if (!origin_) return;
  if (drained.not_replayed == 0) {
    command_line::print_error("weir: all counts were written to the origin\n");
  } else {
    command_line::print_error("weir: the counts of {} tuples were not written to the origin\n",
                              drained.not_replayed);
  }
}

}  // namespace weir::server
