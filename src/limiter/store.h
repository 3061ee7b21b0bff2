// What a limiter is made of, and what its parts share: the counts, the list of those to
// be told, and what it counts about itself. Outlives the limiter while a reply is under
// way.

#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "base/atomic.h"
#include "base/keyed_hash.h"
#include "limiter/book.h"
#include "limiter/incarnation.h"
#include "limiter/memory_plan.h"
#include "memory/byte_budget.h"
#include "memory/dirty_list.h"
#include "memory/lifecycle.h"
#include "memory/sketch.h"
#include "memory/table.h"
#include "memory/tuple_meta.h"
#include "memory/window_cells.h"
#include "telemetry/counters.h"
#include "weir/clock.h"
#include "weir/options.h"

namespace weir::limiter {

enum class Stat : uint8_t {
  kAdmitted,
  kDenied,
  kDegraded,
  kColdReads,
  kStaleReads,
  kStrictReads,
  kColdReadErrors,
  kStaleReadErrors,
  kStrictReadErrors,
  kUnread,
  kMadeStrict,
  kReplayed,
  kReplayErrors,
  kLateReplays,
  kHealed,
  kNoMemory,
  kCount,
};

// Fixed after construction; each part synchronises itself.
struct Store {
  // `seed` is for the hash of keys, and a secret.
  Store(const Clock& the_clock, const Options& options, uint64_t seed)
      : clock(the_clock),
        hash(seed),
        incarnation(make_incarnation(options.seed)),
        origin(options.origin),
        read_deadline(options.read_deadline),
        max_freshness(options.max_freshness),
        on_origin_loss(options.on_origin_loss),
        replay_within(options.replay_within),
        ledger(options.ledger),
        plan(sound_memory_plan(options)),
        budget(plan.memory),
        table(plan.capacity, scope_of(options), &budget),
        sketch(plan.capacity, &budget, kAssuredPages),
        // Without an origin nothing is evicted, and so nothing is counted there.
        forgotten(plan.capacity, options.origin ? &budget : nullptr, kAssuredForgottenPages),
        dirty(options.origin ? table.slots() : 0),
        looks(options.ledger ? table.slots() : 0),
        remote(options.region, remote_tuples_of(options, plan), &budget) {
    using memory::DirtyList;
    if (asks())
      budget.reserve_fixed(memory::MemoryPart::kTable, DirtyList::bytes_for(table.slots()));
    if (shares())
      budget.reserve_fixed(memory::MemoryPart::kTable, DirtyList::bytes_for(table.slots()));
    bound_buffers(budget, plan);
    table.on_evict([this](const memory::Tuple& tuple, const memory::FrozenWords& frozen) {
      remember(tuple, frozen);
    });
  }

  [[nodiscard]] static size_t remote_tuples_of(const Options& options, const MemoryPlan& plan) {
    constexpr size_t kLeast = 1024;
    return options.remote_tuples > 0 ? options.remote_tuples : std::max(kLeast, plan.capacity / 4);
  }

  [[nodiscard]] static memory::Scope scope_of(const Options& options) {
    if (options.origin) return memory::Scope::kRegion;
    return options.ledger ? memory::Scope::kGlobal : memory::Scope::kProcess;
  }

  // From when on the origin has not heard what this process accepted; none: it hears.
  [[nodiscard]] std::optional<MonoTime> tells_fail_since() const {
    const int64_t since = failing_since.load(std::memory_order_relaxed);
    return since == 0 ? std::nullopt : std::optional(MonoTime(Nanos(since)));
  }

  // Whether others count too: in this region, which are asked before a decision; or in others.
  [[nodiscard]] bool shared() const { return asks() || shares(); }
  [[nodiscard]] bool asks() const { return origin != nullptr; }
  [[nodiscard]] bool shares() const { return ledger != nullptr; }
  [[nodiscard]] Component component(uint64_t generation) const {
    return {.incarnation = incarnation, .generation = generation};
  }

  // Forgets expired tuples among the next `slots`; returns how many.
  size_t sweep(WallTime now, size_t slots) {
    // Who waits for a read is decided at the time it asked: what mattered then is kept for it.
    return table.sweep(now - (asks() ? read_deadline : Millis(0)), slots);
  }

  // Who a tuple is to the sketch. Its group is its workspace and namespace.
  [[nodiscard]] memory::Sketch::Subject sketched(const memory::TupleKey& key) const {
    const memory::KeyHeader header = key.header();
    const size_t words =
        base::words_for(header.workspace_bytes()) + base::words_for(header.namespace_bytes());
    const uint64_t lengths = header.workspace_bytes() << 10 | header.namespace_bytes();
    return {.hash = key.hash(),
            .group = hash(key.words(), words, lengths),
            .across_durations = header.duration() == Millis(0)};
  }

