#include "limiter/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/inline.h"
#include "limiter/plain.h"
#include "limiter/share.h"
#include "limiter/validate.h"
#include "memory/saved_state.h"
#include "memory/window_cells.h"
#include "platform/entropy.h"

namespace weir::limiter {

using memory::CellClass;
using memory::Part;
using memory::Scope;
using memory::Tagged;
using memory::WindowCells;

namespace {

// Requests decided side by side: few enough to stay in the cache between two passes.
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

Acknowledged acknowledged(const WindowCells& cells, int64_t sequence) {
  if (!cells.can_know(sequence)) return {};
  return {.own = memory::count_in(cells.own(sequence), sequence),
          .acked = memory::count_in(cells.acked(sequence), sequence),
          .others = memory::count_in(cells.others(sequence), sequence)};
}

}  // namespace

Engine::Engine(const Clock& clock, const Options& options)
    : store_(std::make_shared<Store>(clock, options,
                                     options.seed ? *options.seed : platform::entropy())),
      decider_(store_),
      refresh_(store_->asks() ? std::make_shared<Refresh>(store_) : nullptr),
      replay_(store_->asks() ? std::make_shared<Replay>(store_) : nullptr),
      sync_(store_->ledger != nullptr ? std::make_shared<RegionSync>(store_, options.sync)
                                      : nullptr) {}

WEIR_HOT_INLINE void Engine::fill(const memory::Query& query, const Ruling& ruling, Basis basis,
                                  Verdict& verdict) const {
  const algorithms::Decision& decision = ruling.step.decision;
  verdict.outcome = decision.outcome;
  verdict.basis = ruling.sketched || is_behind(query.algorithm) ? Basis::kDegraded : basis;
  verdict.limit = query.ask.capacity;
  verdict.remaining = decision.remaining;
  verdict.reset = decision.reset;
  verdict.retry_after.reset();
  if (decision.retry_at) {
    verdict.retry_after = std::max(*decision.retry_at - query.now, Millis(1));
  }
  verdict.evidence = ruling.step.evidence;
}

// Whether too little is known of other regions.
inline bool Engine::is_behind(Algorithm algorithm) const {
  return store_->behind.load(std::memory_order_relaxed) &&
         memory::class_of(algorithm) == CellClass::kWindow;
}

WEIR_HOT_INLINE void Engine::count(const Verdict& verdict) {
  store_->stats.add(verdict.admitted() ? Stat::kAdmitted : Stat::kDenied);
  if (verdict.basis == Basis::kDegraded) [[unlikely]]
    store_->stats.add(Stat::kDegraded);
}

WEIR_HOT_INLINE void Engine::decide(const RequestContext& context, Basis basis, Verdict& verdict) {
  Ruling ruling;  // never leaves the registers
  if (!decider_.rule_known(context, ruling)) [[unlikely]] {
    decide_slow(context, basis, verdict);
    return;
  }
  fill(context.query, ruling, basis, verdict);
  count(verdict);
}

void Engine::decide_slow(const RequestContext& context, Basis basis, Verdict& verdict) {
  fill(context.query, decider_.rule(context), basis, verdict);
  count(verdict);
}

// Decides on what is known, be it enough or not.
void Engine::decide_unread(RequestContext& context, ReadRequirement requirement, Verdict& verdict) {
  if (requirement == ReadRequirement::kDegrade) degrade(context);
  decide_and_look_again(context, basis_without_reading(requirement), verdict);
}

Result<Verdict> Engine::check(Instant now, const Request& request) {
  Result<Verdict> result;  // the only thing returned, so that it is built in place
  if (!check_fast(now, request, result.value())) [[unlikely]]
    check_slow(now, request, result);
  return result;
}

// Calls nothing unless it has to, so that everything stays in registers: see plain.h.
WEIR_HOT_INLINE bool Engine::check_fast(Instant now, const Request& request, Verdict& verdict) {
  FastKey fast_key;
  epoch::ThreadRecord* const thread = epoch::FastGuard::available();
  const Path path = classify(request, store_->hash, fast_key);
  if (path == Path::kSlow || (path == Path::kWindow && store_->shared()) || thread == nullptr)
      [[unlikely]] {
    return false;
  }
  const epoch::FastGuard guard(*thread);
  memory::Slot* const slot = store_->table.find(
      fast_key.hash, [&](const memory::Slot& found) { return is_of(found, fast_key, request); });
  if (slot == nullptr) [[unlikely]]
    return false;
  if (!admit_fast<Scope::kProcess>(path, store_->table.tuple_of(*slot), now, request, verdict))
      [[unlikely]] {
    return check_found(*slot, now, request, verdict);
  }
  store_->stats.add_for(*thread, Stat::kAdmitted);
  return true;
}

[[gnu::noinline, gnu::cold]] bool Engine::check_found(memory::Slot& slot, Instant now,
                                                      const Request& request, Verdict& verdict) {
  const memory::Query query = memory::query_of(now.wall, request);
  Ruling ruling;
  if (!decider_.rule_found(store_->table.tuple_of(slot), now.mono, query, ruling)) return false;
  fill(query, ruling, Basis::kLocal, verdict);
  count(verdict);
  return true;
}

[[gnu::noinline, gnu::cold]] void Engine::check_slow(Instant now, const Request& request,
                                                     Result<Verdict>& result) {
  if (auto error = validate(request)) {
    result = std::move(*error);
  } else {
    RequestContext context(now, request, store_->hash);
    decide_unread(context, read_requirement(context), result.value());
  }
}

// Whether there is a place for each verdict; if not, each place there is says so.
bool Engine::has_room(size_t requests, std::span<Result<Verdict>> verdicts) {
  if (requests == verdicts.size()) [[likely]]
    return true;
  const auto error = validate_room(requests, verdicts.size());
  for (Result<Verdict>& verdict : verdicts) verdict = *error;
  return false;
}

void Engine::check_each(Instant now, std::span<const Request> requests,
                        std::span<Result<Verdict>> verdicts) {
  if (!has_room(requests.size(), verdicts)) return;
  for (size_t begin = 0; begin < requests.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, requests.size() - begin);
    const auto some = requests.subspan(begin, count);
    const auto theirs = verdicts.subspan(begin, count);
    const auto slow = [&](size_t i) { check_slow(now, some[i], theirs[i]); };
    if (store_->shared()) {
      check_group<Scope::kRegion>(now, some, theirs, slow);
    } else {
      check_group<Scope::kProcess>(now, some, theirs, slow);
    }
  }
}

