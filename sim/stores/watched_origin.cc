#include "sim/stores/watched_origin.h"

#include <algorithm>

#include "base/wide.h"
#include "origins/step_rule.h"

namespace weir::sim {

namespace {

Count count_of(const Components& components, const Component& component) {
  const auto found = components.find(component);
  return found == components.end() ? 0 : found->second;
}

Count sum_without(const Components& components, const Component& excluded) {
  Count sum = 0;
  for (const auto& [component, count] : components) {
    if (component != excluded) sum = base::saturating_add(sum, count);
  }
  return sum;
}

}  // namespace

class WatchedOrigin::Endpoint final : public RegionalOrigin, public StepStore, public ExactStore {
 public:
  Endpoint(WatchedOrigin& watched, int process)
      : watched_(watched), bridge_(watched.bridge_), process_(process) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    std::vector<CellTotals> totals;
    for (const CellRead& cell : cells) totals.push_back(watched_.read(cell));
    reply(std::move(totals));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    std::vector<CellTotals> totals;
    for (const CellReplay& cell : cells) {
      totals.push_back(watched_.write(process_, cell, cell.total));
    }
    reply(std::move(totals));
  }
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override {
    for (const CellRetirement& retired : cells) watched_.retire(retired);
    reply(cells.size());
  }
  void step(std::vector<CellStep> steps, StepReply reply) override {
    std::vector<StepTotals> totals;
    for (const CellStep& step : steps) totals.push_back(watched_.step(process_, step));
    reply(std::move(totals));
  }
  [[nodiscard]] StepStore* step_store() override { return this; }
  void decide(std::vector<ExactCall> calls, ExactReply reply) override {
    std::vector<ExactAnswer> answers;
    for (const ExactCall& call : calls) answers.push_back(watched_.decide(call));
    reply(std::move(answers));
  }
  [[nodiscard]] ExactStore* exact_store() override { return this; }
  [[nodiscard]] BridgeStore* bridge_store() override { return &bridge_; }

 private:
  WatchedOrigin& watched_;
  BridgeEndpoint bridge_;
  int process_;
};

std::shared_ptr<RegionalOrigin> WatchedOrigin::endpoint_of(int process) {
  return std::make_shared<Endpoint>(*this, process);
}

CellTotals WatchedOrigin::read(const CellRead& read) {
  CellTotals received = totals(read);
  if (planted_bug_ == PlantedBug::kOriginReadsStale) {
    const Moment old = moment_at(read.cell, clock_.now().mono - Millis(3000));
    received.siblings = sum_without(old.components, read.reader);
  }
  return with_bug(read.cell, read.reader, received);
}

CellTotals WatchedOrigin::totals(const CellRead& read) {
  CellTotals totals;
  CellRead components = read;
  components.with_regions = false;
  origin_.read({components}, [&](const auto& answer) { totals = answer->at(0); });
  totals.refused = refused_.contains(read.cell);
  if (read.with_regions) {
    totals.regions =
        std::make_shared<const std::vector<RegionCount>>(bridge_.data.counts(read.cell.tuple));
  }
  return totals;
}

void WatchedOrigin::retire(const CellRetirement& retired) {
  drop_expired();
  const auto cell = cells_.find(retired.cell);
  if (cell == cells_.end()) return;
  const auto part = cell->second.components.extract(retired.writer);
  if (part.empty()) return;
  cell->second.components[kDeparted] += part.mapped();
  cell->second.folded.emplace(retired.writer, part.mapped());
  origin_.retire({retired}, [](const auto&) {});
  note(retired.cell);
}

void WatchedOrigin::raise_departed(const std::string& tuple, const CellFloor& floor) {
  const WallTime expires_at = floor.expires_at + expiry_margin_;
  if (expires_at <= clock_.now().wall) return;
  drop_expired();
  const CellId id{tuple, floor.sequence};
  Count written = 0;
  for (const auto& [component, count] : components(id)) {
    if (is_written_again(component, floor)) written = base::saturating_add(written, count);
  }
  if (written >= floor.total) return;
  Cell& cell = cells_[id];
  cell.expires_at = std::max(cell.expires_at, expires_at);
  Count& departed = cell.components[kDeparted];
  if (floor.total - written <= departed) return;
  restored_[id] += floor.total - written - departed;
  departed = floor.total - written;
  origin_.replay(
      {{.cell = id, .writer = kDeparted, .total = departed, .expires_at = cell.expires_at}},
      [](const auto&) {});
  note(id);
}

