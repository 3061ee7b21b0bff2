#include "sim/watched_origin.h"

#include <algorithm>

#include "base/wide.h"

namespace weir::sim {

namespace {

// A cell outlives its last use by this, so that clocks may differ a little.
constexpr Millis kExpiryMargin{5000};

Count count_of(const Components& components, const Component& component) {
  const auto found = components.find(component);
  return found == components.end() ? 0 : found->second;
}

Count sum_without(const Components& components, const Component& without) {
  Count sum = 0;
  for (const auto& [component, count] : components) {
    if (component != without) sum = base::saturating_add(sum, count);
  }
  return sum;
}

}  // namespace

class WatchedOrigin::Door final : public RegionalOrigin {
 public:
  Door(WatchedOrigin& watched, int life) : watched_(watched), life_(life) {}

  void read(std::vector<CellRead> cells, OriginReply reply) override {
    std::vector<CellTotals> totals;
    for (const CellRead& cell : cells) totals.push_back(watched_.read(cell));
    reply(std::move(totals));
  }
  void replay(std::vector<CellReplay> cells, OriginReply reply) override {
    std::vector<CellTotals> totals;
    for (const CellReplay& cell : cells) totals.push_back(watched_.write(life_, cell));
    reply(std::move(totals));
  }
  void note_published(std::vector<CellPublished> cells) override {
    for (const CellPublished& word : cells) watched_.keep(word);
  }
  void retire(std::vector<CellRetirement> cells, RetirementReply reply) override {
    for (const CellRetirement& leaver : cells) watched_.retire(leaver);
    reply(cells.size());
  }

