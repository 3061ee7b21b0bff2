#include "sim/fleets/admission_log.h"

#include <algorithm>
#include <charconv>

namespace weir::sim {
namespace {

// A region that leaves more unpublished than usual reports that at once, and other regions read it
// with their next heartbeat, or detect that they read nothing. They detect a silent region after 6
// s.
constexpr Millis kBoundReceivedWithin{10'000};

}  // namespace

Request request_for(const FleetKey& key, Count cost) {
  return {.ns = key.ns,
          .identifier = key.identifier,
          .limit = key.limit,
          .duration = key.duration,
          .cost = cost,
          .algorithm = key.algorithm,
          .burst = key.burst};
}

size_t AdmissionLog::add(FleetKey key) {
  key.identifier = std::string("k").append(std::to_string(keys_.size()));
  keys_.push_back({.is = std::move(key), .logs = {}});
  return keys_.size() - 1;
}

std::optional<size_t> AdmissionLog::find(const std::string& identifier) const {
  size_t number = 0;
  const char* const end = identifier.data() + identifier.size();
  if (identifier.size() < 2 || identifier.front() != 'k') return std::nullopt;
  const auto [stop, error] = std::from_chars(identifier.data() + 1, end, number);
  if (error != std::errc() || stop != end || number >= keys_.size()) return std::nullopt;
  return number;
}

AdmissionLog::Local& AdmissionLog::Log::of(uint32_t region) {
  for (Local& local : by_region) {
    if (local.region == region) return local;
  }
  by_region.push_back(
      {.region = region, .admitted = {}, .published = 0, .sent = {}, .received_by = {}});
  return by_region.back();
}

std::vector<AdmissionLog::Admission> AdmissionLog::Log::all() const {
  std::vector<Admission> all;
  for (const Local& local : by_region) {
    all.insert(all.end(), local.admitted.begin(), local.admitted.end());
  }
  std::sort(all.begin(), all.end(),
            [](const Admission& a, const Admission& b) { return a.when < b.when; });
  return all;
}

AdmissionLog::Log* AdmissionLog::Key::find(int64_t sequence) {
  const auto found = std::find_if(logs.begin(), logs.end(),
                                  [&](const Log& log) { return log.sequence == sequence; });
  return found == logs.end() ? nullptr : &*found;
}

AdmissionLog::Log& AdmissionLog::log_at(Key& key, const Moment& moment) {
  const int64_t sequence = moment.requested_at.time_since_epoch() / key.is.duration;
  if (Log* const log = key.find(sequence)) {
    log->used = moment.now;
    return *log;
  }
  // The window before this one is over. Its predecessor, which is about to be replaced, is still
  // here.
  Log* const last = key.find(sequence - 1);
  if (measuring() && last != nullptr) update_trailing(key.is, *last, key.find(sequence - 2));
  // A window that was used a short while ago is not over: the clock of this request is ahead.
  const auto over = std::find_if(key.logs.begin(), key.logs.end(), [&](const Log& log) {
    return log.sequence < sequence - 1 && log.used <= moment.now - Nanos(key.is.duration);
  });
  Log& log = over == key.logs.end() ? key.logs.emplace_back() : *over;
  if (counts(key, log)) cells_.push_back(cell_of(static_cast<size_t>(&key - keys_.data()), log));
  log = {};
  log.sequence = sequence;
  log.used = moment.now;
  return log;
}

void AdmissionLog::admit(size_t number, const Moment& moment, Count cost) {
  Log& log = log_at(keys_[number], moment);
  log.admitted += cost;
  std::vector<Admission>& list = log.of(moment.region).admitted;
  const Count before = list.empty() ? 0 : list.back().total;
  list.push_back({.when = moment.now,
                  .cost = cost,
                  .total = before + cost,
                  .bound = static_cast<float>(moment.bound)});
}

void AdmissionLog::refuse(size_t number, const Moment& moment, Count cost) {
  log_at(keys_[number], moment).refused += cost;
}

// Computes the largest sum of the window and the end of the one before, at each admission.
void AdmissionLog::update_trailing(const FleetKey& key, Log& log, const Log* before) {
  std::vector<Admission> all;
  if (before != nullptr) all = before->all();
  const std::vector<Admission> now = log.all();
  all.insert(all.end(), now.begin(), now.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const Admission& a, const Admission& b) { return a.when < b.when; });
  size_t left = 0;
  Count in_view = 0;
  log.trailing = 0;
  for (const Admission& admission : all) {
    in_view += admission.cost;
    for (; all[left].when <= admission.when - Nanos(key.duration); ++left) {
      in_view -= all[left].cost;
    }
    log.trailing = std::max(log.trailing, in_view);
  }
}

AdmissionLog::Log* AdmissionLog::log_of(const LedgerRow& row) {
  const auto number = find(row.key.identifier);
  if (!number) return nullptr;
  return keys_[*number].find(row.sequence);
}

void AdmissionLog::send(uint32_t region, const LedgerRow& row, MonoTime now) {
  Log* const log = log_of(row);
  if (log == nullptr) return;
  Local& local = log->of(region);
  if (row.count <= local.published) ++repeated_;
  local.published = std::max(local.published, row.count);
  local.sent.try_emplace(row.count, now);
}

void AdmissionLog::receive(const Receiver& receiver, uint32_t from, const LedgerRow& row) {
  if (from == receiver.region) return;
  const auto number = find(row.key.identifier);
  if (!number) return;
  // Only regions that use the key count.
  const std::vector<uint32_t>& used_in = keys_[*number].is.regions;
  if (used_in.size() < 2) return;
  if (std::find(used_in.begin(), used_in.end(), receiver.region) == used_in.end()) return;
  Log* const log = log_of(row);
  if (log == nullptr) return;
  Local& local = log->of(from);
  const std::vector<Admission>& admitted = local.admitted;
  if (admitted.empty() || admitted.back().total < row.count) return;
  auto known = std::find_if(local.received_by.begin(), local.received_by.end(),
                            [&](const auto& each) { return each.first == receiver.process; });
  if (known == local.received_by.end()) {
    known = local.received_by.insert(known, {receiver.process, 0});
  }
  const Count before = known->second;
  if (before >= row.count) return;
  known->second = row.count;
  if (!measuring()) return;
  const auto since = [&](MonoTime then) {
    return static_cast<float>((receiver.usable_at - then).count()) / 1e6F;
  };
  const auto sent = local.sent.find(row.count);
  if (sent != local.sent.end()) delays_.travel.push_back(since(sent->second));
  const auto first = std::upper_bound(
      admitted.begin(), admitted.end(), before,
      [](Count count, const Admission& admission) { return count < admission.total; });
  for (auto i = first; i != admitted.end() && i->total <= row.count; ++i) {
    delays_.age.push_back(since(i->when));
  }
}

FleetCell AdmissionLog::cell_of(size_t number, const Log& log) const {
  const Key& key = keys_[number];
  FleetCell cell{.key = number,
                 .sequence = log.sequence,
                 .limit = key.is.limit,
                 .admitted = log.admitted,
                 .refused = log.refused,
                 .trailing = log.trailing};
  const std::vector<Admission> all = log.all();
  const bool shared =
      key.is.algorithm == Algorithm::kSlidingWindow || key.is.algorithm == Algorithm::kFixedWindow;
  size_t next = 0, next_known = 0;
  Count so_far = 0, old = 0, known = 0;
  for (const Admission& admission : all) {
    so_far += admission.cost;
    for (; all[next].when <= admission.when - excused_; ++next) old += all[next].cost;
    cell.unexcused = std::max(cell.unexcused, old);
    cell.recent = so_far - old;
    const MonoTime received = admission.when - excused_ - kBoundReceivedWithin;
    for (; all[next_known].when <= received; ++next_known) known += all[next_known].cost;
    if (!shared || admission.bound <= 0) continue;
    const double beyond = cell.in_limits(known) - static_cast<double>(admission.bound);
    cell.beyond_bound = std::max(cell.beyond_bound, beyond);
  }
  return cell;
}

bool AdmissionLog::counts(const Key& key, const Log& log) const {
  return measuring() && log.admitted + log.refused > 0 &&
         WallTime(log.sequence * key.is.duration) >= *measured_from_;
}

void AdmissionLog::begin_measuring(WallTime now) {
  measured_from_ = now;
  cells_.clear();
  delays_ = {};
}

std::vector<FleetCell> AdmissionLog::cells() const {
  std::vector<FleetCell> all = cells_;
  for (size_t i = 0; i < keys_.size(); ++i) {
    for (const Log& log : keys_[i].logs) {
      if (!counts(keys_[i], log)) continue;
      Log seen = log;
      const auto before =
          std::find_if(keys_[i].logs.begin(), keys_[i].logs.end(),
                       [&](const Log& each) { return each.sequence == log.sequence - 1; });
      if (seen.trailing == 0) {
        update_trailing(keys_[i].is, seen, before == keys_[i].logs.end() ? nullptr : &*before);
      }
      all.push_back(cell_of(i, seen));
    }
  }
  return all;
}

}  // namespace weir::sim
