#include "platform/heap_trim.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace weir::platform {
namespace {

// Bytes of this process in memory; 0: unknown.
size_t resident_bytes() {
  size_t pages = 0;
  if (FILE* const file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%*u %zu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

void HeapTrim::run_once() {
#if defined(__GLIBC__)
  constexpr size_t kWorthwhile = size_t{8} << 20;
  const size_t resident = resident_bytes();
  const size_t free = ::mallinfo2().fordblks;  // returned or not
  resident_after_ = std::min(resident_after_, resident);
  free_after_ = std::min(free_after_, free);
  // Memory may have been taken and freed since the last time: then only the process has grown.
  const bool grown = free >= kWorthwhile && resident >= resident_after_ + kWorthwhile;
  if (!grown && free < free_after_ + kWorthwhile) return;
  ::malloc_trim(0);
  resident_after_ = resident_bytes();
  free_after_ = free;
#endif
}

}  // namespace weir::platform