Count WatchedOrigin::restored(const CellId& cell) const {
  const auto found = restored_.find(cell);
  return found == restored_.end() ? 0 : found->second;
}

Count WatchedOrigin::total(const CellId& cell) const {
  Count sum = 0;
  for (const auto& [component, count] : components(cell)) sum = base::saturating_add(sum, count);
  return sum;
}

StepTotals WatchedOrigin::step(int process, const CellStep& step) {
  const CellId last{step.cell.tuple, step.cell.sequence - 1};
  StepTotals result{.current = read({.cell = step.cell, .reader = step.writer}),
                    .last = read({.cell = last, .reader = step.writer}),
                    .granted = {}};
  origins::StepGrant grant = origins::grant(step, result.current, result.last);
  granted_[step.cell] += grant.total - step.own;
  Count& raised = raised_[{step.cell, step.writer}];
  raised = std::max(raised, grant.total);
  CellReplay replay{.cell = step.cell,
                    .writer = step.writer,
                    .total = std::max(grant.total, result.current.mine),
                    .expires_at = step.expires_at,
                    .limit_seen = step.limit_seen,
                    .due = step.due};
  result.current = write(process, replay, step.own);
  if (grant.refused) refused_.insert(step.cell);
  result.current.refused = refused_.contains(step.cell);
  if (step.with_regions) {
    result.current.regions =
        std::make_shared<const std::vector<RegionCount>>(bridge_.data.counts(step.cell.tuple));
  }
  result.granted = std::move(grant.granted);
  return result;
}

ExactAnswer WatchedOrigin::decide(const ExactCall& call) {
  const WallTime now = clock_.now().wall;
  exact_.delete_expired(now);
  const size_t tuples = exact_.size();
  ExactAnswer answer = exact_.decide(call, now);
  // The state had expired, and with it what was known of the calls of all writers.
  if (exact_.size() > tuples) {
    std::erase_if(last_calls_, [&](const auto& each) { return each.first.first == call.tuple; });
  }
  // A call that is sent again changes nothing, unless it was denied the first time.
  uint64_t& last = last_calls_[{call.tuple, call.writer}];
  if (call.number <= last) return answer;
  if (answer.changed) last = call.number;
  ExactHistory& history = exact_history_[call.tuple];
  if (!answer.decisions.empty()) note_charges(call, answer, history);
  if (answer.changed) history.charged_at = clock_.now().mono;
  for (size_t i = 0; i < answer.decisions.size(); ++i) {
    if (answer.decisions[i].outcome != Outcome::kAdmitted) continue;
    // A forgotten call that is sent again is decided again; its requests are answered once.
    const bool first = granted_asks_.emplace(call.tuple, call.writer, call.number, i).second;
    if (first) history.granted += call.asks[i].cost;
  }
  return answer;
}

void WatchedOrigin::note_charges(const ExactCall& call, const ExactAnswer& answer,
                                 ExactHistory& history) {
  // The state had expired: the origin does not know what it was told.
  if (answer.version == 0) {
    std::erase_if(told_, [&](const auto& each) { return each.first.first == call.tuple; });
    history.told = history.charged = 0;
    history.foreign_sequence = -1;
  }
  Count& told = told_[{call.tuple, call.writer}];
  // A call that tells nothing is not remembered: an earlier one may arrive after it, when the
  // origin has lost its states.
  const Count more = base::saturating_sub(call.own, std::max(told, call.acked));
  if (more > 0) told = call.own;
  history.told += more;
  history.charged += answer.charged;
  if (answer.charged > more) ++foreign_charges_;
  if (call.foreign + call.foreign_last == 0) return;
  const bool first =
      history.foreign_sequence < 0 || call.foreign_sequence - history.foreign_sequence > 1;
  if (first) history.first_foreign.push_back(clock_.now().mono);
  history.foreign_sequence = std::max(history.foreign_sequence, call.foreign_sequence);
}

