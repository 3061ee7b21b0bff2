// What goes wrong in the world while it is stormy.

#include <algorithm>

#include "sim/world.h"

namespace weir::sim {

namespace {

constexpr Millis kMostSkew{150};  // of the clock that is set now and then
constexpr Millis kMostLate{2000};

}  // namespace

void World::schedule_misfortune() {
  const Millis next(random_.between(100, most_between_misfortunes_.count()));
  timeline_.post_in(next, [this] {
    if (!stormy_) return;
    if (random_.one_in(2)) {
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
    for (const auto& node : nodes_) {
      if (node->serves()) let_connection_die(*node, kMostLate);
    }
  });
}

void World::trouble_a_node() {
  Node* const node = any_that_serves();
  if (node == nullptr) return;
  switch (random_.between(0, 4)) {
    case 0: kill(*node); break;
    case 1: drain(*node); break;
    case 2: isolate(*node); break;
    default: let_connection_die(*node, Millis(random_.between(20, kMostLate.count()))); break;
  }
}

void World::trouble_the_origin() {
  if (origin_road_ != Road::kOpen) return;
  const Millis briefly(random_.between(50, 500));
  const Millis long_time(random_.between(500, 3000));
  const MonoTime now = timeline_.now().mono;
  switch (random_.between(0, 6)) {
    case 0:
      note("the origin is emptied");
      origin_.forget_all();
      break;
    case 1:
      note("the origin starts again, empty");
      origin_.forget_all();
      origin_is_out(Road::kRefused, briefly, [] {});
      break;
    case 2:
      note("the origin starts again from an old snapshot");
      origin_.restore(now - Millis(random_.between(1000, 6000)), Loss::kOldSnapshot);
      origin_is_out(Road::kRefused, briefly, [] {});
      break;
    case 3:
      note("a lagging replica takes the origin's place");
      origin_.restore(now - Millis(random_.between(20, 800)), Loss::kLaggingReplica);
      origin_is_out(Road::kCut, briefly, [] {});
      break;
    case 4:
      note("the origin refuses");
      origin_is_out(Road::kRefused, long_time, [this] { mark(Mark::kRefusingOutageSurvived); });
      break;
    case 5:
      note("the origin is silent");
      origin_is_out(Road::kCut, long_time, [this] { mark(Mark::kSilentOutageSurvived); });
      break;
    default: slow_down(); break;
  }
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
    const int64_t most = kMostSkew.count();
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

// `survived` if answers were given all the same.
void World::origin_is_out(Road road, Millis lasts, const std::function<void()>& survived) {
  origin_road_ = road;
  set_reach();
  const uint64_t before = report_.admitted + report_.denied;
  timeline_.post_in(lasts, [this, survived, before] {
    if (report_.admitted + report_.denied > before) survived();
    origin_road_ = Road::kOpen;
    set_reach();
    reconnect_all();
  });
}

void World::set_reach() {
  for (const auto& node : nodes_) {
    if (!node->runs()) continue;
    node->link->faults.road = node->isolated ? Road::kCut : origin_road_;
  }
}

// Each when it notices.
void World::reconnect_all() {
  for (const auto& node : nodes_) {
    if (!node->runs()) continue;
    timeline_.post_in(Millis(random_.between(0, 100)), [link = node->link] { link->reconnect(); });
  }
}

void World::slow_down() {
  note("the origin is slow");
  const Millis slow(random_.between(160, 500));
  for (const auto& node : nodes_) {
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
  origin_road_ = Road::kOpen;
  for (const auto& node : nodes_) {
    node->isolated = false;
    // A reply must be able to come in time.
    node->usual = {.most_delay = std::min(node->usual.most_delay, promises_.read_deadline / 4)};
    if (node->runs()) {
      const bool was_out = node->link->faults.road != Road::kOpen;
      node->link->faults = node->usual;
      if (was_out) node->link->reconnect();
    } else {
      mark(Mark::kRestarted);
      begin_life(*node);
    }
  }
  calm_since_ = timeline_.now().mono + kMostLate + promises_.read_deadline;
}

}  // namespace weir::sim
