#include "platform/pages.h"

#include <sys/mman.h>

#include "base/check.h"

namespace weir::platform {

Pages::Pages(size_t bytes) : bytes_(bytes) {
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  WEIR_CHECK(data_ != MAP_FAILED);
  // Advice only; small tables would waste most of a huge page.
  if (bytes >= (size_t{4} << 20)) madvise(data_, bytes, MADV_HUGEPAGE);
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace weir::platform