// The marks of a plain admission; see Judge::mark_charged().
WEIR_HOT_INLINE void Engine::mark_fast(const memory::Tuple& tuple, const Request& request,
                                       Verdict& verdict) {
  const WindowCells cells(tuple);
  const auto limit = static_cast<Count>(request.limit);
  const memory::TupleWatch watch = cells.watch_in_order();
  if (!watch.dirty() && cells.mark_dirty()) [[unlikely]] {
    decider_.list_dirty(tuple, limit, request.algorithm);
  }
  if (!store_->shares()) return;
  if (Store::is_news(watch, verdict.evidence, static_cast<Count>(request.cost), limit))
      [[unlikely]] {
    store_->look_after_charge(tuple, watch, verdict.evidence, limit, request.algorithm);
  }
  if (store_->behind.load(std::memory_order_relaxed)) [[unlikely]] {
    verdict.basis = Basis::kDegraded;
    store_->stats.add(Stat::kDegraded);
  }
}

// In three passes, each of which asks memory for what the next will need. The last one
// keeps to the order of the requests, since two may be about one tuple. What cannot be decided
// here goes to apart(i), in its turn, with nothing pinned.
template <memory::Scope kScope, typename Slow>
WEIR_HOT_INLINE void Engine::check_group(Instant now, std::span<const Request> requests,
                                         std::span<Result<Verdict>> verdicts, const Slow& slow) {
  constexpr bool kShared = kScope == Scope::kRegion;
  const memory::Table& table = store_->table;
  const size_t count = requests.size();
  epoch::ThreadRecord* const thread = epoch::FastGuard::available();
  std::array<FastKey, kGroup> fast_key{};
  std::array<Path, kGroup> paths;
  for (size_t i = 0; i < count; ++i) {
    paths[i] = path_of(requests[i], store_->hash, fast_key[i]);
    if (thread == nullptr) paths[i] = Path::kSlow;
    table.prefetch_control(fast_key[i].hash);
  }
  for (size_t i = 0; i < count;) {
    {
      std::optional<epoch::FastGuard> guard;
      if (thread != nullptr) guard.emplace(*thread);
      std::array<memory::Slot*, kGroup> guesses;
      if (epoch::first_load_may_be_relaxed()) [[likely]] {
        guess_slots<std::memory_order_relaxed>(table, fast_key, i, count, guesses);
        // Acquires the keys and states of all slots that were guessed.
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
        if (slot != nullptr && admit_fast<kScope>(paths[i], table.tuple_of(*slot), now, requests[i],
                                                  verdict)) [[likely]] {
          if constexpr (kShared) {
            if (paths[i] == Path::kWindow) mark_fast(table.tuple_of(*slot), requests[i], verdict);
          }
          ++admitted;
          continue;
        }
        // Where others count too, whether to read comes first.
        const bool may_read = kShared && store_->asks() &&
                              memory::class_of(requests[i].algorithm) == CellClass::kWindow;
        if (slot == nullptr || may_read || !check_found(*slot, now, requests[i], verdict)) {
          paths[i] = Path::kSlow;
          break;
        }
      }
      if (thread != nullptr) store_->stats.add_for(*thread, Stat::kAdmitted, admitted);
    }
    for (; i < count && paths[i] == Path::kSlow; ++i) {
      verdicts[i] = Verdict{};
      slow(i);
    }
  }
}

