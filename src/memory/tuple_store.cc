#include "memory/tuple_store.h"

#include "base/word_packer.h"
#include "memory/usage_key.h"

namespace weir::memory {
namespace {

Scope scope_of(const Options& options) {
  if (options.origin) return Scope::kRegion;
  return options.ledger ? Scope::kGlobal : Scope::kProcess;
}

}  // namespace

TupleStore::TupleStore(const Clock& the_clock, const Options& options, uint64_t hash_seed)
    : clock(the_clock),
      hash(hash_seed),
      scope(scope_of(options)),
      keep_expired(options.origin ? options.read_deadline : Millis(0)),
      plan(checked_memory_plan(options)),
      budget(plan.memory),
      table(plan.capacity, scope, &budget),
      sketch(plan.capacity, &budget, kAssuredPages),
      // Without an origin the table evicts nothing, and this sketch stays empty.
      evicted(plan.capacity, options.origin ? &budget : nullptr, kAssuredEvictedPages) {
  limit_annexes(budget, plan);
  table.on_evict(
      [this](const Tuple& tuple, const FrozenWords& frozen) { remember_evicted(tuple, frozen); });
}

Sketch::Subject TupleStore::sketch_subject(const TupleKey& key) const {
  const KeyHeader header = key.header();
  const size_t words =
      base::words_for(header.workspace_bytes()) + base::words_for(header.namespace_bytes());
  const uint64_t lengths = header.workspace_bytes() << 10 | header.namespace_bytes();
  return {.hash = key.hash(),
          .group = hash(key.words(), words, lengths),
          .across_durations = header.duration() == Millis(0)};
}

void TupleStore::note_class(const TupleKey& key) {
  const ClassSet own = set_of(key.header().cell_class());
  if ((classes_.load(std::memory_order_relaxed) & own) != 0) return;
  if (!is_usage_tuple(key)) classes_.fetch_or(own, std::memory_order_relaxed);
}

ClassSet TupleStore::other_classes(const TupleKey& key) const {
  const ClassSet own = set_of(key.header().cell_class());
  const auto others = static_cast<ClassSet>(classes_.load(std::memory_order_relaxed) & ~own);
  // Usage across durations has no unit that the other classes share.
  if (others == 0 || key.header().duration() == Millis(0) || is_usage_tuple(key)) return 0;
  return others;
}

// The origin has the counts of an evicted tuple. While the origin cannot be read, this sketch is
// all that the process knows of them.
void TupleStore::remember_evicted(const Tuple& tuple, const FrozenWords& frozen) {
  const TupleKey key(tuple.slot->header, tuple.slot->key_words(), hash);
  const Millis duration = key.header().duration();
  const int64_t newest = WindowCells(tuple).newest();
  Count accepted = 0;
  for (const uint64_t word : frozen.words) {
    const Tagged own{word};
    accepted += own.count_of(newest) + own.count_of(newest - 1);
  }
  if (accepted == 0) return;
  evicted.add(
      sketch_subject(key),
      {.now = WallTime(newest * duration), .duration = duration, .ask = {.cost = accepted}});
}

}  // namespace weir::memory
