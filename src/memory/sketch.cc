#include "memory/sketch.h"

#include <algorithm>

#include "algorithms/windows.h"
#include "base/mutex.h"

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

Sketch::Sketch(size_t capacity, ByteBudget* budget, size_t reserved_pages)
    : width_(width_for(capacity)), budget_(budget), reserved_pages_(reserved_pages) {
  for (size_t i = 0; i < kClasses; ++i) {
    pages_[kOwnPages + i].duration = duration_of_class(i);
    pages_[kOwnPages + i].min_class = i;
  }
  if (budget_ == nullptr || reserved_pages_ == 0) return;
  budget_->reserve_fixed(MemoryPart::kSketch, reserved_pages_ * page_bytes());
  // The largest class can count every duration.
  (void)ensure_memory(pages_.back(), {});
}

Query Sketch::capped_to_classes(const Query& query) {
  const Millis largest = duration_of_class(kClasses - 1);
  if (query.duration <= largest) return query;
  Query shorter = query;
  shorter.duration = largest;
  shorter.limit = base::mul_div(query.limit, static_cast<uint64_t>(largest.count()),
                                static_cast<uint64_t>(query.duration.count()));
  return shorter;
}

bool Sketch::ensure_memory(Page& page, WallTime now) {
  if (page.memory.bytes() != 0) return true;
  if (budget_ != nullptr && reserved_pages_ == 0) {
    const auto over = std::find_if(pages_.begin(), pages_.end() - 1, [&](const Page& other) {
      return other.memory.bytes() != 0 && !other.is_live_at(now);
    });
    if (over != pages_.end() - 1) {
      page.memory = std::move(over->memory);
      over->newest = -1;
      return true;
    }
    if (!budget_->reserve(MemoryPart::kSketch, page_bytes())) return false;
  } else if (reserved_pages_ > 0) {
    --reserved_pages_;
  }
  page.memory = platform::Pages(page_bytes());
  return true;
}

// The page of this duration, a free page, the page of its class, or of a larger class.
Sketch::Page& Sketch::page_of(const Query& query) {
  const auto own = pages_.begin() + kOwnPages;
  const auto same = std::find_if(pages_.begin(), own,
                                 [&](const Page& page) { return page.duration == query.duration; });
  if (same != own && ensure_memory(*same, query.now)) return *same;
  const auto free = std::find_if(pages_.begin(), own,
                                 [&](const Page& page) { return !page.is_live_at(query.now); });
  if (same == own && free != own && ensure_memory(*free, query.now)) {
    free->duration = query.duration;
    free->newest = -1;
    return *free;
  }
  // The last always has memory.
  auto of_class = own + static_cast<std::ptrdiff_t>(class_of(query.duration));
  while (!ensure_memory(*of_class, query.now)) ++of_class;
  return *of_class;
}

// Time does not run backwards on a page, unless the clock was set back far: then the page is reset.
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
    const size_t part = mix(subject.group, kFactors[static_cast<size_t>(row)]) % kGroupParts;
    column = part * (width_ / kGroupParts) + scaled(hash, width_ / kGroupParts);
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
    // A saturated counter may stand for any count.
    least = std::min(least, count == kCounterMax ? kMaxCount : count);
  }
  return least;
}