bool Engine::check_each_async(Instant now, std::span<const Request> requests,
                              std::span<Result<Verdict>> verdicts, Executor& home, Task&& done) {
  if (!has_room(requests.size(), verdicts)) return true;
  if (!store_->asks()) {
    check_each(now, requests, verdicts);
    return true;
  }
  struct Waiting {
    size_t item = 0;
    RequestContext context;
    ReadRequirement requirement = ReadRequirement::kCold;
  };
  std::shared_ptr<std::deque<Waiting>> waiting;  // a deque: its items stay where they are
  const auto slow = [&](size_t i) {
    if (auto error = validate(requests[i])) {
      verdicts[i] = std::move(*error);
      return;
    }
    RequestContext context(now, requests[i], store_->hash);
    const ReadRequirement requirement = read_requirement(context);
    if (!is_read(requirement)) return decide_unread(context, requirement, verdicts[i].value());
    if (waiting == nullptr) waiting = std::make_shared<std::deque<Waiting>>();
    waiting->push_back({.item = i, .context = context, .requirement = requirement});
  };
  for (size_t begin = 0; begin < requests.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, requests.size() - begin);
    check_group<Scope::kRegion>(now, requests.subspan(begin, count), verdicts.subspan(begin, count),
                                [&](size_t i) { slow(begin + i); });
  }
  if (waiting == nullptr) return true;
  std::vector<Wanted> wanted;
  for (const Waiting& each : *waiting) {
    wanted.push_back({.context = &each.context, .requirement = each.requirement});
  }
  refresh_->read(now, wanted, home,
                 [self = shared_from_this(), waiting, verdicts,
                  done = std::move(done)](const std::vector<Received>& received) {
                   for (size_t i = 0; i < waiting->size(); ++i) {
                     Waiting& each = (*waiting)[i];
                     const Basis basis = self->take_in(received[i], each.context);
                     self->decide_and_look_again(each.context, basis, verdicts[each.item].value());
                   }
                   done();
                 });
  return false;
}

bool Engine::check_async(Instant now, const Request& request, Executor& home, VerdictHandler done) {
  if (auto error = validate(request)) {
    done(std::move(*error));
    return true;
  }
  auto context = std::make_shared<RequestContext>(now, request, store_->hash);
  const ReadRequirement requirement = read_requirement(*context);
  if (!is_read(requirement)) {
    Verdict verdict;
    decide_unread(*context, requirement, verdict);
    done(verdict);
    return true;
  }
  refresh_->read(now, {{.context = context.get(), .requirement = requirement}}, home,
                 [self = shared_from_this(), context,
                  done = std::move(done)](const std::vector<Received>& received) {
                   Verdict verdict;
                   const Basis basis = self->take_in(received[0], *context);
                   self->decide_and_look_again(*context, basis, verdict);
                   done(verdict);
                 });
  return false;
}

