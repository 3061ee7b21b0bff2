// What goes wrong in the world while it is stormy.

#include <algorithm>

#include "sim/world.h"

namespace weir::sim {

namespace {

constexpr Millis kMostJump{150};  // of the clock that is set now and then
constexpr Millis kMostLate{2000};

}  // namespace

void World::schedule_misfortune() {
  const Millis next(random_.between(100, most_between_misfortunes_.count()));
  timeline_.post_in(next, [this] {
    if (!stormy_) return;
    if (ledger_ && random_.one_in(3)) {
      trouble_the_ledger();
    } else if (random_.one_in(2)) {
      trouble_a_node();
    } else {
      trouble_the_origin();
    }
    schedule_misfortune();
  });
}

// Connections that die a second before it is calm leave writes that land when nobody accepts
// anything any more: only reading finds out what they lowered.
void World::schedule_last_deaths() {
  timeline_.post_in(options_.stormy - Millis(1000), [this] {
    for_each_node([this](Node& node) {
      if (node.serves()) let_connection_die(node, kMostLate);
    });
  });
}

void World::trouble_a_node() {
  Node* const node = any_that_serves();
  if (node == nullptr) return;
  const auto kind = static_cast<WorldFault>(std::min<int64_t>(random_.between(0, 4), 3));
  static_assert(static_cast<int>(WorldFault::kDeadConnections) == 3);
  if (!happens(kind)) return;
  switch (kind) {
    case WorldFault::kKills: kill(*node); break;
    case WorldFault::kDrains: drain(*node); break;
    case WorldFault::kIsolation: isolate(*node); break;
    default: let_connection_die(*node, Millis(random_.between(20, kMostLate.count()))); break;
  }
}

void World::trouble_the_origin() {
  Region& region = any_region();
  WatchedOrigin& origin = *region.origin;
  if (region.origin_road != Road::kOpen) return;
  const Millis briefly(random_.between(50, 500));
  const Millis long_time(random_.between(500, 3000));
  const int64_t what = random_.between(0, 6);
  if (!happens(what <= 3 ? WorldFault::kOriginForgets : WorldFault::kOriginAway)) return;
  note_trouble();
  const MonoTime now = timeline_.now().mono;
  switch (what) {
    case 0:
      note("the origin is emptied");
      origin.forget_all();
      break;
    case 1:
      note("the origin starts again, empty");
      origin.forget_all();
      origin_is_out(region, Road::kRefused, briefly, [] {});
      break;
    case 2:
      note("the origin starts again from an old snapshot");
      origin.restore(now - Millis(random_.between(1000, 6000)), Loss::kOldSnapshot);
      origin_is_out(region, Road::kRefused, briefly, [] {});
      break;
    case 3:
      note("a lagging replica takes the origin's place");
      origin.restore(now - Millis(random_.between(20, 800)), Loss::kLaggingReplica);
      origin_is_out(region, Road::kCut, briefly, [] {});
      break;
    case 4:
      note("the origin refuses");
      origin_is_out(region, Road::kRefused, long_time,
                    [this] { mark(Mark::kRefusingOutageSurvived); });
      break;
    case 5:
      note("the origin is silent");
      origin_is_out(region, Road::kCut, long_time, [this] { mark(Mark::kSilentOutageSurvived); });
      break;
    default: slow_down(region); break;
  }
}

// Something that was told to other regions, or by them, comes late or not at all: what the
// invariants that speak of delays allow for.
void World::note_trouble() {
  const MonoTime now = timeline_.now().mono;
  if (!trouble_began_ || now - last_trouble_ > kRecovery) trouble_began_ = now;
  last_trouble_ = now;
}

void World::trouble_the_ledger() {
  if (ledger_road_ != Road::kOpen) return;
  const Millis lasts(random_.between(300, 4000));
  const int64_t what = random_.between(0, 6);
  const WorldFault kind = what <= 3   ? WorldFault::kLedgerAway
                          : what <= 5 ? WorldFault::kLedgerForgets
                                      : WorldFault::kRefusedRows;
  if (!happens(kind)) return;
  note_trouble();
  switch (what) {
    case 0:
      note("the ledger refuses");
      ledger_is_out(Road::kRefused, lasts);
      break;
    case 1:
      note("the ledger is silent");
      ledger_is_out(Road::kCut, lasts);
      break;
    case 2: region_is_cut_off(any_region(), Road::kRefused, lasts); break;
    case 3: region_is_cut_off(any_region(), Road::kCut, lasts); break;
    case 4: {
      note("a lagging replica takes the ledger's place");
      const Millis skew(random_.between(-3000, 3000));
      ledger_->fail_over(timeline_.now().mono - Millis(random_.between(50, 4000)), skew);
      failed_over_ = true;
      ledger_is_out(Road::kRefused, Millis(random_.between(50, 500)));
      break;
    }
    case 5:
      note("the ledger's clock is set");
      ledger_->set_skew(Millis(random_.between(-2000, 2000)));
      break;
    default: blame_a_tuple(); break;
  }
}

void World::ledger_is_out(Road road, Millis lasts) {
  ledger_road_ = road;
  set_reach();
  timeline_.post_in(lasts, [this] {
    note_trouble();
    ledger_road_ = Road::kOpen;
    set_reach();
  });
}

void World::region_is_cut_off(Region& region, Road road, Millis lasts) {
  if (region.ledger_road != Road::kOpen) return;
  note(region.name + " cannot reach the ledger");
  region.ledger_road = road;
  set_reach();
  timeline_.post_in(lasts, [this, &region] {
    note_trouble();
    region.ledger_road = Road::kOpen;
    set_reach();
  });
}

// Rows of one tuple are refused for what they are, for a while.
void World::blame_a_tuple() {
  Node* const node = any_that_serves();
  if (node == nullptr) return;
  note("rows of one tuple are refused");
  node->ledger->blamed_name = "user-" + std::to_string(random_.between(0, options_.tuples - 1));
  timeline_.post_in(Millis(random_.between(200, 2000)),
                    [link = node->ledger] { link->blamed_name.clear(); });
}

void World::let_connection_die(Node& node, Millis late) {
  node.link->die_holding_for(late);
  note("the connection of node " + std::to_string(node.index) + " dies");
}

// Cut off, but alive and asked.
void World::isolate(Node& node) {
  note("node " + std::to_string(node.index) + " is isolated");
  node.isolated = true;
  set_reach();
  timeline_.post_in(Millis(random_.between(300, 2500)), [this, &node] {
    if (!node.isolated) return;
    note("node " + std::to_string(node.index) + " is back");
    node.isolated = false;
    set_reach();
    if (node.runs()) node.link->reconnect();
  });
}

// Now and then just after a whole second, when windows begin, and back over it.
void World::schedule_clock() {
  const bool over_a_start = random_.one_in(3);
  const Millis second(1000);
  const Millis to_start = second - unsteady_->clock.now().wall.time_since_epoch() % second;
  const Millis delay =
      over_a_start ? to_start + Millis(random_.between(5, 60)) : Millis(random_.between(50, 800));
  timeline_.post_in(delay, [this, over_a_start] {
    if (!stormy_) return;
    const int64_t most = kMostJump.count();
    set_clock(
        Millis(over_a_start ? random_.between(-most, -most / 2) : random_.between(-most, most)));
    schedule_clock();
  });
}

void World::set_clock(Millis skew) {
  note("the clock of node " + std::to_string(unsteady_->index) +
       " is set, ms off: " + std::to_string(skew.count()));
  unsteady_->clock.set_skew(skew);
}

// The clock of any one is set hours ahead or back, and right again some seconds later. Others have
// to do with it: what it accepted and had not told is lost.
void World::schedule_astray() {
  timeline_.post_in(Millis(random_.between(500, 8000)), [this] {
    if (!stormy_) return;
    schedule_astray();
    Node* const node = any_that_serves();
    if (node == nullptr || node == unsteady_ || node->astray) return;
    const Millis hours(random_.between(1, 12) * 3'600'000 + random_.between(0, 60'000));
    set_astray(*node, random_.one_in(3) ? -hours : hours);
    timeline_.post_in(Millis(random_.between(200, 5000)), [this, node] {
      if (node->astray) set_right(*node);
    });
  });
}

void World::set_astray(Node& node, Millis skew) {
  note("the clock of node " + std::to_string(node.index) + " is off by ms",
       static_cast<uint64_t>(skew.count()));
  note_trouble();
  node.astray = true;
  node.right_skew = node.clock.skew();
  node.clock.set_skew(node.right_skew + skew);
  if (node.life != nullptr) node.life->astray_until = WallTime::max();
}

void World::set_right(Node& node) {
  note("the clock of node " + std::to_string(node.index) + " is right again");
  note_trouble();
  node.astray = false;
  node.clock.set_skew(node.right_skew);
  node.clock.forget_latest();
  mark(Mark::kClockHoursOff);
  if (node.life != nullptr) node.life->astray_until = node.clock.now().wall;
}

// All together: windows begin as if all that time had passed, and everything before is over.
void World::schedule_leap() {
  timeline_.post_in(Millis(random_.between(1000, 8000)), [this] {
    if (!stormy_) return;
    schedule_leap();
    // Clocks count nanoseconds in 63 bits, which are over in 2262.
    constexpr WallTime kEndOfTime{Millis(9'000'000'000'000)};
    const int64_t windows = int64_t{1} << random_.between(16, 32);
    const Millis ahead = windows * tuples_.back().duration + Millis(random_.between(-2000, 2000));
    if (timeline_.now().wall + ahead > kEndOfTime) return;
    note("all clocks leap, by windows", static_cast<uint64_t>(windows));
    note_trouble();
    mark(Mark::kLeapOfClocks);
    timeline_.leap(ahead);
    leapt_ = timeline_.now().mono;
  });
}

// `survived` if answers were given all the same.
void World::origin_is_out(Region& region, Road road, Millis lasts,
                          const std::function<void()>& survived) {
  region.origin_road = road;
  set_reach();
  const uint64_t before = report_.admitted + report_.denied;
  timeline_.post_in(lasts, [this, &region, survived, before] {
    if (report_.admitted + report_.denied > before) survived();
    note_trouble();
    region.origin_road = Road::kOpen;
    set_reach();
    reconnect_all(region);
  });
}

void World::set_reach() {
  for_each_node([this](Node& node) {
    if (!node.runs()) return;
    const Region& region = region_of(node);
    node.link->faults.road = node.isolated ? Road::kCut : region.origin_road;
    if (!node.ledger) return;
    node.ledger->faults.road = ledger_road_ != Road::kOpen ? ledger_road_ : region.ledger_road;
  });
}

// Each when it notices.
void World::reconnect_all(Region& region) {
  for (const auto& node : region.nodes) {
    if (!node->runs()) continue;
    timeline_.post_in(Millis(random_.between(0, 100)), [link = node->link] { link->reconnect(); });
  }
}

void World::slow_down(Region& region) {
  note("the origin is slow");
  const Millis slow(random_.between(160, 500));
  for (const auto& node : region.nodes) {
    if (!node->runs()) continue;
    node->link->faults.slow = slow;
    timeline_.post_in(Millis(random_.between(300, 1500)),
                      [link = node->link] { link->faults.slow = Millis(0); });
  }
}

// Faults stop, and everything that was begun comes to its end. Then everyone asks for
// everything again and again, without consuming, and goes on telling.
void World::make_calm() {
  note("it is calm");
  stormy_ = false;
  ledger_road_ = Road::kOpen;
  for (const auto& region : regions_) {
    region->origin_road = Road::kOpen;
    region->ledger_road = Road::kOpen;
  }
  for_each_node([this](Node& node) {
    node.isolated = false;
    if (node.astray) set_right(node);
    // A reply must be able to come in time.
    node.usual = {.most_delay = std::min(node.usual.most_delay, promises_.read_deadline / 4)};
    node.usual_ledger = {.most_delay = node.usual_ledger.most_delay};
    if (node.runs()) {
      const bool was_out = node.link->faults.road != Road::kOpen;
      node.link->faults = node.usual;
      if (node.ledger) {
        node.ledger->faults = node.usual_ledger;
        node.ledger->blamed_name.clear();
      }
      if (was_out) node.link->reconnect();
    } else {
      mark(Mark::kRestarted);
      begin_life(node);
    }
  });
  calm_since_ = timeline_.now().mono + kMostLate + promises_.read_deadline;
  // What was asked of the ledger in vain is asked again.
  if (ledger_ && options_.weather != Weather::kFair) *calm_since_ += kRecovery;
}

}  // namespace weir::sim
