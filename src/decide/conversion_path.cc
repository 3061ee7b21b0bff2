// The path of a request on a tuple that has taken over the usage of another algorithm, where the
// origin decides: the first request renews what this process knows of that usage, and the origin is
// told before it decides.

#include <memory>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "decide/engine.h"
#include "memory/conversion.h"
#include "memory/exact_use.h"
#include "memory/lifecycle.h"
#include "memory/usage_key.h"
#include "regional/conversion.h"
#include "regional/exact_share.h"

namespace weir::decide {

using memory::CellClass;
using memory::Tuple;

// The tuples whose usage is taken over, and that the origin counts, too.
struct Engine::Sources {
  bool open = false;  // a request is on an open tuple
  std::vector<memory::TupleKey> windows;
  std::vector<memory::TupleKey> kept;  // the origin keeps their whole state
  std::vector<memory::Query> peeks;    // at those

  [[nodiscard]] bool empty() const { return windows.empty() && kept.empty(); }
};

Engine::Sources Engine::sources_of(Instant now,
                                   const std::vector<regional::StepRequest>& requests) const {
  Sources sources;
  const memory::TupleStore& tuples = *state_.tuples;
  for (const regional::StepRequest& request : requests) {
    if (tuples.other_classes(*request.key) == 0) continue;
    const epoch::Guard guard;
    const Tuple tuple = tuples.table.find(*request.key);
    if (!tuple || !memory::is_open(tuple)) continue;
    sources.open = true;
    const memory::ClassSet from =
        regional::conversion_to(tuples, *state_.region, *request.key, *request.query, now,
                                regional::Purpose::kTell)
            .from;
    for (const CellClass other : memory::kAllClasses) {
      if ((from & memory::set_of(other)) == 0) continue;
      const memory::TupleKey key = memory::key_of_class(*request.key, other, tuples.hash);
      const Tuple source = tuples.table.find(key);
      if (!source) continue;
      if (request.key->header().cell_class() == CellClass::kWindow && counts_for_regions()) {
        // How much of the usage is of this region; see units_of_region().
        const auto usage = memory::usage_key(
            key, regional::horizon_of(memory::peek_of(source, now.wall)), tuples.hash);
        if (usage && tuples.table.find(*usage)) sources.windows.push_back(*usage);
      }
      if (other == CellClass::kWindow) {
        sources.windows.push_back(key);
      } else if (memory::ExactUse(source).known().fresh_until > MonoTime{}) {
        sources.kept.push_back(key);
        sources.peeks.push_back(memory::peek_of(source, now.wall));
      }
    }
  }
  return sources;
}

void Engine::renew(Instant now, const Sources& sources, const regional::Caller& caller,
                   UniqueFunction<void(bool)> done) {
  struct Call {
    base::Atomic<int> parts{0};  // whoever of the two ends last calls the handler
    base::Atomic<bool> answered{true};
    UniqueFunction<void(bool)> done;
    void end_part(bool is_answered) {
      if (!is_answered) answered.store(false, std::memory_order_relaxed);
      if (parts.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        done(answered.load(std::memory_order_relaxed));
      }
    }
  };
  const auto call = std::make_shared<Call>();
  call->done = std::move(done);
  call->parts.store((sources.windows.empty() ? 0 : 1) + (sources.kept.empty() ? 0 : 1),
                    std::memory_order_relaxed);
  if (!sources.windows.empty()) {
    std::vector<regional::ReadRequest> reads;
    for (const memory::TupleKey& key : sources.windows) {
      reads.push_back({.key = &key,
                       .duration = key.header().duration(),
                       .requirement = regional::ReadRequirement::kStale});
    }
    refresh_->read(now, reads, caller,
                   [call](const auto& all) { call->end_part(regional::all_answered(all)); });
  }
  if (!sources.kept.empty()) {
    std::vector<regional::StepRequest> peeks;
    for (size_t i = 0; i < sources.kept.size(); ++i) {
      peeks.push_back({.key = &sources.kept[i], .query = &sources.peeks[i]});
    }
    steps_->ask(now, peeks, caller,
                [call](const auto& all) { call->end_part(regional::all_answered(all)); });
  }
}

// Steps tells the origin of other tuples.
void Engine::convert_windows(const std::vector<regional::StepRequest>& requests) const {
  const Instant now = state_.tuples->clock.now();
  for (const regional::StepRequest& request : requests) {
    if (request.key->header().cell_class() != CellClass::kWindow) continue;
    regional::Conversion conversion;
    {
      const epoch::Guard guard;
      const Tuple tuple = state_.tuples->table.find(*request.key);
      if (!tuple || !memory::is_open(tuple)) continue;
      conversion = regional::conversion_to(*state_.tuples, *state_.region, *request.key,
                                           *request.query, now, regional::Purpose::kTell);
      regional::apply(conversion, tuple, *request.query, state_.tuples->scope);
    }
    regional::tell_window(state_.tuples, *state_.region, *request.key, *request.query, conversion);
  }
}

void Engine::ask(Instant now, std::vector<regional::StepRequest> requests,
                 std::shared_ptr<void> keys, const regional::Caller& caller,
                 regional::StepHandler done) {
  const Sources sources = sources_of(now, requests);
  if (sources.empty()) {
    if (sources.open) convert_windows(requests);
    return ask_after_usage(now, std::move(requests), std::move(keys), caller, std::move(done));
  }
  renew(now, sources, caller,
        [self = shared_from_this(), requests = std::move(requests), keys = std::move(keys), caller,
         done = std::move(done)](bool answered) mutable {
          self->convert_windows(requests);
          if (!answered) done = regional::as_approximate(std::move(done));
          self->ask_after_usage(self->state_.tuples->clock.now(), std::move(requests),
                                std::move(keys), caller, std::move(done));
        });
}

}  // namespace weir::decide