Result<std::vector<RequestContext>> Engine::contexts_of(Instant now,
                                                        std::span<const Request> requests) const {
  if (auto error = validate_batch_size(requests.size())) return std::move(*error);
  std::vector<RequestContext> contexts;
  contexts.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (auto error = validate(requests[i])) {
      error->field = "requests[" + std::to_string(i) + "]." + error->field;
      return std::move(*error);
    }
    contexts.emplace_back(now, requests[i], store_->hash);
  }
  return contexts;
}

Result<BatchVerdict> Engine::check_all(Instant now, std::span<const Request> requests) {
  auto contexts = contexts_of(now, requests);
  if (!contexts) return contexts.error();
  std::vector<Basis> bases;
  for (RequestContext& context : contexts.value()) {
    const ReadRequirement requirement = read_requirement(context);
    if (requirement == ReadRequirement::kDegrade) degrade(context);
    bases.push_back(basis_without_reading(requirement));
  }
  return decide_all(contexts.value(), bases);
}

bool Engine::check_all_async(Instant now, std::span<const Request> requests, Executor& home,
                             BatchHandler done) {
  auto valid = contexts_of(now, requests);
  if (!valid) {
    done(valid.error());
    return true;
  }
  auto contexts = std::make_shared<std::vector<RequestContext>>(std::move(valid.value()));
  auto bases = std::make_shared<std::vector<Basis>>();
  auto read = std::make_shared<std::vector<size_t>>();  // which of the cases are read
  std::vector<Wanted> wanted;
  for (RequestContext& context : *contexts) {
    const ReadRequirement requirement = read_requirement(context);
    if (requirement == ReadRequirement::kDegrade) degrade(context);
    bases->push_back(basis_without_reading(requirement));
    if (!is_read(requirement)) continue;
    read->push_back(bases->size() - 1);
    wanted.push_back({.context = &context, .requirement = requirement});
  }
  // Where one item is refused already the batch is, whatever a read would tell; but each item says
  // what it has, and for that it must know.
  if (wanted.empty()) {
    done(decide_all(*contexts, *bases));
    return true;
  }
  refresh_->read(now, wanted, home,
                 [self = shared_from_this(), contexts, bases, read,
                  done = std::move(done)](const std::vector<Received>& received) {
                   for (size_t i = 0; i < read->size(); ++i) {
                     const size_t item = (*read)[i];
                     (*bases)[item] = self->take_in(received[i], (*contexts)[item]);
                   }
                   done(self->decide_all(*contexts, *bases));
                 });
  return false;
}

// What must be read before the case is decided. A tuple that will be charged is made here, so that
// there is a place for what is read.
ReadRequirement Engine::read_requirement(const RequestContext& context) {
  if (!store_->asks() || context.cell_class() != CellClass::kWindow)
    return ReadRequirement::kNothing;
  const Millis longest = longest_while_failing(store_->tells_fail_since(), context.now.mono,
                                               context.query.duration, store_->max_freshness);
  const ReadRules rules{
      .longest = store_->max_freshness,
      .available = store_->origin->reach() == Reach::kPrompt && longest > Millis(0)};
  ReadRequirement requirement =
      rules.available ? ReadRequirement::kCold : ReadRequirement::kDegrade;
  const auto look = [&](const memory::Tuple& tuple) {
    const WindowCells cells(tuple);
    // What was read would find no place in it, and be called fresh all the same.
    if (!cells.fits(context.query))
      return memory::CellDecision{.status = memory::DecisionStatus::kRebuild};
    const memory::CellDecision step = cells.decide(context.query, memory::Effect::kOnlyLook);
    const bool refused =
        step.status == memory::DecisionStatus::kDecided && !step.decision.admitted();
    if (refused) look_behind(tuple, context.now.mono);
    requirement = refused
                      ? ReadRequirement::kRefused
                      : limiter::read_requirement(cells, context.query, context.now.mono, rules);
    // What is read must find its place when it comes.
    if (context.query.ask.cost > 0 && step.status == memory::DecisionStatus::kDecided) {
      cells.expect(step.sequence);
    }
    return step;
  };
  if (context.query.ask.cost > 0) {
    // No room in the table: the sketch decides, and it is not told apart by reading.
    if (!decider_.with_tuple(context, look)) return ReadRequirement::kNothing;
  } else {
    const epoch::Guard guard;
    if (const memory::Tuple tuple = store_->table.find(context.key)) look(tuple);
  }
  return requirement;
}

