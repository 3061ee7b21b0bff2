#include "sim/fleet/fleet.h"

#include <algorithm>
#include <utility>

#include "origins/in_process_origin.h"

namespace weir::sim {

SharingRules floor_rules() {
  return {.policy = PublishPolicy::kFloor,
          .publish_every = Millis(10'000),
          .import_every = Millis(10'000),
          .rows_per_second = 1'000'000,
          .floor_permille = 500};
}

namespace {

Request request_for(const FleetKey& key) {
  return {.name_space = key.name_space,
          .identifier = key.identifier,
          .limit = static_cast<int64_t>(key.limit),
          .duration = key.duration,
          .algorithm = key.algorithm};
}

}  // namespace

std::string Fleet::region_name(uint32_t region) {
  return std::string("r").append(std::to_string(region));
}

Fleet::Fleet(const FleetOptions& options)
    : options_(options),
      timeline_(options.seed),
      random_(options.seed * 0x9e3779b97f4a7c15ULL),
      ledger_(std::make_shared<ledgers::MemoryLedger>(timeline_)),
      of_region_(options.regions),
      loads_(options.regions) {
  for (uint32_t i = 0; i < options_.processes; ++i) of_region_[region_of(i)].push_back(i);
  std::vector<std::shared_ptr<RegionalOrigin>> origins;
  for (uint32_t region = 0; region < options_.regions; ++region) {
    origins.push_back(std::make_shared<origins::InProcessOrigin>(timeline_));
    by_region_name_[region_name(region)] = region;
  }
  const Millis further = options_.to_ledger_most - options_.to_ledger_least;
  for (uint32_t i = 0; i < options_.processes; ++i) {
    const uint32_t region = region_of(i);
    const auto& siblings = of_region_[region];
    const NearOrigin::Seat seat{.rank = i / options_.regions,
                                .nodes = static_cast<uint32_t>(siblings.size()),
                                .one_way = options_.to_origin};
    const Millis far =
        options_.to_ledger_least + further * region / std::max(1U, options_.regions - 1);
    Process process;
    process.origin = std::make_shared<NearOrigin>(timeline_, origins[region], seat);
    process.ledger = std::make_shared<FarLedger>(
        timeline_, ledger_->as_seen_by_another(), far, loads_[region],
        FarLedger::Watches{.sent = [this, region](const LedgerNews& news) { send(region, news); },
                           .heard = [this, i](const LedgerNews& news) { hear(i, news); }});
    process.limiter = std::make_unique<Limiter>(timeline_, Options{.origin = process.origin,
                                                                   .ledger = process.ledger,
                                                                   .region = region_name(region),
                                                                   .sharing = options_.rules,
                                                                   .capacity = options_.capacity,
                                                                   .seed = random_.next()});
    processes_.push_back(std::move(process));
  }
}

// Requests under way keep their limiter alive until they are answered or given up.
Fleet::~Fleet() {
  constexpr Millis kGivenUp{1000};
  const MonoTime end = timeline_.now().mono + kGivenUp;
  while (timeline_.step(end)) {
  }
}

size_t Fleet::add(FleetKey key) {
  by_identifier_[key.identifier] = keys_.size();
  keys_.push_back({.is = std::move(key), .logs = {}});
  return keys_.size() - 1;
}

Limiter& Fleet::any_of(uint32_t region) {
  const auto& siblings = of_region_[region];
  return *processes_[siblings[random_.next() % siblings.size()]].limiter;
}

void Fleet::ask(size_t key, uint32_t region) {
  const Instant asked = now();
  any_of(region).check_async(asked, request_for(keys_[key].is), timeline_,
                             [this, key, region, asked](const Result<Verdict>& verdict) {
                               if (verdict) note(key, region, asked, *verdict);
                             });
}

void Fleet::ask_once(const FleetKey& key, uint32_t region) {
  any_of(region).check_async(now(), request_for(key), timeline_, [](const Result<Verdict>&) {});
}

void Fleet::run_for(Millis span, const std::function<void()>& each) {
  each_ = &each;
  const Millis end = elapsed_ + span;
  while (elapsed_ < end) {
    const MonoTime next = timeline_.now().mono + Millis(1);
    timeline_.post_at(next, [this] { tick(); });
    const Millis before = elapsed_;
    while (elapsed_ == before && timeline_.step(next)) {
    }
  }
}

void Fleet::tick() {
  const auto at = static_cast<uint64_t>(elapsed_.count());
  for (uint64_t i = at % kTurn.count(); i < processes_.size(); i += kTurn.count()) {
    take_turn(static_cast<uint32_t>(i));
  }
  (*each_)();
  ++elapsed_;
}

void Fleet::take_turn(uint32_t process) {
  // All of a table in about ten seconds.
  const size_t slots = options_.capacity / 500;
  Limiter& limiter = *processes_[process].limiter;
  const Instant now = timeline_.now();
  limiter.run_replay(now, timeline_);
  const bool timed = measuring_ && options_.processor_time != nullptr;
  const Nanos before = timed ? options_.processor_time() : Nanos(0);
  limiter.run_sharing(now);
  if (timed) sharing_time_ += options_.processor_time() - before;
  limiter.run_sweep(now, slots);
}

Fleet::Log& Fleet::log_at(Key& key, int64_t sequence) {
  Log& log = key.logs[static_cast<size_t>(sequence % 2)];
  if (log.sequence < sequence) {
    keep(static_cast<size_t>(&key - keys_.data()), log);
    log = {};
    log.sequence = sequence;
    if (key.is.regions.size() > 1) log.when.resize(options_.regions);
  }
  return log;
}

void Fleet::note(size_t number, uint32_t region, Instant asked, const Verdict& verdict) {
  Key& key = keys_[number];
  // The window of a request is that in which it was asked.
  Log& log = log_at(key, asked.wall.time_since_epoch() / key.is.duration);
  if (!verdict.admitted()) {
    ++refused_;
    ++log.refused;
    return;
  }
  ++admitted_;
  ++log.admitted;
  if (!log.when.empty()) log.when[region].push_back(timeline_.now().mono);
}

Fleet::Log* Fleet::log_of(const LedgerRow& row) {
  const auto found = by_identifier_.find(row.key.identifier);
  if (found == by_identifier_.end()) return nullptr;
  Log& log = keys_[found->second].logs[static_cast<size_t>(row.sequence % 2)];
  return log.sequence == row.sequence ? &log : nullptr;
}

void Fleet::send(uint32_t region, const LedgerNews& news) {
  for (const LedgerRow& row : news.rows) {
    Log* log = log_of(row);
    if (log == nullptr) continue;
    Count& told = log->told[region];
    if (row.count <= told) ++repeated_;
    told = std::max(told, row.count);
    if (!log->when.empty()) log->sent.try_emplace({region, row.count}, now().mono);
  }
}

// A row reached a process, which uses it from its next turn on.
void Fleet::hear(uint32_t process, const LedgerNews& news) {
  const auto period = static_cast<uint64_t>(kTurn.count());
  const auto at = static_cast<uint64_t>(elapsed_.count()) % period;
  const Millis to_turn(static_cast<int64_t>((process % period + period - at) % period));
  const MonoTime used = now().mono + to_turn;
  for (const LedgerRow& row : news.rows) {
    Log* log = log_of(row);
    if (log == nullptr || log->when.empty()) continue;
    // Who has no use for it does not count.
    const auto& used_in = keys_[by_identifier_[row.key.identifier]].is.regions;
    const uint32_t here = region_of(process);
    if (std::find(used_in.begin(), used_in.end(), here) == used_in.end()) continue;
    const uint32_t region = by_region_name_[row.region];
    const auto& admitted = log->when[region];
    if (region == here || admitted.size() < row.count) continue;
    Count& known = log->heard[{process, region}];
    if (known >= row.count) continue;
    if (measuring_) {
      const auto since = [&](MonoTime then) {
        return static_cast<float>((used - then).count()) / 1e6F;
      };
      delays_.travel.push_back(since(log->sent[{region, row.count}]));
      for (Count i = known; i < row.count; ++i) delays_.age.push_back(since(admitted[i]));
    }
    known = row.count;
  }
}

FleetCell Fleet::cell_of(size_t number, const Log& log) const {
  const Key& key = keys_[number];
  FleetCell cell{.key = number,
                 .sequence = log.sequence,
                 .limit = key.is.limit,
                 .admitted = log.admitted,
                 .refused = log.refused};
  std::vector<MonoTime> all;
  for (const auto& times : log.when) all.insert(all.end(), times.begin(), times.end());
  std::sort(all.begin(), all.end());
  const Nanos excused = 2 * Nanos(longest_delay());
  size_t old = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    while (all[old] <= all[i] - excused) ++old;
    cell.unexcused = std::max<Count>(cell.unexcused, old);
    cell.recent = i + 1 - old;
  }
  return cell;
}

void Fleet::keep(size_t key, const Log& log) {
  if (!measuring_ || log.when.empty() || log.admitted + log.refused == 0) return;
  if (WallTime(log.sequence * keys_[key].is.duration) < measured_from_) return;
  cells_.push_back(cell_of(key, log));
}

void Fleet::begin_measuring() {
  measuring_ = true;
  measured_from_ = timeline_.now().wall;
  cells_.clear();
  delays_ = {};
  sharing_time_ = {};
}

std::vector<FleetCell> Fleet::cells() const {
  std::vector<FleetCell> all = cells_;
  for (size_t i = 0; i < keys_.size(); ++i) {
    for (const Log& log : keys_[i].logs) {
      if (log.when.empty() || log.admitted + log.refused == 0) continue;
      if (WallTime(log.sequence * keys_[i].is.duration) >= measured_from_) {
        all.push_back(cell_of(i, log));
      }
    }
  }
  return all;
}

LedgerLoad Fleet::load() const {
  LedgerLoad sum;
  for (const LedgerLoad& load : loads_) sum += load;
  return sum;
}

Count Fleet::admitted_now(size_t key) const {
  const int64_t sequence = timeline_.now().wall.time_since_epoch() / keys_[key].is.duration;
  const Log& log = keys_[key].logs[static_cast<size_t>(sequence % 2)];
  return log.sequence == sequence ? log.admitted : 0;
}

SharingStats Fleet::sharing_stats(uint32_t process) const {
  return processes_[process].limiter->sharing_stats();
}

Millis Fleet::longest_delay() const {
  const SharingRules& rules = options_.rules;
  const auto with_jitter = [](Millis every) { return every + every / 5 + kTurn; };
  const Millis there_and_back = 2 * options_.to_ledger_most + kTurn;
  const Millis round = with_jitter(rules.publish_every);
  const Millis import = std::max(with_jitter(rules.import_every), there_and_back);
  Millis longest = round + options_.to_ledger_most + import + there_and_back;
  if (options_.processes > options_.regions) {
    // The others of the region hear of it, wait for the one who should go first, and ask.
    const Millis heard = Options{}.replay_within + kTurn + 2 * options_.to_origin;
    const Millis asked = 2 * options_.to_origin + kTurn + round;
    longest += heard + round + std::max(rules.publish_every, there_and_back) + asked;
  }
  return longest;
}

}  // namespace weir::sim
