// Construction, and the entry points that begin with the fast path: check(), check_each() and
// check_each_async().

#include "decide/engine.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/countdown.h"
#include "base/inline.h"
#include "decide/fast_path.h"
#include "decide/validate.h"
#include "memory/window_cells.h"
#include "platform/entropy.h"

namespace weir::decide {

using memory::CellClass;
using memory::Scope;
using memory::WindowCells;
using regional::ReadRequirement;
using telemetry::Stat;

namespace {

// Requests that are interleaved: few enough to stay in the cache between two passes.
constexpr size_t kGroup = 16;

WEIR_HOT_INLINE Path path_of(const Request& request, const base::KeyedHash& secret,
                             FastKey& fast_key) {
  const Path path = classify(request, secret, fast_key);
  if (path != Path::kSlow) return path;
  return fast_key.header != 0 && validate(request) == nullptr ? Path::kFound : Path::kSlow;
}

template <std::memory_order kFirstLook>
WEIR_HOT_INLINE void guess_slots(const memory::Table& table,
                                 const std::array<FastKey, kGroup>& fast_key, size_t begin,
                                 size_t end, std::array<memory::Slot*, kGroup>& guesses) {
  for (size_t i = begin; i < end; ++i) {
    guesses[i] = table.prefetch_slot<kFirstLook>(fast_key[i].hash);
  }
}

// Whether there is one verdict per request; if not, writes the error into each verdict.
bool sizes_match(size_t requests, std::span<Result<Verdict>> verdicts) {
  if (requests == verdicts.size()) [[likely]]
    return true;
  const auto error = validate_sizes(requests, verdicts.size());
  for (Result<Verdict>& verdict : verdicts) verdict = *error;
  return false;
}

}  // namespace

Engine::Engine(const Clock& clock, const Options& options)
    : state_(clock, options, options.seed ? *options.seed : platform::entropy()),
      decider_(state_),
      refresh_(options.origin ? std::make_shared<regional::Refresh>(state_.tuples, state_.region,
                                                                    state_.merger, state_.counters)
                              : nullptr),
      steps_(options.origin && options.origin->step_store() != nullptr
                 ? std::make_shared<regional::Steps>(state_.tuples, state_.region,
                                                     state_.publish_watch, state_.merger,
                                                     state_.counters)
                 : nullptr),
      has_exact_store_(steps_ != nullptr && options.origin->exact_store() != nullptr),
      is_region_(options.ledger != nullptr && options.origin == nullptr && options.other_regions),
      replay_(options.origin
                  ? std::make_shared<regional::Replay>(state_.tuples, state_.region, state_.merger,
                                                       steps_, state_.counters)
                  : nullptr),
      sync_(options.ledger
                ? std::make_shared<global::RegionSync>(state_.tuples, state_.region, state_.global,
                                                       state_.publish_watch, options.sync)
                : nullptr) {
  state_.region->region_counts = sync_;
}

Result<Verdict> Engine::check(Instant now, const Request& request) {
  Result<Verdict> result;  // the only object returned, so that it is built in place
  if (request.past != nullptr || !check_fast(now, request, result.value())) [[unlikely]]
    check_slow(now, request, result);
  return result;
}

// Calls nothing unless it has to, so that everything stays in registers: see fast_path.h.
WEIR_HOT_INLINE bool Engine::check_fast(Instant now, const Request& request, Verdict& verdict) {
  FastKey fast_key;
  epoch::ThreadRecord* const thread = epoch::FastGuard::available();
  memory::TupleStore& tuples = *state_.tuples;
  const Path path = classify(request, tuples.hash, fast_key);
  const bool is_shared = tuples.is_shared() && (path == Path::kWindow || is_region_);
  if (path == Path::kSlow || is_shared || thread == nullptr) [[unlikely]] {
    return false;
  }
  const epoch::FastGuard guard(*thread);
  memory::Slot* const slot = tuples.table.find(
      fast_key.hash, [&](const memory::Slot& found) { return is_of(found, fast_key, request); });
  if (slot == nullptr) [[unlikely]]
    return false;
  if (!admit_fast<Scope::kProcess>(path, tuples.table.tuple_of(*slot), now, request, kRelaxed,
                                   verdict)) [[unlikely]] {
    return check_found(*slot, now, request, verdict);
  }
  state_.counters->add_for(*thread, Stat::kAdmitted);
  return true;
}

// A ring or a log that is in the table needs no context. Not on the fast path: path_of() calls
// functions.
bool Engine::check_known(Instant now, const Request& request, Verdict& verdict) {
  if (memory::class_of(request.algorithm) == CellClass::kWindow) return false;
  FastKey fast_key;
  epoch::ThreadRecord* const thread = epoch::FastGuard::available();
  const memory::Table& table = state_.tuples->table;
  if (thread == nullptr || path_of(request, state_.tuples->hash, fast_key) == Path::kSlow) {
    return false;
  }
  const epoch::FastGuard guard(*thread);
  memory::Slot* const slot = table.find(
      fast_key.hash, [&](const memory::Slot& found) { return is_of(found, fast_key, request); });
  return slot != nullptr && check_found(*slot, now, request, verdict);
}

[[gnu::noinline, gnu::cold]] bool Engine::check_found(memory::Slot& slot, Instant now,
                                                      const Request& request, Verdict& verdict) {
  const memory::Query query = memory::query_of(now.wall, request);
  memory::CellDecision result;
  const memory::Tuple tuple = state_.tuples->table.tuple_of(slot);
  if (!decider_.decide_found(tuple, query, result)) return false;
  fill(query, result, Basis::kLocal, verdict);
  count(verdict);
  return true;
}

void Engine::check_each(Instant now, std::span<const Request> requests,
                        std::span<Result<Verdict>> verdicts) {
  if (!sizes_match(requests.size(), verdicts)) return;
  for (size_t begin = 0; begin < requests.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, requests.size() - begin);
    const auto group = requests.subspan(begin, count);
    const auto results = verdicts.subspan(begin, count);
    const auto slow = [&](size_t i) { check_slow(now, group[i], results[i]); };
    if (state_.tuples->is_shared()) {
      check_group<Scope::kRegion>(now, group, results, Waiting::kImpossible, slow);
    } else {
      check_group<Scope::kProcess>(now, group, results, Waiting::kImpossible, slow);
    }
  }
}