// A tuple that is refused is not read, and so would not notice that the origin forgot it: it is
// told again now and then, behind the requests.
void Engine::look_behind(const memory::Tuple& tuple, MonoTime now) {
  const Freshness fresh = freshness_of(WindowCells(tuple));
  const Nanos good = fresh_for(tuple.slot->header.duration(), store_->max_freshness);
  // After a read that failed, too, once the origin may be asked again: no other will be made.
  const bool rests = fresh.has_failed() ? fresh.lasts(now) : now - fresh.began() < good;
  if (!rests) store_->make_dirty(tuple);
}

// The origin cannot be asked: what holds then is the caller's choice.
void Engine::degrade(RequestContext& context) {
  store_->stats.add(Stat::kUnread);
  const OnOriginLoss policy =
      context.on_origin_loss.value_or(store_->on_origin_loss.load(std::memory_order_relaxed));
  memory::Query& query = context.query;
  if (context.cell_class() != CellClass::kWindow) return;
  // Alone, too, no process accepts more than the limit, be it that it forgot what it had accepted.
  const Count remembered = store_->remembered(context.key, query);
  if (policy == OnOriginLoss::kLocal && remembered == 0) return;
  algorithms::Position at = algorithms::position_of(query.now, query.duration);
  query.bound = {.most = 0, .sequence = at.sequence, .again = kReadPause};
  if (policy == OnOriginLoss::kDeny) return;
  const Fleet fleet{.nodes = store_->origin->live_nodes(), .rank = store_->origin->rank()};
  Acknowledged current, last;
  const epoch::Guard guard;
  if (const memory::Tuple tuple = store_->table.find(context.key)) {
    const WindowCells cells(tuple);
    if (cells.newest() > at.sequence) {
      at = {.sequence = cells.newest(), .offset = Millis(0), .width = query.duration};
    }
    current = acknowledged(cells, at.sequence);
    last = acknowledged(cells, at.sequence - 1);
  }
  query.bound.sequence = at.sequence;
  const Count most = policy == OnOriginLoss::kLocal
                         ? query.ask.capacity
                         : own_most(at, query.algorithm, query.ask.capacity, current, last, fleet);
  query.bound.most = base::saturating_sub(most, remembered);
}

// How well informed a case is after a read. A peek at a tuple that lives elsewhere goes
// by what was heard and leaves no trace here; a tuple that came into being while the read
// was under way, or was forgotten and will be made anew, has not learnt from it.
Basis Engine::take_in(const Received& received, RequestContext& context) {
  if (!received.read) {
    degrade(context);
    return Basis::kDegraded;
  }
  if (received.learnt) return Basis::kRefreshed;
  context.received = received.counts;
  const bool peeks = context.query.ask.cost == 0;
  return peeks && !decider_.look(context) ? Basis::kRefreshed : Basis::kDegraded;
}

// Whether a tuple that was known well enough was forgotten since, for want of room, and made anew
// or not: then nobody has read it, or who tried has failed. A peek that went by what was heard
// needs no tuple.
bool Engine::is_unread(const RequestContext& context) const {
  if (!store_->asks() || context.cell_class() != CellClass::kWindow) return false;
  const epoch::Guard guard;
  const memory::Tuple tuple = store_->table.find(context.key);
  if (!tuple || !store_->is_of_this_time(tuple, context.query)) {
    return context.query.ask.cost > 0 || !context.received;
  }
  const Freshness fresh = freshness_of(WindowCells(tuple));
  return fresh.never() || fresh.has_failed();
}

// A tuple may have been forgotten since it was looked at.
void Engine::decide_and_look_again(const RequestContext& context, Basis basis, Verdict& verdict) {
  decide(context, basis, verdict);
  if (verdict.basis == Basis::kDegraded || !verdict.admitted()) return;
  if (!is_unread(context)) return;
  verdict.basis = Basis::kDegraded;
  store_->stats.add(Stat::kDegraded);
}

