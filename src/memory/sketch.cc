#include "memory/sketch.h"

#include <algorithm>
#include <mutex>

#include "algorithms/windows.h"

namespace weir::memory {
namespace {

uint64_t mix(uint64_t value, uint64_t factor) {
  value *= factor;
  return value ^ value >> 32;
}

}  // namespace

uint64_t Sketch::bytes_for(size_t capacity, size_t pages) {
  return pages * 2 * kRows * width_for(capacity) * sizeof(Counter);
}

Sketch::Sketch(size_t capacity, ByteBudget* budget, size_t assured)
    : width_(width_for(capacity)), budget_(budget), assured_(assured) {
  for (size_t i = 0; i < kClasses; ++i) {
    pages_[kOwnPages + i].duration = duration_of_class(i);
    pages_[kOwnPages + i].least_class = i;
  }
  if (budget_ == nullptr || assured_ == 0) return;
  budget_->take(Part::kSketch, assured_ * page_bytes());
  // Where all can be counted if there is nothing else.
  (void)provide(pages_.back(), {});
}

Query Sketch::within_classes(const Query& query) {
  const Millis largest = duration_of_class(kClasses - 1);
  if (query.duration <= largest) return query;
  Query shorter = query;
  shorter.duration = largest;
  shorter.limit = base::mul_div(query.limit, static_cast<uint64_t>(largest.count()),
                                static_cast<uint64_t>(query.duration.count()));
  return shorter;
}

bool Sketch::provide(Page& page, WallTime now) {
  if (page.memory.bytes() != 0) return true;
  if (budget_ != nullptr && assured_ == 0) {
    const auto over = std::find_if(pages_.begin(), pages_.end() - 1, [&](const Page& other) {
      return other.memory.bytes() != 0 && !other.matters_at(now);
    });
    if (over != pages_.end() - 1) {
      page.memory = std::move(over->memory);
      over->newest = -1;
      return true;
    }
    if (!budget_->reserve(Part::kSketch, page_bytes())) return false;
  } else if (assured_ > 0) {
    --assured_;
  }
  page.memory = platform::Pages(page_bytes());
  return true;
}

// The page of this duration, a free one, the page of its class, or of a larger one.
Sketch::Page& Sketch::page_of(const Query& query) {
  const auto own = pages_.begin() + kOwnPages;
  const auto same = std::find_if(pages_.begin(), own,
                                 [&](const Page& page) { return page.duration == query.duration; });
  if (same != own && provide(*same, query.now)) return *same;
  const auto free = std::find_if(pages_.begin(), own,
                                 [&](const Page& page) { return !page.matters_at(query.now); });
  if (same == own && free != own && provide(*free, query.now)) {
    free->duration = query.duration;
    free->newest = -1;
    return *free;
  }
  // The last always has memory.
  auto of_class = own + static_cast<std::ptrdiff_t>(class_of(query.duration));
  while (!provide(*of_class, query.now)) ++of_class;
  return *of_class;
}

// Time does not run back on a page, unless the clock was set back by long: then it begins anew.
algorithms::Position Sketch::position_on(Page& page, WallTime now) {
  const algorithms::Position at = algorithms::position_of(now, page.duration);
  if (page.newest <= at.sequence) return at;
  if (page.is_ahead_of(now)) {
    page.newest = -1;
    return at;
  }
  return {.sequence = page.newest, .offset = Millis(0), .width = page.duration};
}

Sketch::Counter& Sketch::counter(const Page& page, int64_t sequence, int row,
                                 const Subject& subject) const {
  constexpr std::array<uint64_t, kRows> kFactors = {1, 0xd6e8feb86659fd93ULL, 0x9e3779b97f4a7c15ULL,
                                                    0xc2b2ae3d27d4eb4fULL};
  const auto scaled = [](uint64_t hash, size_t to) {
    return static_cast<size_t>((hash >> 32) * to >> 32);
  };
  const uint64_t hash = subject.hash * kFactors[static_cast<size_t>(row)];
  size_t column = scaled(hash, width_);
  if (row >= kSpreadRows) {
    const size_t part = mix(subject.group, kFactors[static_cast<size_t>(row)]) % kParts;
    column = part * (width_ / kParts) + scaled(hash, width_ / kParts);
  }
  Counter* const bank =
      page.memory.as<Counter>() + static_cast<size_t>(sequence & 1) * kRows * width_;
  return bank[static_cast<size_t>(row) * width_ + column];
}

Count Sketch::estimate(const Page& page, int64_t sequence, const Subject& subject) const {
  if (sequence > page.newest || sequence < page.newest - 1 || sequence < 0) return 0;
  Count least = kMaxCount;
  for (int row = 0; row < kRows; ++row) {
    const Count count = counter(page, sequence, row, subject);
    // A full counter has lost track: it may stand for any count.
    least = std::min(least, count == kCounterMax ? kMaxCount : count);
  }
  return least;
}

// The counters of this window begin at 0: what stands there is two windows old, or older.
void Sketch::begin_window(Page& page, int64_t sequence) {
  if (page.newest < 0 || sequence > page.newest + 1) {
    page.memory.clear(0, page_bytes());
    if (page.least_class < kClasses) page.least_class = class_of(page.duration);
  } else if (sequence == page.newest + 1) {
    page.memory.clear(static_cast<size_t>(sequence & 1) * bank_bytes(), bank_bytes());
  }
  page.newest = sequence;
}

void Sketch::charge(Page& page, const algorithms::Position& at, const Subject& subject,
                    const Query& query) {
  if (at.sequence != page.newest) begin_window(page, at.sequence);
  for (int row = 0; row < kRows; ++row) {
    Counter& count = counter(page, at.sequence, row, subject);
    count = static_cast<Counter>(std::min(count + query.ask.cost, kCounterMax));
  }
  const int64_t end = page.end().time_since_epoch().count();
  const size_t asked = class_of(query.duration);
  if (page.least_class < kClasses) page.least_class = std::min(page.least_class, asked);
  for (const size_t place : {asked, kClasses}) {
    // Only under the mutex; read without it.
    if (matters_until_[place].load(std::memory_order_relaxed) < end) {
      matters_until_[place].store(end, std::memory_order_release);
    }
  }
}

Sketch::Elsewhere Sketch::elsewhere(const Subject& subject, const Query& query,
                                    const Page* without) const {
  Elsewhere found;
  const size_t asked = class_of(query.duration);
  for (const Page& page : pages_) {
    const bool counts = subject.across_durations || page.duration == query.duration ||
                        (page.least_class <= asked && query.duration <= page.duration);
    if (&page == without || !counts || !page.matters_at(query.now)) continue;
    const Count count = estimate(page, page.newest, subject) +
                        (algorithms::position_of(query.now, page.duration).sequence > page.newest
                             ? 0
                             : estimate(page, page.newest - 1, subject));
    if (count == 0) continue;
    found.count += count;
    found.end = std::max(found.end, page.end());
  }
  return found;
}

CellDecision Sketch::decide(const Subject& subject, const Query& asked, Effect effect,
                            Count beside) {
  decisions_.fetch_add(1, std::memory_order_relaxed);
  const Query query = within_classes(asked);
  const std::lock_guard lock(mutex_);
  Page& page = page_of(query);
  const algorithms::Position at = position_on(page, query.now);
  algorithms::WindowCounts counts{.current = estimate(page, at.sequence, subject),
                                  .previous = estimate(page, at.sequence - 1, subject)};
  Elsewhere others = elsewhere(subject, query, &page);
  if (beside > 0) {
    others.count += beside;
    others.end = std::max(others.end, query.now + query.duration);
  }
  CellDecision step;
  step.sequence = at.sequence;
  const bool own_grid = page.duration == query.duration && others.count == 0;
  if (own_grid && query.algorithm == Algorithm::kSlidingWindow) {
    step.decision = algorithms::decide_sliding(at, counts, query.ask);
  } else if (own_grid && query.algorithm == Algorithm::kFixedWindow) {
    step.decision = algorithms::decide_fixed(at, counts, query.ask);
  } else {
    // Both windows in full, within the smaller of limit and burst.
    const algorithms::Ask ask{.capacity = std::min(query.limit, query.ask.capacity),
                              .cost = query.ask.cost};
    const bool next_window_is_full = counts.current + ask.cost > ask.capacity;
    counts = {.current = counts.current + counts.previous + others.count, .previous = 0};
    step.decision = algorithms::decide_fixed(at, counts, ask);
    if (step.decision.retry_at) {
      if (next_window_is_full) *step.decision.retry_at += at.width;
      if (others.count > 0) step.decision.retry_at = std::max(*step.decision.retry_at, others.end);
    }
    // Never as counted here; as asked, once the table has room.
    if (query.limit == 0 && asked.ask.cost <= asked.ask.capacity && asked.ask.cost > 0) {
      step.decision.outcome = Outcome::kDenied;
      step.decision.retry_at = query.now + asked.duration;
    }
  }
  step.evidence.own = counts.current;
  if (effect == Effect::kConsume && query.ask.cost > 0 && step.decision.admitted()) {
    charge(page, at, subject, query);
  }
  return step;
}

void Sketch::add(const Subject& subject, const Query& asked) {
  const Query query = within_classes(asked);
  const std::lock_guard lock(mutex_);
  Page& page = page_of(query);
  charge(page, position_on(page, query.now), subject, query);
}

// From the page that would be charged now. If that has become another one meanwhile, the cost stays
// where it is: on the strict side.
void Sketch::take_back(const Subject& subject, const Query& asked, int64_t sequence) {
  const Query query = within_classes(asked);
  const std::lock_guard lock(mutex_);
  const Page& page = page_of(query);
  if (sequence > page.newest || sequence < page.newest - 1) return;
  for (int row = 0; row < kRows; ++row) {
    Counter& count = counter(page, sequence, row, subject);
    // A counter that was full stays full.
    if (count == kCounterMax) continue;
    count -= static_cast<Counter>(std::min<Count>(query.ask.cost, count));
  }
}

Count Sketch::counted(const Subject& subject, const Query& asked) {
  const Query query = within_classes(asked);
  const auto now = query.now.time_since_epoch().count();
  const size_t place = subject.across_durations ? kClasses : class_of(query.duration);
  if (matters_until_[place].load(std::memory_order_acquire) <= now) return 0;
  const std::lock_guard lock(mutex_);
  return elsewhere(subject, query, nullptr).count;
}

}  // namespace weir::memory
