// Asks the origin to decide requests. First it reads, in one round trip, what else counts for them
// and is not known: usage of other regions, and, on a tuple that has taken over the usage of
// another algorithm, that usage, of which the origin is told before it decides.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/countdown.h"
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

bool Engine::Sources::answered() const {
  return std::all_of(windows.begin(), windows.end(),
                     [](const Window& each) { return each.read.answered; }) &&
         std::all_of(kept.begin(), kept.end(), [](const Kept& each) {
           return each.answer.status != regional::StepResult::Status::kLate;
         });
}

Engine::SourcesPtr Engine::sources_of(Instant now,
                                      const std::vector<regional::StepRequest>& requests) {
  SourcesPtr sources;
  const auto all = [&]() -> Sources& {
    if (sources == nullptr) sources = std::make_shared<Sources>();
    return *sources;
  };
  for (const regional::StepRequest& request : requests) {
    if (is_open(*request.key)) add_conversion(now, request, all());
  }
  // After that: it may evict a tuple.
  for (const regional::StepRequest& request : requests) {
    if (const auto usage = unread_usage(now, request)) all().windows.push_back(*usage);
  }
  return sources;
}

bool Engine::is_open(const memory::TupleKey& key) const {
  if (state_.tuples->other_classes(key) == 0) return false;
  const epoch::Guard guard;
  const Tuple tuple = state_.tuples->table.find(key);
  return tuple && memory::is_open(tuple);
}

void Engine::add_conversion(Instant now, const regional::StepRequest& request,
                            Sources& sources) const {
  const bool is_window = request.key->header().cell_class() == CellClass::kWindow;
  if (is_window) sources.converted.push_back(request);
  const memory::TupleStore& tuples = *state_.tuples;
  const epoch::Guard guard;
  const memory::ClassSet from =
      regional::conversion_to(tuples, *state_.region, *request.key, *request.query, now,
                              regional::Purpose::kTell)
          .from;
  for (const CellClass other : memory::kAllClasses) {
    if ((from & memory::set_of(other)) == 0) continue;
    const memory::TupleKey key = memory::key_of_class(*request.key, other, tuples.hash);
    const Tuple source = tuples.table.find(key);
    if (!source) continue;
    if (is_window && counts_for_regions()) {
      // How much of the usage is of this region; see units_of_region().
      const auto usage = memory::usage_key(
          key, regional::horizon_of(memory::peek_of(source, now.wall)), tuples.hash);
      if (usage && tuples.table.find(*usage)) sources.windows.push_back({.key = *usage});
    }
    if (other == CellClass::kWindow) {
      sources.windows.push_back({.key = key});
    } else if (memory::ExactUse(source).known().fresh_until > MonoTime{}) {
      sources.kept.push_back({.key = key, .peek = memory::peek_of(source, now.wall)});
    }
  }
}

void Engine::renew(Instant now, const SourcesPtr& sources, const regional::Caller& caller,
                   Task done) {
  struct Call {
    base::Countdown parts;
    Task done;
    void end_part() {
      if (parts.end_part()) done();
    }
  };
  const auto call = std::make_shared<Call>();
  call->done = std::move(done);
  std::vector<regional::ReadRequest> reads;
  for (const Sources::Window& each : sources->windows) {
    reads.push_back({.key = &each.key,
                     .duration = each.key.header().duration(),
                     .requirement = each.requirement});
  }
  std::vector<regional::StepRequest> peeks;
  for (const Sources::Kept& each : sources->kept) {
    peeks.push_back({.key = &each.key, .query = &each.peek});
  }
  call->parts.set((reads.empty() ? 0 : 1) + (peeks.empty() ? 0 : 1));
  if (!reads.empty()) {
    refresh_->read(now, reads, caller,
                   [call, sources](const std::vector<regional::ReadResult>& all) {
                     for (size_t i = 0; i < all.size(); ++i) sources->windows[i].read = all[i];
                     call->end_part();
                   });
  }
  if (!peeks.empty()) {
    steps_->ask(now, peeks, caller, [call, sources](const std::vector<regional::StepResult>& all) {
      for (size_t i = 0; i < all.size(); ++i) sources->kept[i].answer = all[i];
      call->end_part();
    });
  }
}

// Steps tells the origin of tuples whose state it keeps.
void Engine::convert_windows(const std::vector<regional::StepRequest>& requests) const {
  const Instant now = state_.tuples->clock.now();
  for (const regional::StepRequest& request : requests) {
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
  const SourcesPtr sources = sources_of(now, requests);
  if (sources == nullptr || sources->empty()) {
    if (sources != nullptr) convert_windows(sources->converted);
    return steps_->ask(now, requests, caller, std::move(done));
  }
  auto ask_now = [self = shared_from_this(), sources, requests = std::move(requests),
                  keys = std::move(keys), caller, done = std::move(done)]() mutable {
    self->convert_windows(sources->converted);
    // The origin decides without the counts that could not be read.
    if (!sources->answered()) done = regional::as_approximate(std::move(done));
    self->steps_->ask(self->state_.tuples->clock.now(), requests, caller, std::move(done));
  };
  renew(now, sources, caller, std::move(ask_now));
}

}  // namespace weir::decide