BatchVerdict Engine::decide_all(std::vector<RequestContext>& contexts,
                                const std::vector<Basis>& bases) {
  BatchRuling ruling = Batch(decider_, *store_, contexts).run();
  for (int turn = 0; ruling.late && turn < kLateTurns; ++turn) {
    // So late that its windows are over: decided at the present.
    const Instant now = store_->clock.now();
    for (RequestContext& context : contexts) context.ask_at(now);
    ruling = Batch(decider_, *store_, contexts).run();
  }
  if (ruling.late) {
    for (const RequestContext& context : contexts) {
      ruling.items.push_back({.step = Decider::refused_for_one_tick(context)});
    }
  }
  BatchVerdict verdict{.outcome = ruling.admitted ? Outcome::kAdmitted : Outcome::kDenied};
  for (size_t i = 0; i < contexts.size(); ++i) {
    Verdict& item = verdict.items.emplace_back();
    fill(contexts[i].query, ruling.items[i], bases[i], item);
    // Another item, or whoever came while this one waited, may have taken its place.
    if (item.admitted() && is_unread(contexts[i])) item.basis = Basis::kDegraded;
    if (item.outcome == Outcome::kNever) verdict.outcome = Outcome::kNever;
  }
  for (Verdict item : verdict.items) {
    // What would have passed alone was refused all the same.
    if (!ruling.admitted && item.admitted()) item.outcome = Outcome::kDenied;
    count(item);
  }
  return verdict;
}

WorkReport Engine::run_replay(Instant now, Executor& timers, Flush flush) {
  return replay_ == nullptr ? WorkReport{} : replay_->run_once(now, timers, flush);
}

WorkReport Engine::run_shutdown(Instant now) {
  return replay_ == nullptr ? WorkReport{} : replay_->leave(now);
}

WorkReport Engine::run_sync(Instant now, Flush flush) {
  return sync_ == nullptr ? WorkReport{} : sync_->run_once(now, flush);
}

SyncStats Engine::sync_stats() const {
  return sync_ == nullptr ? SyncStats{} : sync_->stats();
}

