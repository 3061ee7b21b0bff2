#include "demo/board.h"

#include <algorithm>

namespace weir::demo {
namespace {

// The limiter does not read its clock: every check passes the time.
Limiter make_limiter() {
  return Limiter::create(system_clock(), {.capacity = 64, .seed = 1}).value();
}

}  // namespace

DemoBoard::DemoBoard(Instant now, const DemoSettings& settings)
    : settings_(settings), limiter_(make_limiter()), next_due_(now.mono) {
  reset(now);
}

void DemoBoard::step(Instant now) {
  if (settings_.requests_per_second > 0) {
    next_due_ = std::max(next_due_, now.mono - kMaxGap);
    for (; next_due_ <= now.mono; next_due_ += interval()) offer(now);
  }
  update_remaining(now);
}

void DemoBoard::press(Instant now, char key) {
  // Relative to the limit, so that a step is visible for large limits as well.
  const Count step = std::max<Count>(settings_.limit / 10, 1);
  if (key >= '0' && key <= '9') return set_rate(now, key - '0');
  switch (key) {
    case ' ': return burst(now);
    case '+':
    case '=': return set_limit(settings_.limit + step);  // + without shift on many keyboards
    case '-': return set_limit(settings_.limit - step);
    case 'w': return set_next_window();
    case 'r': return reset(now);
    default: return;
  }
}

void DemoBoard::burst(Instant now) {
  for (int i = 0; i < kBurst; ++i) offer(now);
}

void DemoBoard::offer(Instant now) {
  ++offered_;
  for (DemoRow& row : rows_) {
    const Verdict verdict = limiter_.check(now, request_for(row, 1)).value();
    ++(verdict.admitted() ? row.admitted : row.denied);
    row.recent.push_back(verdict.outcome);
    if (row.recent.size() > kRecent) row.recent.pop_front();
    row.retry_at.reset();
    if (verdict.retry_after) row.retry_at = now.mono + *verdict.retry_after;
  }
}

void DemoBoard::update_remaining(Instant now) {
  for (DemoRow& row : rows_) {
    row.remaining = limiter_.check(now, request_for(row, 0)).value().remaining;
  }
}

void DemoBoard::reset(Instant now) {
  limiter_ = make_limiter();
  offered_ = 0;
  for (int i = 0; i < kAlgorithmCount; ++i) {
    rows_[static_cast<size_t>(i)] = {.algorithm = static_cast<Algorithm>(i)};
  }
  update_remaining(now);
}

void DemoBoard::set_rate(Instant now, int64_t requests_per_second) {
  settings_.requests_per_second = requests_per_second;
  if (requests_per_second == 0) return;
  // A key must not offer a request early, and the old rate must not delay the next one.
  next_due_ = std::clamp(next_due_, now.mono, now.mono + interval());
}

void DemoBoard::set_limit(Count limit) {
  settings_.limit = std::clamp<Count>(limit, 1, DemoSettings::kMaxLimit);
  clear_retries();
}

void DemoBoard::set_next_window() {
  constexpr std::array kWindows = {Millis(1000), Millis(5000), Millis(10000)};
  const auto longer = std::ranges::upper_bound(kWindows, settings_.window);
  settings_.window = longer != kWindows.end() ? *longer : kWindows.front();
  clear_retries();
}

// Retry times depend on the limit and the window.
void DemoBoard::clear_retries() {
  for (DemoRow& row : rows_) row.retry_at.reset();
}

Nanos DemoBoard::interval() const {
  return Nanos(std::chrono::seconds(1)) / settings_.requests_per_second;
}

// Each row has its own identifier: algorithms of one family would share counts.
Request DemoBoard::request_for(const DemoRow& row, Count cost) const {
  return {.ns = "demo",
          .identifier = to_string(row.algorithm),
          .limit = settings_.limit,
          .duration = settings_.window,
          .cost = cost,
          .algorithm = row.algorithm};
}

}  // namespace weir::demo