// Marks a tuple after an admission on the fast path; see Decider::mark_charged().
WEIR_HOT_INLINE void Engine::mark_fast(const memory::Tuple& tuple, const Request& request,
                                       Verdict& verdict) {
  const WindowCells cells(tuple);
  const Count limit = request.limit;
  const memory::TupleWatch watch = cells.watch_seq_cst();
  if (!watch.dirty() && cells.mark_dirty()) [[unlikely]] {
    decider_.enqueue_replay(tuple, limit, request.algorithm);
  }
  const global::GlobalState* const global = state_.global.get();
  if (global == nullptr) return;
  if (memory::PublishWatch::may_change_rule(watch, verdict.evidence, request.cost, limit))
      [[unlikely]] {
    state_.publish_watch->after_charge(tuple, watch, verdict.evidence, limit, request.algorithm);
  }
  if (global->behind.load(std::memory_order_relaxed)) [[unlikely]] {
    verdict.basis = Basis::kDegraded;
    state_.counters->add(Stat::kDegraded);
  }
}

// Three passes, each of which prefetches the memory of the next. The last pass keeps the order of
// the requests, since two may be on one tuple. A request that cannot be decided here goes to
// slow(i), in its place in the order, with no epoch guard held.
template <memory::Scope kScope, typename Slow>
WEIR_HOT_INLINE void Engine::check_group(Instant now, std::span<const Request> requests,
                                         std::span<Result<Verdict>> verdicts, Waiting waiting,
                                         const Slow& slow) {
  constexpr bool kShared = kScope == Scope::kRegion;
  const Consistency fallback = consistency_of(std::nullopt, waiting);
  const regional::Allowance allowance =
      kShared ? state_.region->allowance.at(now.mono).value_or(kNoAllowance) : kRelaxed;
  // What the process may admit of a request by itself.
  const auto allowance_of = [&](const Request& request) {
    if constexpr (!kShared) return kRelaxed;
    Consistency consistency = fallback;
    if (request.consistency && waiting == Waiting::kPossible) [[unlikely]]
      consistency = consistency_of(request.consistency, waiting);
    return consistency == Consistency::kConverge  ? allowance
           : consistency == Consistency::kRelaxed ? kRelaxed
                                                  : kNoAllowance;
  };
  const memory::TupleStore& tuples = *state_.tuples;
  const memory::Table& table = tuples.table;
  const size_t count = requests.size();
  epoch::ThreadRecord* const thread = epoch::FastGuard::available();
  std::array<FastKey, kGroup> fast_key{};
  std::array<Path, kGroup> paths;
  for (size_t i = 0; i < count; ++i) {
    paths[i] = path_of(requests[i], tuples.hash, fast_key[i]);
    if (thread == nullptr) paths[i] = Path::kSlow;
    if (requests[i].past != nullptr && must_take_over(now, requests[i])) [[unlikely]]
      paths[i] = Path::kSlow;
    if constexpr (kShared) {
      if (shares_as_region(requests[i].algorithm, requests[i].consistency)) [[unlikely]]
        paths[i] = Path::kSlow;
      if (is_decided_exactly(requests[i].algorithm, requests[i].consistency, waiting))
          [[unlikely]] {
        const bool may_be_local =
            paths[i] != Path::kSlow && requests[i].cost > 0 && !counts_for_regions() &&
            consistency_of(requests[i].consistency, waiting) == Consistency::kConverge;
        paths[i] = may_be_local ? Path::kLocal : Path::kSlow;
      }
    }
    table.prefetch_control(fast_key[i].hash);
  }
  for (size_t i = 0; i < count;) {
    {
      std::optional<epoch::FastGuard> guard;
      if (thread != nullptr) guard.emplace(*thread);
      std::array<memory::Slot*, kGroup> guesses;
      if (epoch::first_load_may_be_relaxed()) [[likely]] {
        guess_slots<std::memory_order_relaxed>(table, fast_key, i, count, guesses);
        // Acquires the keys and states of all guessed slots.
        std::atomic_thread_fence(std::memory_order_acquire);
      } else {
        guess_slots<std::memory_order_seq_cst>(table, fast_key, i, count, guesses);
      }
      uint64_t admitted = 0;
      for (; i < count && paths[i] != Path::kSlow; ++i) {
        const auto same = [&](const memory::Slot& found) {
          return is_of(found, fast_key[i], requests[i]);
        };
        memory::Slot* const slot = table.find(fast_key[i].hash, guesses[i], same);
        if (!verdicts[i].ok()) [[unlikely]]
          verdicts[i] = Verdict{};
        Verdict& verdict = verdicts[i].value();
        if constexpr (kShared) {
          if (paths[i] == Path::kLocal) [[unlikely]] {
            if (slot != nullptr && decide_locally(*slot, now, requests[i], verdict)) continue;
            paths[i] = Path::kSlow;
            break;
          }
        }
        if (slot != nullptr && admit_fast<kScope>(paths[i], table.tuple_of(*slot), now, requests[i],
                                                  allowance_of(requests[i]), verdict)) [[likely]] {
          if constexpr (kShared) {
            if (paths[i] == Path::kWindow) mark_fast(table.tuple_of(*slot), requests[i], verdict);
          }
          ++admitted;
          continue;
        }
        // With an origin, the slow path first checks whether to read it.
        const bool may_read = kShared && tuples.has_origin() &&
                              memory::class_of(requests[i].algorithm) == CellClass::kWindow;
        if (slot == nullptr || may_read || !check_found(*slot, now, requests[i], verdict)) {
          paths[i] = Path::kSlow;
          break;
        }
      }
      if (thread != nullptr) state_.counters->add_for(*thread, Stat::kAdmitted, admitted);
    }
    for (; i < count && paths[i] == Path::kSlow; ++i) {
      verdicts[i] = Verdict{};
      slow(i);
    }
  }
}

