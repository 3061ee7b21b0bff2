#include "platform/grace.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/race_detector.h"

namespace weir::platform {
namespace {

// Records are added at the head and never taken out: there are as many as there were
// threads at the same time.
std::atomic<ThreadRecord*> first_record{nullptr};
std::atomic<uint32_t> record_count{0};

ThreadRecord& take_record() {
  for (ThreadRecord* r = first_record.load(std::memory_order_acquire); r; r = r->next) {
    bool expected = false;
    // Acquire: all that the record's former thread did comes before what we do.
    if (r->taken.compare_exchange_strong(expected, true, std::memory_order_acquire)) return *r;
  }
  auto* record = new ThreadRecord;
  record->index = record_count.fetch_add(1, std::memory_order_relaxed);
  record->next = first_record.load(std::memory_order_relaxed);
  while (!first_record.compare_exchange_weak(record->next, record, std::memory_order_seq_cst)) {
  }
  return *record;
}

// Gives the record back when the thread ends.
struct Lease {
  ThreadRecord& record = take_record();
  ~Lease() {
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

// Every ticket up to this one is known to be over.
base::Atomic<uint64_t> known_over{0};

}  // namespace

namespace detail {

base::Atomic<uint64_t> grace_epoch{1};
const bool readers_run_barriers = !system_runs_barriers();
constinit thread_local ThreadRecord* thread_record = nullptr;

ThreadRecord& take_thread_record() {
  thread_local Lease lease;
  thread_record = &lease.record;
  return lease.record;
}

}  // namespace detail

uint64_t draw_grace_ticket() {
  return detail::grace_epoch.fetch_add(1, std::memory_order_seq_cst) + 1;
}

bool grace_is_over(uint64_t ticket) {
  if (ticket <= known_over.load(std::memory_order_acquire)) return true;
  // With nobody pinned, all tickets drawn so far are over.
  uint64_t oldest = detail::grace_epoch.load(std::memory_order_seq_cst);
  barrier_everywhere();
  for (ThreadRecord* r = first_record.load(std::memory_order_seq_cst); r; r = r->next) {
    const uint64_t pinned = r->pinned.load(std::memory_order_seq_cst);
    if (pinned != 0) oldest = std::min(oldest, pinned);
  }
  if (oldest < ticket) return false;
  barrier_everywhere();
  uint64_t known = known_over.load(std::memory_order_relaxed);
  while (known < oldest &&
         !known_over.compare_exchange_weak(known, oldest, std::memory_order_acq_rel)) {
  }
  return true;
}

}  // namespace weir::platform