Count WatchedOrigin::told_by(const std::string& tuple, uint64_t incarnation) const {
  Count sum = 0;
  for (const auto& [by, told] : told_) {
    if (by.first == tuple && by.second.incarnation == incarnation) sum += told;
  }
  return sum;
}

void WatchedOrigin::forget_exact() {
  exact_ = {};
  exact_lost_at_ = clock_.now().mono;
  last_calls_.clear();
  told_.clear();
  for (auto& [tuple, history] : exact_history_) {
    history.told = 0;
    history.charged = 0;
    history.foreign_sequence = -1;
  }
}

CellTotals WatchedOrigin::write(int process, const CellReplay& replay, Count told) {
  const Components before = components(replay.cell);
  const Count had = count_of(before, replay.writer);
  const bool expired = replay.expires_at + expiry_margin_ <= clock_.now().wall;
  const bool drops = planted_bug_ == PlantedBug::kOriginHidesDroppedWrites && replay.total > had &&
                     random_.one_in(4);
  if (drops) {
    claimed_[{replay.cell, replay.writer}] = replay.total;
  } else if (replay.total > 0 && !expired) {
    store(replay, had);
    note(replay.cell);
  }
  if (!drops && !expired) bridge_.data.note_replay(replay);
  observer_({.process = process,
             .replay = replay,
             .told = told,
             .before = before,
             .after = components(replay.cell)});

  const auto lost = lost_.find({replay.cell, replay.writer});
  if (lost != lost_.end() && replay.total >= lost->second.had) {
    ++repaired_[static_cast<size_t>(lost->second.loss)];
    lost_.erase(lost);
  }
  CellTotals received = totals({.cell = replay.cell, .reader = replay.writer});
  // An expired cell needs no replay.
  if (expired) received.mine = replay.total;
  return with_bug(replay.cell, replay.writer, received);
}

void WatchedOrigin::store(const CellReplay& replay, Count before) {
  CellReplay stored = replay;
  stored.due = Due::kNever;  // bridge_ has it
  stored.expires_at += expiry_margin_;
  if (planted_bug_ == PlantedBug::kOriginAdds) stored.total += before;
  drop_expired();
  Cell& cell = cells_[replay.cell];
  cell.expires_at = stored.expires_at;
  // The Redis origin does not write less than a step has raised the component to.
  const auto raised = raised_.find({replay.cell, replay.writer});
  const bool below_step = raised != raised_.end() && stored.total < raised->second;
  if (writing_ == Writing::kSet && stored.total < before && !below_step) {
    auto lowered = cells_;
    lowered[replay.cell].components[replay.writer] = stored.total;
    replace_all(std::move(lowered), Loss::kLateWrite);
    return;
  }
  cell.components[replay.writer] = std::max(before, stored.total);
  origin_.replay({stored}, [](const auto&) {});
}

// The store keeps the larger count, so a smaller one needs a new store.
void WatchedOrigin::replace_all(std::map<CellId, Cell> cells, Loss loss) {
  for (const auto& [id, cell] : cells_) {
    for (const auto& [component, had] : cell.components) {
      if (count_of(cells[id].components, component) >= had) continue;
      Lost& lost = lost_[{id, component}];
      lost = {.had = std::max(lost.had, had), .loss = loss};
    }
  }
  const std::map<CellId, Cell> old = std::exchange(cells_, std::move(cells));
  origin_.clear();
  refused_.clear();
  for (const auto& [id, cell] : cells_) {
    for (const auto& [component, count] : cell.components) {
      origin_.replay(
          {{.cell = id, .writer = component, .total = count, .expires_at = cell.expires_at}},
          [](const auto&) {});
    }
  }
  for (const auto& [id, cell] : old) note(id);
}

void WatchedOrigin::forget_all() {
  bridge_.data.forget_all();
  forget_exact();
  replace_all({}, Loss::kForgot);
}