// Clears the counters of this window: their values are two windows old, or older.
void Sketch::begin_window(Page& page, int64_t sequence) {
  if (page.newest < 0 || sequence > page.newest + 1) {
    page.memory.clear(0, page_bytes());
    if (page.min_class < kClasses) page.min_class = class_of(page.duration);
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
  const size_t requested = class_of(query.duration);
  if (page.min_class < kClasses) page.min_class = std::min(page.min_class, requested);
  for (const size_t index : {requested, kClasses}) {
    // Written under the mutex, read without it.
    if (live_until_[index].load(std::memory_order_relaxed) < end) {
      live_until_[index].store(end, std::memory_order_release);
    }
  }
}

Sketch::OtherPages Sketch::other_pages(const Subject& subject, const Query& query,
                                       const Page* without) const {
  OtherPages found;
  const size_t requested = class_of(query.duration);
  for (const Page& page : pages_) {
    const bool counts = subject.across_durations || page.duration == query.duration ||
                        (page.min_class <= requested && query.duration <= page.duration);
    if (&page == without || !counts || !page.is_live_at(query.now)) continue;
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

CellDecision Sketch::decide(const Subject& subject, const Query& requested, Effect effect,
                            Count extra) {
  decisions_.fetch_add(1, std::memory_order_relaxed);
  const Query query = capped_to_classes(requested);
  const base::MutexLock lock(mutex_);
  Page& page = page_of(query);
  const algorithms::Position at = position_on(page, query.now);
  algorithms::WindowCounts counts{.current = estimate(page, at.sequence, subject),
                                  .previous = estimate(page, at.sequence - 1, subject)};
  OtherPages others = other_pages(subject, query, &page);
  if (extra > 0) {
    others.count += extra;
    others.end = std::max(others.end, query.now + query.duration);
  }
  CellDecision result;
  result.sequence = at.sequence;
  const bool own_grid = page.duration == query.duration && others.count == 0;
  if (own_grid && query.algorithm == Algorithm::kSlidingWindow) {
    result.decision = algorithms::decide_sliding(at, counts, query.ask);
  } else if (own_grid && query.algorithm == Algorithm::kFixedWindow) {
    result.decision = algorithms::decide_fixed(at, counts, query.ask);
  } else {
    // Both windows in full, within the smaller of limit and burst.
    const algorithms::Ask ask{.capacity = std::min(query.limit, query.ask.capacity),
                              .cost = query.ask.cost};
    const bool next_window_is_full = counts.current + ask.cost > ask.capacity;
    counts = {.current = counts.current + counts.previous + others.count, .previous = 0};
    result.decision = algorithms::decide_fixed(at, counts, ask);
    if (result.decision.retry_at) {
      if (next_window_is_full) *result.decision.retry_at += at.width;
      if (others.count > 0)
        result.decision.retry_at = std::max(*result.decision.retry_at, others.end);
    }
    // This rate never passes here, but as requested once the table has space.
    if (query.limit == 0 && requested.ask.cost <= requested.ask.capacity &&
        requested.ask.cost > 0) {
      result.decision.outcome = Outcome::kDenied;
      result.decision.retry_at = query.now + requested.duration;
    }
  }
  result.evidence.own = counts.current;
  if (effect == Effect::kConsume && query.ask.cost > 0 && result.decision.admitted()) {
    charge(page, at, subject, query);
  }
  return result;
}

void Sketch::add(const Subject& subject, const Query& requested) {
  const Query query = capped_to_classes(requested);
  const base::MutexLock lock(mutex_);
  Page& page = page_of(query);
  charge(page, position_on(page, query.now), subject, query);
}

// From the page that would be charged now. If that is another page than the one charged, the cost
// remains: an error on the strict side.
void Sketch::refund(const Subject& subject, const Query& requested, int64_t sequence) {
  const Query query = capped_to_classes(requested);
  const base::MutexLock lock(mutex_);
  const Page& page = page_of(query);
  if (sequence > page.newest || sequence < page.newest - 1) return;
  for (int row = 0; row < kRows; ++row) {
    Counter& count = counter(page, sequence, row, subject);
    // A saturated counter stays saturated.
    if (count == kCounterMax) continue;
    count -= static_cast<Counter>(std::min<Count>(query.ask.cost, count));
  }
}

Count Sketch::counted(const Subject& subject, const Query& requested) {
  const Query query = capped_to_classes(requested);
  const auto now = query.now.time_since_epoch().count();
  const size_t index = subject.across_durations ? kClasses : class_of(query.duration);
  if (live_until_[index].load(std::memory_order_acquire) <= now) return 0;
  const base::MutexLock lock(mutex_);
  return other_pages(subject, query, nullptr).count;
}

}  // namespace weir::memory
