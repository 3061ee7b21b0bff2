// Epoch-based reclamation: when may memory be reused that a reader could still be using?
//
// A reader holds a Guard while it uses an object that it found. A writer first unlinks the object,
// then calls retire_epoch(). Once is_reclaimable() returns true for that epoch, no reader that
// could have found the object holds a Guard any more. Readers never wait. The writer polls.
//
// Correctness. A Guard stores the current epoch in the record of its thread; retire_epoch() raises
// the epoch. Two full barriers are needed: one between the reader's store of its epoch and its
// first load from the structure, else the writer could miss the Guard of a reader that still finds
// the object; and one between the reader's last use and its release, else the memory could be
// reused while it is read. Reads are frequent and removals are rare, so readers pay for neither
// barrier: the writer makes the kernel run one on every thread of the process (membarrier), once
// before it reads the records and once after. Where membarrier is not available, or a race detector
// must follow the order, readers use sequentially consistent stores; then the first load from the
// structure must be seq_cst as well: see Table::find and Table::prefetch_slot.

#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic.h"
#include "base/inline.h"

namespace weir::epoch {

// One per thread of the process, reused after the thread ends. Only its own thread writes to it.
struct alignas(64) ThreadRecord {
  base::Atomic<uint64_t> entered{0};  // the epoch when its Guard was made; 0: no Guard
  uint32_t depth = 0;
  uint32_t index = 0;  // small and dense: 0, 1, 2, ...
  std::atomic<bool> taken{true};
  ThreadRecord* next = nullptr;  // fixed once the record is in the list
};

namespace detail {
extern base::Atomic<uint64_t> current_epoch;
extern const bool readers_run_barriers;                     // membarrier is not available
extern constinit thread_local ThreadRecord* thread_record;  // null until first used
ThreadRecord& take_thread_record();

WEIR_HOT_INLINE void enter(ThreadRecord& record, bool run_barriers = readers_run_barriers) {
  const uint64_t epoch = current_epoch.load(std::memory_order_acquire);
  // The fences keep the compiler from moving loads before the store. One fence behind both branches
  // would do, but it makes Engine::check 5 % slower.
  if (run_barriers) [[unlikely]] {
    record.entered.store(epoch, std::memory_order_seq_cst);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    record.entered.store(epoch, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

WEIR_HOT_INLINE void exit(ThreadRecord& record, bool run_barriers = readers_run_barriers) {
  if (run_barriers) [[unlikely]] {
    record.entered.store(0, std::memory_order_release);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    record.entered.store(0, std::memory_order_relaxed);
  }
}
}  // namespace detail

// Whether the first load of a reader from the structure may be relaxed.
[[nodiscard]] inline bool first_load_may_be_relaxed() {
  return !detail::readers_run_barriers;
}

[[nodiscard]] inline ThreadRecord& this_thread_record() {
  ThreadRecord* record = detail::thread_record;
  return record != nullptr ? *record : detail::take_thread_record();
}

// Protects what this thread reads. May be nested; the outermost Guard counts.
class Guard {
 public:
  Guard();
  ~Guard();
  [[nodiscard]] const ThreadRecord& thread() const { return record_; }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  ThreadRecord& record_;
};

// A Guard for short reads on the fast path: for a thread that has a record and holds no Guard. The
// caller must not make another Guard while it holds this one.
class FastGuard {
 public:
  // Null: use a Guard instead.
  [[nodiscard]] static ThreadRecord* available() {
    ThreadRecord* record = detail::thread_record;
    return record != nullptr && record->depth == 0 ? record : nullptr;
  }
  WEIR_HOT_INLINE explicit FastGuard(ThreadRecord& record) : record_(record) {
    detail::enter(record_, run_barriers_);
  }
  WEIR_HOT_INLINE ~FastGuard() { detail::exit(record_, run_barriers_); }
  FastGuard(const FastGuard&) = delete;
  FastGuard& operator=(const FastGuard&) = delete;

 private:
  ThreadRecord& record_;
  const bool run_barriers_ = detail::readers_run_barriers;  // read once
};

// Call after the object was unlinked.
[[nodiscard]] uint64_t retire_epoch();

// Whether every Guard that was made before the epoch was retired has ended. A Guard of the calling
// thread counts, too.
[[nodiscard]] bool is_reclaimable(uint64_t retired);

inline Guard::Guard() : record_(this_thread_record()) {
  if (record_.depth++ == 0) detail::enter(record_);
}

inline Guard::~Guard() {
  if (--record_.depth == 0) detail::exit(record_);
}

}  // namespace weir::epoch
