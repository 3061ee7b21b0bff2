// Returns memory that was freed on the heap to the system, if much of it is there: the heap would
// keep it for ever. Run regularly.
//
// One thread at a time; other threads may allocate meanwhile.

#pragma once

#include <cstddef>

namespace weir::platform {

class HeapTrim {
 public:
  void run_once();

 private:
  // Bytes when memory was last returned, or less if there were less since.
  size_t resident_after_ = 0;
  size_t free_after_ = 0;
};

}  // namespace weir::platform
