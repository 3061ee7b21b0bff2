#include "epoch/epoch.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/race_detector.h"

namespace weir::epoch {
namespace {

// Records are added at the head and never removed: there are as many as there were threads at the
// same time.
std::atomic<ThreadRecord*> first_record{nullptr};
std::atomic<uint32_t> record_count{0};

ThreadRecord& take_record() {
  for (ThreadRecord* r = first_record.load(std::memory_order_acquire); r; r = r->next) {
    bool expected = false;
    // Acquire: everything the former thread of the record did happens before.
    if (r->taken.compare_exchange_strong(expected, true, std::memory_order_acquire)) return *r;
  }
  auto* record = new ThreadRecord;
  record->index = record_count.fetch_add(1, std::memory_order_relaxed);
  record->next = first_record.load(std::memory_order_relaxed);
  while (!first_record.compare_exchange_weak(record->next, record, std::memory_order_seq_cst)) {
  }
  return *record;
}

// Returns the record when the thread ends.
struct RecordOwner {
  ThreadRecord& record = take_record();
  ~RecordOwner() {
    detail::thread_record = nullptr;
    record.taken.store(false, std::memory_order_release);
  }
};

bool system_runs_barriers() {
#if defined(WEIR_RACE_DETECTOR) || defined(WEIR_MUTATIONS)
  return false;
#else
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

// A full barrier on every thread of this process.
void barrier_everywhere() {
  if (!detail::readers_run_barriers) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  }
}

// Every epoch up to this one is known to be reclaimable.
base::Atomic<uint64_t> known_reclaimable{0};

}  // namespace

namespace detail {

base::Atomic<uint64_t> current_epoch{1};
const bool readers_run_barriers = !system_runs_barriers();
constinit thread_local ThreadRecord* thread_record = nullptr;

ThreadRecord& take_thread_record() {
  thread_local RecordOwner owner;
  thread_record = &owner.record;
  return owner.record;
}

}  // namespace detail

uint64_t retire_epoch() {
  return detail::current_epoch.fetch_add(1, std::memory_order_seq_cst) + 1;
}

bool is_reclaimable(uint64_t retired) {
  if (retired <= known_reclaimable.load(std::memory_order_acquire)) return true;
  // Without any Guard, all epochs retired so far are reclaimable.
  uint64_t oldest = detail::current_epoch.load(std::memory_order_seq_cst);
  barrier_everywhere();
  for (ThreadRecord* r = first_record.load(std::memory_order_seq_cst); r; r = r->next) {
    const uint64_t entered = r->entered.load(std::memory_order_seq_cst);
    if (entered != 0) oldest = std::min(oldest, entered);
  }
  if (oldest < retired) return false;
  barrier_everywhere();
  uint64_t known = known_reclaimable.load(std::memory_order_relaxed);
  while (known < oldest &&
         !known_reclaimable.compare_exchange_weak(known, oldest, std::memory_order_acq_rel)) {
  }
  return true;
}

}  // namespace weir::epoch
