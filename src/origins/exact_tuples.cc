#include "origins/exact_tuples.h"

#include <algorithm>
#include <utility>

namespace weir::origins {
namespace {

template <typename State, typename Variant>
State& state_in(Variant& variant) {
  if (!std::holds_alternative<State>(variant)) variant = State{};
  return std::get<State>(variant);
}

}  // namespace

ExactAnswer ExactTuples::decide(const ExactCall& call, WallTime now) {
  const auto [found, created] = tuples_.try_emplace(call.tuple);
  Tuple& tuple = found->second;
  Count told = 0;
  if (const auto last = tuple.writers.find(call.writer); last != tuple.writers.end()) {
    if (last->second.number == call.number) return last->second.answer;
    // A message that was delayed: nobody waits for it.
    if (last->second.number > call.number) return {};
    told = last->second.own;
  }
  const Count own = unreported(call, told);
  std::optional<ForeignCharged> known;
  if (const auto stored = tuple.foreign.find(call.foreign_width); stored != tuple.foreign.end()) {
    known = stored->second;
  }
  const Count foreign = charge_foreign(call, known);
  ExactAnswer answer;
  WallTime empty{};
  switch (exact_class(call.algorithm)) {
    case ExactClass::kBacklog: {
      auto& state = state_in<BacklogState>(tuple.state);
      answer = origins::decide(call, unreported_in(call, own, now, state) + foreign, now, state);
      empty = empty_at(state);
      break;
    }
    case ExactClass::kRing: {
      auto& state = state_in<RingState>(tuple.state);
      answer = origins::decide(call, own + foreign, now, state);
      empty = empty_at(state, call.duration);
      break;
    }
    case ExactClass::kLog: {
      auto& state = state_in<LogState>(tuple.state);
      answer = origins::decide(call, own + foreign, now, state);
      empty = empty_at(state, call.duration);
      break;
    }
  }
  answer.strict = is_strict(call, answer, tuple.refused);
  const bool marks = must_mark(call, answer, tuple.refused);
  if (marks) {
    tuple.refused = answer.at;
    empty = std::max(empty, answer.at + call.strict_for);
  }
  // A denial leaves nothing but a mark.
  if (answer.changed) {
    if (known) tuple.foreign[call.foreign_width] = *known;
    empty = std::max(empty, answer.at + foreign_kept(call));
  }
  if (answer.changed || marks) {
    tuple.kept_until = std::max(tuple.kept_until, empty + kRemembered);
    if (created) by_expiry_.emplace(tuple.kept_until, call.tuple);
    if (answer.changed) remember(tuple, call, answer);
  } else if (created) {
    tuples_.erase(found);
  }
  return answer;
}

void ExactTuples::remember(Tuple& tuple, const ExactCall& call, const ExactAnswer& answer) {
  tuple.writers[call.writer] = {.number = call.number, .own = call.own, .answer = answer};
  if (tuple.writers.size() <= kExactWriters) return;
  const auto oldest = std::min_element(
      tuple.writers.begin(), tuple.writers.end(),
      [](const auto& a, const auto& b) { return a.second.answer.at < b.second.answer.at; });
  tuple.writers.erase(oldest);
}

void ExactTuples::delete_expired(WallTime now) {
  while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
    const auto entry = by_expiry_.extract(by_expiry_.begin());
    const auto found = tuples_.find(entry.mapped());
    if (found == tuples_.end()) continue;
    if (found->second.kept_until <= now) {
      tuples_.erase(found);
    } else {
      by_expiry_.emplace(found->second.kept_until, entry.mapped());
    }
  }
}

}  // namespace weir::origins
