#include "platform/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

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

void Pages::clear(size_t offset, size_t bytes) const {
  // Whole pages by the system, the rest at both ends by memset.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* const begin = static_cast<char*>(data_) + offset;
  const size_t first = std::min(bytes, (page - offset % page) % page);
  const size_t whole = (bytes - first) / page * page;
  std::memset(begin, 0, first);
  if (whole > 0) WEIR_CHECK(madvise(begin + first, whole, MADV_DONTNEED) == 0);
  std::memset(begin + first + whole, 0, bytes - first - whole);
}

}  // namespace weir::platform
