#include "memory/sketch.h"

#include <algorithm>
#include <mutex>

#include "algorithms/windows.h"

namespace weir::memory {
namespace {

bool same_window(uint32_t counter, int64_t sequence) {
  return counter >> 24 == (static_cast<uint64_t>(sequence) & 0xff);
}

}  // namespace

Sketch::Sketch(size_t capacity)
    : width_(std::max<size_t>(capacity, 1024)),
      pages_memory_(kPages * 2 * kRows * width_ * sizeof(Counter)) {
  for (int i = 0; i < kPages; ++i) {
    pages_[i].counters = pages_memory_.as<Counter>() + i * 2 * kRows * width_;
  }
}

Sketch::Place Sketch::place(const Query& query) {
  Page* page = nullptr;
  for (int i = 0; i < kPages - 1 && page == nullptr; ++i) {
    if (pages_[i].duration == query.duration) page = &pages_[i];
  }
  for (int i = 0; i < kPages - 1 && page == nullptr; ++i) {
    // Free, or nothing counted in it matters any more. What is left in its counters can
    // only be taken for more.
    Page& candidate = pages_[i];
    const bool over = candidate.duration.count() == 0 ||
                      WallTime((candidate.newest + 2) * candidate.duration) <= query.now;
    if (!over) continue;
    candidate.duration = query.duration;
    candidate.newest = -1;
    page = &candidate;
  }
  if (page == nullptr) {
    page = &pages_[kPages - 1];
    page->duration = kMaxDuration;
  }
  algorithms::Position at = algorithms::position_of(query.now, page->duration);
  if (at.sequence < page->newest) at = {page->newest, Millis(0), page->duration};
  return {.page = page, .at = at};
}

Sketch::Counter& Sketch::counter(const Page& page, int64_t sequence, int row, uint64_t hash) {
  const uint64_t mixed = row == 0 ? hash : hash * 0xd6e8feb86659fd93ULL;
  const size_t column = static_cast<size_t>((mixed >> 32) * width_ >> 32);
  return page.counters[((sequence & 1) * kRows + row) * width_ + column];
}

Count Sketch::estimate(const Page& page, int64_t sequence, uint64_t hash) {
  Count least = kMaxCount;
  for (int row = 0; row < kRows; ++row) {
    const Counter word = counter(page, sequence, row, hash);
    const Count count = same_window(word, sequence) ? word & kCounterMax : 0;
    // A full counter has lost track: it may stand for any count.
    least = std::min(least, count == kCounterMax ? kMaxCount : count);
  }
  return least;
}

void Sketch::charge(const Place& place, uint64_t hash, Count cost) {
  const int64_t sequence = place.at.sequence;
  place.page->newest = sequence;
  for (int row = 0; row < kRows; ++row) {
    Counter& word = counter(*place.page, sequence, row, hash);
    const Count before = same_window(word, sequence) ? word & kCounterMax : 0;
    word = static_cast<Counter>((static_cast<uint64_t>(sequence) & 0xff) << 24 |
                                std::min(before + cost, kCounterMax));
  }
}

Step Sketch::decide(uint64_t hash, const Query& query, Effect effect) {
  decisions_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  const Place place = this->place(query);
  const int64_t sequence = place.at.sequence;
  algorithms::WindowCounts counts{.current = estimate(*place.page, sequence, hash),
                                  .previous = estimate(*place.page, sequence - 1, hash)};
  Step step;
  step.sequence = sequence;
  const bool own_grid = place.page->duration == query.duration;
  if (own_grid && query.algorithm == Algorithm::kSlidingWindow) {
    step.decision = algorithms::decide_sliding(place.at, counts, query.ask);
  } else if (own_grid && query.algorithm == Algorithm::kFixedWindow) {
    step.decision = algorithms::decide_fixed(place.at, counts, query.ask);
  } else {
    // Both windows in full, within the smaller of limit and burst.
    const algorithms::Ask ask{.capacity = std::min(query.limit, query.ask.capacity),
                              .cost = query.ask.cost};
    const Count last = counts.previous;
    counts = {.current = counts.current + last, .previous = 0};
    step.decision = algorithms::decide_fixed(place.at, counts, ask);
    const bool next_window_is_full = counts.current - last + ask.cost > ask.capacity;
    if (step.decision.retry_at && next_window_is_full) *step.decision.retry_at += place.at.width;
  }
  step.evidence.own = counts.current;
  if (effect == Effect::kConsume && query.ask.cost > 0 && step.decision.admitted()) {
    charge(place, hash, query.ask.cost);
  }
  return step;
}

void Sketch::take_back(uint64_t hash, const Query& query, int64_t sequence) {
  const std::lock_guard lock(mutex_);
  const Place place = this->place(query);
  for (int row = 0; row < kRows; ++row) {
    Counter& word = counter(*place.page, sequence, row, hash);
    // A counter that was full stays full; one of another window holds nothing of ours.
    if (!same_window(word, sequence) || (word & kCounterMax) == kCounterMax) continue;
    word -= static_cast<Counter>(std::min<Count>(query.ask.cost, word & kCounterMax));
  }
}

bool Sketch::holds(uint64_t hash, const Query& query) {
  if (decisions_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  for (const Page& page : pages_) {
    // A duration that found no page of its own is counted on the last one.
    const bool counts_here = page.duration == query.duration || &page == &pages_.back();
    if (page.newest < 0 || !counts_here) continue;
    const int64_t sequence = algorithms::position_of(query.now, page.duration).sequence;
    if (estimate(page, sequence, hash) + estimate(page, sequence - 1, hash) > 0) return true;
  }
  return false;
}

}  // namespace weir::memory
