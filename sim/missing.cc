#include "sim/missing.h"

#include <algorithm>

#include "memory/tuple_key.h"

namespace weir::sim {

Millis duration_of(const CellId& cell) {
  memory::KeyHeader header;
  std::copy_n(cell.tuple.data(), sizeof header.word, reinterpret_cast<char*>(&header.word));
  return header.duration();
}

WallTime expiry_of(const CellId& cell) {
  return WallTime((cell.sequence + 2) * duration_of(cell));
}

bool matters_at(const CellId& cell, WallTime now) {
  return now < expiry_of(cell);
}

bool went_astray(const Life& life, const CellId& cell) {
  if (life.astray_until == WallTime{}) return false;
  // No world lasts that long, so such a window is one that the wrong clock showed.
  constexpr Millis kFarAhead{1'800'000};
  const WallTime start(cell.sequence * duration_of(cell));
  return start - duration_of(cell) < life.astray_until || start - kFarAhead > life.astray_until;
}

bool any_went_astray(const Truth& truth, const CellId& cell) {
  const auto& accounts = truth.accounts(cell);
  return std::any_of(accounts.begin(), accounts.end(), [&](const auto& account) {
    return went_astray(truth.life(account.first.life), cell);
  });
}

bool is_gone(const WorldView& world, const Account& account, const CellId& cell) {
  const Life& life = world.truth.life(account.life);
  if (life.ended) return true;
  const NodeView& node = world.nodes.at(static_cast<size_t>(life.node));
  return node.generation_of(cell.tuple) != account.generation;
}

const std::vector<Stood>& stood_of(const WorldView& world, const Account& account,
                                   const CellId& cell) {
  return world.origin.stood(cell, {.incarnation = world.truth.life(account.life).incarnation,
                                   .generation = account.generation});
}

Missing missing_of(const WorldView& world, const CellId& cell) {
  Missing missing;
  for (const auto& [account, accepted] : world.truth.accounts(cell)) {
    if (!is_gone(world, account, cell)) continue;
    Count most = 0;
    Count last = 0;
    for (const Stood& stood : stood_of(world, account, cell)) {
      most = std::max(most, stood.count);
      last = stood.count;
    }
    missing.died_unacked += accepted - most;
    missing.lost_with_origin += most - last;
  }
  return missing;
}

namespace {

// Whether an accept that never arrived before `until` may still have been missing then.
bool excused_until(const WorldView& world, const Life& life, const CellId& cell,
                   const Accept& accept, MonoTime until) {
  if (went_astray(life, cell)) return true;
  const MonoTime at = life.ended ? std::min(until, life.ended->mono) : until;
  const Nanos arrives_within = world.promises.acked_within + life.most_delay;
  if (at - accept.when <= arrives_within) return true;
  const MonoTime recent = at - world.promises.read_deadline - arrives_within;
  return life.had_trouble(std::max(accept.when, recent), at);
}

}  // namespace

Standing standing_of(const WorldView& world, const CellId& cell, const Accept& accept,
                     MonoTime since) {
  const Life& life = world.truth.life(accept.account.life);
  Standing standing = Standing::kThere;
  // Each stretch of time during which it was missing, the one before the first write too.
  const auto look = [&](const Stood& stood, MonoTime until) {
    if (stood.count >= accept.total || until < since) return;
    const bool excused =
        stood.most_before >= accept.total || excused_until(world, life, cell, accept, until);
    standing = excused && standing != Standing::kOverdue ? Standing::kExcused : Standing::kOverdue;
  };
  Stood stood{.since = accept.when};
  for (const Stood& next : stood_of(world, accept.account, cell)) {
    look(stood, next.since);
    stood = next;
  }
  look(stood, world.now.mono);
  return standing;
}

}  // namespace weir::sim
