#include "platform/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace weir::platform {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

void* map(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  WEIR_CHECK(data != MAP_FAILED);
  return data;
}

// The system makes huge pages only of whole ones, so the memory begins at the start of one. What
// fills none, at the end or in all, stays on small pages.
void* map_huge(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + page - 1) / page * page;
  auto* const mapped = static_cast<char*>(map(used + kHugePage));
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
  char* const data = mapped + before;
  if (before > 0) munmap(mapped, before);
  munmap(data + used, kHugePage - before);
  madvise(data, used, MADV_HUGEPAGE);  // advice only
  return data;
}

}  // namespace

Pages::Pages(size_t bytes)
    : data_(bytes < kHugePage ? map(bytes) : map_huge(bytes)), bytes_(bytes) {}

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