Result<bool> Engine::reset(Instant now, const Request& request) {
  if (auto error = validate(request)) return std::move(*error);
  const RequestContext context(now, request, store_->hash);
  const std::string algorithm(to_string(request.algorithm));
  if (context.cell_class() == CellClass::kWindow && store_->shared()) {
    return Error{.field = "algorithm",
                 .detail = "algorithm is " + algorithm +
                           ", whose counts are told to the origin or the ledger, where they only "
                           "grow",
                 .fix =
                     "choose gcra, token_bucket, sliding_window_strict or sliding_log for what "
                     "is to be reset, or wait for the next window"};
  }
  // Batches are short.
  constexpr int kTurns = 1000;
  for (int turn = 0; turn < kTurns; ++turn) {
    const memory::Forgotten forgotten = store_->table.forget(context.key, now.wall);
    if (forgotten == memory::Forgotten::kYes) {
      store_->resets.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    if (forgotten == memory::Forgotten::kAbsent) {
      if (!store_->sketch.holds(store_->sketched(context.key), context.query)) return false;
      return Error{.code = ErrorCode::kUnavailable,
                   .retry = Retry::kMayHelp,
                   .detail = "the table is full, and this tuple is counted together with others",
                   .fix = "give the limiter more memory, or wait until the period is over"};
    }
    memory::relax();
  }
  return Error{.code = ErrorCode::kUnavailable,
               .retry = Retry::kMayHelp,
               .detail = "batches are at work on this tuple",
               .fix = "try again"};
}

WorkReport Engine::run_sweep(Instant now, size_t slots) {
  return {.done = store_->sweep(now.wall, slots)};
}

SaveReport Engine::save(Instant now, Saving saving,
                        const std::function<void(std::string_view)>& write) {
  const std::lock_guard turn(saving_);
  const uint64_t resets = store_->resets.load(std::memory_order_relaxed);
  const bool reset = resets != std::exchange(saved_resets_, resets);
  if (reset && saving == Saving::kChanged) return {.stale = true};
  SaveReport report;
  std::string record;
  store_->table.for_each([&](const memory::Tuple& tuple) {
    const auto state = memory::save_state(
        tuple, now.wall, saving == Saving::kAll ? memory::Saving::kAll : memory::Saving::kChanged);
    if (!state) return;
    memory::encode_state(*state, record);
    write(record);
    ++report.saved;
  });
  return report;
}

bool Engine::restore(Instant now, std::string_view record) {
  const auto state = memory::decode_state(record);
  const auto query = state ? memory::query_for(*state, now.wall) : std::nullopt;
  if (!query) return false;
  const Count units = memory::units_in(*state, now.wall);
  if (units == 0) return true;  // it is over
  const memory::TupleKey key(state->key, store_->hash);
  const auto prepare = [&](const memory::Tuple& tuple) { memory::restore_state(tuple, *state); };
  const auto made = store_->table.create(key, *query, {.forbidden = {}, .prepare = prepare});
  if (made == memory::Created::kYes) return true;
  if (made == memory::Created::kPresent) {
    charge_difference(key, *query, units);
  } else {
    memory::Query whole = *query;
    whole.ask.cost = units;
    store_->sketch.add(store_->sketched(key), whole);
  }
  return true;
}

// A tuple that is there already has at least so many units afterwards.
void Engine::charge_difference(const memory::TupleKey& key, memory::Query query, Count units) {
  for (int turn = 0; turn < 2; ++turn) {
    {
      const epoch::Guard guard;
      const memory::Tuple tuple = store_->table.find(key);
      if (!tuple) return;
      query.ask = {.capacity = std::max<Count>(1, units), .cost = 0};
      const memory::CellDecision known = Decider::decide(tuple, query, memory::Effect::kOnlyLook);
      if (known.evidence.own >= units) return;
      query.ask.cost = units - known.evidence.own;
      if (Decider::decide(tuple, query, memory::Effect::kConsume).status !=
          memory::DecisionStatus::kRebuild) {
        return;
      }
    }
    (void)store_->table.rebuild(key, query);
  }
}

LimiterStats Engine::stats() const {
  const memory::TableStats table = store_->table.stats();
  const auto& stats = store_->stats;
  return {.admitted = stats.total(Stat::kAdmitted),
          .denied = stats.total(Stat::kDenied),
          .degraded = stats.total(Stat::kDegraded),
          .tuples = table.tuples,
          .evicted = table.evicted,
          .expired = table.expired,
          .sketched = store_->sketch.decisions(),
          .no_memory = stats.total(Stat::kNoMemory),
          .cold = {.asked = stats.total(Stat::kColdReads),
                   .failed = stats.total(Stat::kColdReadErrors)},
          .stale = {.asked = stats.total(Stat::kStaleReads),
                    .failed = stats.total(Stat::kStaleReadErrors)},
          .strict = {.asked = stats.total(Stat::kStrictReads),
                     .failed = stats.total(Stat::kStrictReadErrors)},
          .unread = stats.total(Stat::kUnread),
          .made_strict = stats.total(Stat::kMadeStrict),
          .replayed = stats.total(Stat::kReplayed),
          .replay_errors = stats.total(Stat::kReplayErrors),
          .late_replays = stats.total(Stat::kLateReplays),
          .healed = stats.total(Stat::kHealed),
          .unacked = replay_ == nullptr ? 0 : replay_->unacked(),
          .replay_lag = replay_ == nullptr ? Nanos(0) : replay_->lag(),
          .rebuilt = table.rebuilt,
          .memory_bytes = table.bytes,
          .memory = {.limit = store_->budget.limit(),
                     .table = store_->budget.used(Part::kTable),
                     .annexes = store_->budget.used(Part::kAnnexes),
                     .keys = store_->budget.used(Part::kKeys),
                     .sketch = store_->budget.used(Part::kSketch),
                     .regions = store_->budget.used(Part::kRegions)}};
}

void Engine::inspect(const std::function<void(const CellView&)>& visit) const {
  store_->table.for_each([&](const memory::Tuple& tuple) {
    if (tuple.slot->header.cell_class() != CellClass::kWindow) return;
    const WindowCells cells(tuple);
    const int64_t newest = cells.newest();
    const std::string encoded = memory::encode_key(tuple.slot->header, tuple.slot->key_words());
    for (const int64_t sequence : {newest - 1, newest}) {
      const auto count = [&](const memory::Word& word) { return memory::count_in(word, sequence); };
      visit({.tuple = encoded,
             .sequence = sequence,
             .own = count(cells.own(sequence)),
             .siblings = count(cells.siblings(sequence)),
             .foreign = count(cells.foreign(sequence)),
             .tentative = memory::tentative_amount(cells.tentative()),
             .acked = count(cells.acked(sequence)),
             .generation = cells.generation()});
    }
  });
}

}  // namespace weir::limiter