  // A tuple makes room for another. What it accepted is at the origin; while that cannot be asked,
  // this is all that is known of it.
  void remember(const memory::Tuple& tuple, const memory::FrozenWords& frozen) {
    const memory::TupleKey key(tuple.slot->header, tuple.slot->key_words(), hash);
    const Millis duration = key.header().duration();
    const int64_t newest = memory::WindowCells(tuple).newest();
    Count accepted = 0;
    for (const uint64_t word : frozen.words) {
      const memory::Tagged own{word};
      accepted += own.count_of(newest) + own.count_of(newest - 1);
    }
    if (accepted == 0) return;
    forgotten.add(
        sketched(key),
        {.now = WallTime(newest * duration), .duration = duration, .ask = {.cost = accepted}});
  }
  // What this process accepted of a tuple before it made room for others, at least.
  [[nodiscard]] Count remembered(const memory::TupleKey& key, const memory::Query& query) {
    return forgotten.counted(sketched(key), query);
  }

  // Whether a window tuple can know anything of this window. If not, nobody has asked for it for so
  // long that its words could be mistaken, or it is of a future that is no more: the clock was set
  // back. It is made anew before the next charge.
  [[nodiscard]] bool is_of_this_time(const memory::Tuple& tuple, int64_t sequence) const {
    return memory::WindowCells(tuple).in_tag_range(sequence) &&
           !memory::is_ahead_of(tuple, clock.now().wall);
  }
  [[nodiscard]] bool is_of_this_time(const memory::Tuple& tuple, const memory::Query& query) const {
    return is_of_this_time(tuple, algorithms::position_of(query.now, query.duration).sequence);
  }

  // Has a window tuple told, again if need be; by a pinned caller.
  void make_dirty(const memory::Tuple& tuple) {
    if (memory::WindowCells(tuple).mark_dirty()) dirty.push(tuple.index);
  }

  // Whether a charge could change what the publish rule says. `before` is what the window had, of
  // whomever; nothing of our own means that it is perhaps the first of a window, and what is
  // watched speaks of another.
  [[nodiscard]] static bool is_news(memory::TupleWatch watch, const Evidence& before, Count cost,
                                    Count limit) {
    return before.own == 0 || limit < watch.limit() ||
           watch.reached_by(before.own + before.siblings + before.foreign + cost);
  }
  // Then the rule is looked at; by a pinned caller.
  void look_after_charge(const memory::Tuple& tuple, memory::TupleWatch watch,
                         const Evidence& before, Count limit, Algorithm algorithm) {
    const memory::WindowCells cells(tuple);
    if (before.own == 0) {
      memory::record_ask(tuple.cold->meta, limit, algorithm);
      cells.reset_watch(limit);
    } else if (limit < watch.limit()) {
      cells.watch_limit(limit);
    }
    looks.push(tuple.index);
  }
  // The same where siblings are known to have more, in this window or the last.
  void look_after_news(const memory::Tuple& tuple, int64_t sequence) {
    if (!shares() || memory::mutated(memory::Mutation::kRuleOnRequestsOnly)) return;
    const memory::WindowCells cells(tuple);
    if (sequence < cells.newest() ||
        cells.watch_seq_cst().reached_by(cells.counted_seq_cst(sequence))) {
      looks.push(tuple.index);
    }
  }

  // Asked only where a reply arrives or a request seems late; a request brings its time.
  const Clock& clock;
  const base::KeyedHash hash;
  const uint64_t incarnation;
  const std::shared_ptr<RegionalOrigin> origin;
  const Millis read_deadline;
  const Millis max_freshness;
  std::atomic<OnOriginLoss> on_origin_loss;  // a choice by itself: relaxed
  const Millis replay_within;
  const std::shared_ptr<GlobalLedger> ledger;

  const MemoryPlan plan;
  memory::ByteBudget budget;
  memory::Table table;
  memory::Sketch sketch;
  memory::Sketch forgotten;            // what tuples had accepted that made room for others
  memory::DirtyList dirty;             // to be told to the origin
  memory::DirtyList looks;             // to be held against the publish rule
  RemoteCounts remote;                 // what other regions count, and what they were told
  std::atomic<bool> behind{false};     // nothing was heard of other regions for too long
  std::atomic<uint64_t> resets{0};     // tuples forgotten on request: saved states may be theirs
  std::atomic<int64_t> replay_lag{0};  // ns that the oldest untold cost has been waiting
  // When the first message to the origin began of those that failed since one was acknowledged:
  // monotonic ns; 0: none. A number alone: relaxed.
  base::Atomic<int64_t> failing_since{0};
  telemetry::Counters<Stat> stats;
};

}  // namespace weir::limiter