bool Engine::check_each_async(Instant now, std::span<const Request> requests,
                              std::span<Result<Verdict>> verdicts, Executor& home, Task&& done) {
  if (!sizes_match(requests.size(), verdicts)) return true;
  if (refresh_ == nullptr) {
    check_each(now, requests, verdicts);
    return true;
  }
  struct Pending {
    size_t item = 0;
    RequestContext context;
    ReadRequirement requirement = ReadRequirement::kCold;
  };
  struct Call {
    std::vector<Pending> pending;
    base::Countdown parts;
    Task done;
    void end_part() {
      if (parts.end_part()) done();
    }
  };
  std::shared_ptr<Call> call;
  std::vector<size_t> changed;  // requests that first take over what was counted before
  const auto slow = [&](size_t i) {
    if (auto error = validate(requests[i])) {
      verdicts[i] = std::move(*error);
      return;
    }
    if (requests[i].past != nullptr && must_take_over(now, requests[i])) [[unlikely]] {
      if (call == nullptr) call = std::make_shared<Call>();
      changed.push_back(i);
      return;
    }
    RequestContext context(now, requests[i], state_.tuples->hash);
    const ReadRequirement requirement = read_requirement(context, Waiting::kPossible);
    if (decide_known(context, requirement, verdicts[i].value())) return;
    if (call == nullptr) call = std::make_shared<Call>();
    call->pending.push_back({.item = i, .context = context, .requirement = requirement});
  };
  for (size_t begin = 0; begin < requests.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, requests.size() - begin);
    check_group<Scope::kRegion>(now, requests.subspan(begin, count), verdicts.subspan(begin, count),
                                Waiting::kPossible, [&](size_t i) { slow(begin + i); });
  }
  if (call == nullptr) return true;
  std::vector<regional::ReadRequest> reads;
  std::vector<regional::StepRequest> asks;
  for (const Pending& each : call->pending) {
    if (regional::is_read(each.requirement)) {
      reads.push_back({.key = &each.context.key,
                       .duration = each.context.query.duration,
                       .requirement = each.requirement});
    } else {
      asks.push_back({.key = &each.context.key, .query = &each.context.query});
    }
  }
  call->parts.set((reads.empty() ? 0 : 1) + (asks.empty() ? 0 : 1) + changed.size());
  call->done = std::move(done);
  const regional::Caller caller = caller_of(now, home);
  for (const size_t i : changed) {
    check_async(now, requests[i], caller, [call, verdicts, i, &home](Result<Verdict> verdict) {
      verdicts[i] = std::move(verdict);
      // Posted: this may have been called at once.
      home.post([call] { call->end_part(); });
    });
  }
  if (!reads.empty()) {
    refresh_->read(now, reads, caller,
                   [self = shared_from_this(), call,
                    verdicts](const std::vector<regional::ReadResult>& results) {
                     const regional::ReadResult* result = results.data();
                     for (Pending& each : call->pending) {
                       if (!regional::is_read(each.requirement)) continue;
                       const Basis basis = self->basis_after_read(*result++, each.context);
                       self->decide_and_recheck(each.context, basis, verdicts[each.item].value());
                     }
                     call->end_part();
                   });
  }
  if (!asks.empty()) {
    ask(now, std::move(asks), call, caller,
        [self = shared_from_this(), call,
         verdicts](const std::vector<regional::StepResult>& results) {
          const regional::StepResult* result = results.data();
          for (Pending& each : call->pending) {
            if (regional::is_read(each.requirement)) continue;
            self->finish_step(*result++, each.context, verdicts[each.item].value());
          }
          call->end_part();
        });
  }
  return false;
}

}  // namespace weir::decide
