// Grace periods: when may memory that a reader could still be looking at be reused?
//
// A reader pins for as long as it uses what it found. Whoever takes something out of
// sight draws a ticket afterwards; once the grace period of that ticket is over, every
// reader that could have found the thing has let go of it. Readers never wait, and the
// one who reuses only asks.
//
// Why it is correct. A pin stores the current epoch in the thread's record; a ticket
// raises the epoch. Between the reader's store of its pin and its first load of the
// structure there must be a full barrier, or the remover could miss the pin while the
// reader still finds the thing; and between its last use and letting go there must be
// one, or the memory could be reused under it. Reading is frequent and removing is rare,
// so the reader pays for neither: the remover has the system run a barrier on every
// thread of the process (membarrier), once before it looks at the pins and once after.
// Where the system cannot, or a race detector must be able to follow, readers use
// sequentially consistent stores; then "first load of the structure" must be seq_cst at
// every reader, too: see Table::find and Table::prefetch_slot.

#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "base/inline.h"

namespace weir::platform {

// One per thread, process-wide, reused after the thread ends. Only its own thread
// writes it.
struct alignas(64) ThreadRecord {
  base::Atomic<uint64_t> pinned{0};  // 0: not reading; else the epoch at which it began
  uint32_t depth = 0;
  uint32_t index = 0;  // small and dense: 0, 1, 2, ...
  std::atomic<bool> taken{true};
  ThreadRecord* next = nullptr;  // fixed once the record is in the list
};

namespace detail {
extern base::Atomic<uint64_t> grace_epoch;
extern const bool readers_run_barriers;                     // the system cannot do it for them
extern constinit thread_local ThreadRecord* thread_record;  // none until first asked for
ThreadRecord& take_thread_record();

WEIR_HOT_INLINE void pin(ThreadRecord& record, bool run_barriers = readers_run_barriers) {
  const uint64_t epoch = grace_epoch.load(std::memory_order_acquire);
  // The fences keep the compiler from looking before it has pinned. One behind both branches would
  // do, but makes Engine::check a twentieth longer.
  if (run_barriers) [[unlikely]] {
    record.pinned.store(epoch, std::memory_order_seq_cst);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    record.pinned.store(epoch, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

WEIR_HOT_INLINE void unpin(ThreadRecord& record, bool run_barriers = readers_run_barriers) {
  if (run_barriers) [[unlikely]] {
    record.pinned.store(0, std::memory_order_release);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    record.pinned.store(0, std::memory_order_relaxed);
  }
}
}  // namespace detail

// Whether the first look of a reader at what it will use may be relaxed.
[[nodiscard]] inline bool first_look_may_be_relaxed() {
  return !detail::readers_run_barriers;
}

[[nodiscard]] inline ThreadRecord& this_thread_record() {
  ThreadRecord* record = detail::thread_record;
  return record != nullptr ? *record : detail::take_thread_record();
}

// Pins this thread; may be nested, the outermost counts.
class Pin {
 public:
  Pin();
  ~Pin();
  [[nodiscard]] const ThreadRecord& thread() const { return record_; }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  ThreadRecord& record_;
};

// A pin for the shortest of readers: on a thread that has a record and is not pinned yet.
// Nothing that pins may be called meanwhile.
class LeafPin {
 public:
  // Null: use a Pin.
  [[nodiscard]] static ThreadRecord* possible() {
    ThreadRecord* record = detail::thread_record;
    return record != nullptr && record->depth == 0 ? record : nullptr;
  }
  WEIR_HOT_INLINE explicit LeafPin(ThreadRecord& record) : record_(record) {
    detail::pin(record_, run_barriers_);
  }
  WEIR_HOT_INLINE ~LeafPin() { detail::unpin(record_, run_barriers_); }
  LeafPin(const LeafPin&) = delete;
  LeafPin& operator=(const LeafPin&) = delete;

 private:
  ThreadRecord& record_;
  const bool run_barriers_ = detail::readers_run_barriers;  // read once
};

// To be drawn after the thing has been taken out of sight.
[[nodiscard]] uint64_t draw_grace_ticket();

// Whether nobody who pinned before the ticket was drawn is still pinned. Counts the
// calling thread too: it asks while not pinned, or is told no.
[[nodiscard]] bool grace_is_over(uint64_t ticket);

inline Pin::Pin() : record_(this_thread_record()) {
  if (record_.depth++ == 0) detail::pin(record_);
}

inline Pin::~Pin() {
  if (--record_.depth == 0) detail::unpin(record_);
}

}  // namespace weir::platform