void WatchedOrigin::restore(MonoTime as_of, Loss loss) {
  drop_expired();
  std::map<CellId, Cell> was;
  for (const auto& [id, cell] : cells_) {
    const Moment moment = moment_at(id, as_of);
    was[id] = {
        .expires_at = cell.expires_at, .components = moment.components, .folded = moment.folded};
  }
  forget_exact();
  replace_all(std::move(was), loss);
  bridge_.data.go_back(as_of);
}

void WatchedOrigin::drop_expired() {
  const WallTime now = clock_.now().wall;
  std::erase_if(cells_, [now](const auto& entry) { return entry.second.expires_at <= now; });
}

CellTotals WatchedOrigin::with_bug(const CellId& cell, const Component& reader, CellTotals totals) {
  if (planted_bug_ == PlantedBug::kOriginHidesLosses) {
    Count& claimed = claimed_[{cell, reader}];
    claimed = std::max(claimed, totals.mine);
  }
  const auto claimed = claimed_.find({cell, reader});
  if (claimed != claimed_.end()) totals.mine = std::max(totals.mine, claimed->second);
  return totals;
}

// Records changes only.
void WatchedOrigin::note(const CellId& cell) {
  const MonoTime now = clock_.now().mono;
  const Components components = origin_.components(cell);
  std::vector<Moment>& moments = history_[cell];
  const Moment last = moments.empty() ? Moment{} : moments.back();
  if (components == last.components) return;
  const auto held = cells_.find(cell);
  const Components folded = held == cells_.end() ? Components{} : held->second.folded;
  moments.push_back({.when = now, .components = components, .folded = folded});
  const auto stands = [&](const Component& component) {
    std::vector<ComponentValue>& entry = component_values_[{cell, component}];
    const Count count = count_of(components, component) + count_of(folded, component);
    if (!entry.empty() && entry.back().count == count) return;
    const Count most = entry.empty() ? 0 : std::max(entry.back().max_before, entry.back().count);
    entry.push_back({.since = now, .count = count, .max_before = most});
  };
  for (const Components& each : {last.components, last.folded, components, folded}) {
    for (const auto& [component, count] : each) stands(component);
  }
}

std::vector<WatchedOrigin::Moment>::const_iterator WatchedOrigin::first_after(
    const std::vector<Moment>& moments, MonoTime when) {
  return std::upper_bound(moments.begin(), moments.end(), when,
                          [](MonoTime at, const Moment& moment) { return at < moment.when; });
}

WatchedOrigin::Moment WatchedOrigin::moment_at(const CellId& cell, MonoTime when) const {
  const auto found = history_.find(cell);
  if (found == history_.end()) return {};
  const auto after = first_after(found->second, when);
  return after == found->second.begin() ? Moment{} : *(after - 1);
}

Count WatchedOrigin::least_others_since(const CellId& cell, const Component& excluded,
                                        MonoTime since) const {
  const auto found = history_.find(cell);
  if (found == history_.end()) return 0;
  const std::vector<Moment>& moments = found->second;
  // The last entry before that time was valid then.
  auto moment = first_after(moments, since);
  if (moment == moments.begin()) return 0;
  Count least = sum_without((moment - 1)->components, excluded);
  for (; moment != moments.end(); ++moment) {
    least = std::min(least, sum_without(moment->components, excluded));
  }
  return least;
}

const std::vector<ComponentValue>& WatchedOrigin::component_history(
    const CellId& cell, const Component& component) const {
  static const std::vector<ComponentValue> kNever;
  const auto found = component_values_.find({cell, component});
  return found == component_values_.end() ? kNever : found->second;
}

bool WatchedOrigin::has_lost(const CellId& cell) const {
  return std::any_of(component_values_.begin(), component_values_.end(), [&](const auto& each) {
    const auto& [component, values] = each;
    return component.first == cell &&
           std::any_of(values.begin(), values.end(),
                       [](const ComponentValue& value) { return value.count < value.max_before; });
  });
}

}  // namespace weir::sim