 private:
  WatchedOrigin& watched_;
  int life_;
};

std::shared_ptr<RegionalOrigin> WatchedOrigin::door_of(int life) {
  return std::make_shared<Door>(*this, life);
}

CellTotals WatchedOrigin::read(const CellRead& read) {
  CellTotals received = totals(read);
  if (plant_ == Plant::kOriginReadsStale) {
    const Moment old = moment_at(read.cell, clock_.now().mono - Millis(3000));
    received.siblings = sum_without(old.components, read.reader);
  }
  return disguised(read.cell, read.reader, received);
}

CellTotals WatchedOrigin::totals(const CellRead& read) {
  CellTotals totals;
  origin_.read({read}, [&](const auto& answer) { totals = answer->at(0); });
  totals.published = published(read.cell);
  return totals;
}

// Nobody's component, so no write to be witnessed.
void WatchedOrigin::keep(const CellPublished& word) {
  const WallTime expires_at = word.expires_at + kExpiryMargin;
  if (word.total == 0 || expires_at <= clock_.now().wall) return;
  drop_expired();
  Cell& cell = cells_[word.cell];
  cell.expires_at = expires_at;
  cell.published = writing_ == Writing::kSet ? word.total : std::max(cell.published, word.total);
  note(word.cell);
}

void WatchedOrigin::retire(const CellRetirement& leaver) {
  drop_expired();
  const auto cell = cells_.find(leaver.cell);
  if (cell == cells_.end()) return;
  const auto part = cell->second.components.extract(leaver.writer);
  if (part.empty()) return;
  cell->second.components[kDeparted] += part.mapped();
  cell->second.folded.emplace(leaver.writer, part.mapped());
  origin_.retire({leaver}, [](const auto&) {});
  note(leaver.cell);
}

Count WatchedOrigin::published(const CellId& cell) const {
  const auto found = cells_.find(cell);
  if (found == cells_.end() || found->second.expires_at <= clock_.now().wall) return 0;
  return found->second.published;
}

CellTotals WatchedOrigin::write(int life, const CellReplay& acked) {
  const Components before = components(acked.cell);
  const Count had = count_of(before, acked.writer);
  const bool expired = acked.expires_at + kExpiryMargin <= clock_.now().wall;
  const bool drops =
      plant_ == Plant::kOriginDropsAndHides && acked.total > had && random_.one_in(4);
  if (drops) {
    claimed_[{acked.cell, acked.writer}] = acked.total;
  } else if (acked.total > 0 && !expired) {
    store(acked, had);
    note(acked.cell);
  }
  witness_({.life = life, .acked = acked, .before = before, .after = components(acked.cell)});

  const auto fallen = fallen_.find({acked.cell, acked.writer});
  if (fallen != fallen_.end() && acked.total >= fallen->second.had) {
    ++healed_[static_cast<size_t>(fallen->second.loss)];
    fallen_.erase(fallen);
  }
  CellTotals received = totals({.cell = acked.cell, .reader = acked.writer});
  // An expired cell needs no telling: as good as told.
  if (expired) received.mine = acked.total;
  return disguised(acked.cell, acked.writer, received);
}

void WatchedOrigin::store(const CellReplay& acked, Count before) {
  CellReplay stored = acked;
  stored.expires_at += kExpiryMargin;
  if (plant_ == Plant::kOriginAdds) stored.total += before;
  drop_expired();
  Cell& cell = cells_[acked.cell];
  cell.expires_at = stored.expires_at;
  if (writing_ == Writing::kSet && stored.total < before) {
    auto lowered = cells_;
    lowered[acked.cell].components[acked.writer] = stored.total;
    put_back(std::move(lowered), Loss::kLateWrite);
    return;
  }
  cell.components[acked.writer] = std::max(before, stored.total);
  origin_.replay({stored}, [](const auto&) {});
}

// The store keeps the greater of two, so what shall fall must be put there anew.
void WatchedOrigin::put_back(std::map<CellId, Cell> cells, Loss loss) {
  for (const auto& [id, cell] : cells_) {
    for (const auto& [component, had] : cell.components) {
      if (count_of(cells[id].components, component) >= had) continue;
      Fallen& fallen = fallen_[{id, component}];
      fallen = {.had = std::max(fallen.had, had), .loss = loss};
    }
  }
  const std::map<CellId, Cell> old = std::exchange(cells_, std::move(cells));
  origin_.clear();
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
  put_back({}, Loss::kForgot);
}

void WatchedOrigin::restore(MonoTime as_of, Loss loss) {
  drop_expired();
  std::map<CellId, Cell> was;
  for (const auto& [id, cell] : cells_) {
    const Moment moment = moment_at(id, as_of);
    was[id] = {.expires_at = cell.expires_at,
               .components = moment.components,
               .folded = moment.folded,
               .published = moment.published};
  }
  put_back(std::move(was), loss);
}

void WatchedOrigin::drop_expired() {
  const WallTime now = clock_.now().wall;
  std::erase_if(cells_, [now](const auto& entry) { return entry.second.expires_at <= now; });
}

CellTotals WatchedOrigin::disguised(const CellId& cell, const Component& reader,
                                    CellTotals totals) {
  if (plant_ == Plant::kOriginHidesFalls) {
    Count& claimed = claimed_[{cell, reader}];
    claimed = std::max(claimed, totals.mine);
  }
  const auto claimed = claimed_.find({cell, reader});
  if (claimed != claimed_.end()) totals.mine = std::max(totals.mine, claimed->second);
  return totals;
}

// Only what changes is worth remembering.
void WatchedOrigin::note(const CellId& cell) {
  const MonoTime now = clock_.now().mono;
  const Components components = origin_.components(cell);
  std::vector<Moment>& moments = history_[cell];
  const Moment last = moments.empty() ? Moment{} : moments.back();
  const Count word = published(cell);
  if (components == last.components && word == last.published) return;
  const auto held = cells_.find(cell);
  const Components folded = held == cells_.end() ? Components{} : held->second.folded;
  moments.push_back({.when = now, .components = components, .folded = folded, .published = word});
  const auto stands = [&](const Component& component) {
    std::vector<Stood>& stood = stood_[{cell, component}];
    const Count count = count_of(components, component) + count_of(folded, component);
    if (!stood.empty() && stood.back().count == count) return;
    const Count most = stood.empty() ? 0 : std::max(stood.back().most_before, stood.back().count);
    stood.push_back({.since = now, .count = count, .most_before = most});
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

Count WatchedOrigin::least_others_since(const CellId& cell, const Component& without,
                                        MonoTime since) const {
  const auto found = history_.find(cell);
  if (found == history_.end()) return 0;
  const std::vector<Moment>& moments = found->second;
  // The last of those from before is what was there then.
  auto moment = first_after(moments, since);
  if (moment == moments.begin()) return 0;
  Count least = sum_without((moment - 1)->components, without);
  for (; moment != moments.end(); ++moment) {
    least = std::min(least, sum_without(moment->components, without));
  }
  return least;
}

const std::vector<Stood>& WatchedOrigin::stood(const CellId& cell,
                                               const Component& component) const {
  static const std::vector<Stood> kNever;
  const auto found = stood_.find({cell, component});
  return found == stood_.end() ? kNever : found->second;
}

}  // namespace weir::sim
