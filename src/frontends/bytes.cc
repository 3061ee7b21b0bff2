#include "frontends/bytes.h"

#include <sys/mman.h>

namespace weir::frontends {
namespace {

// Sanitizers check heap memory only.
#if defined(WEIR_SANITIZED)
constexpr bool kMaps = false;
#else
constexpr bool kMaps = true;
#endif

}  // namespace

Block::Block(size_t size) {
  if (kMaps && size >= kMapped) {
    void* const pages =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) {
      data_ = static_cast<char*>(pages);
      mapped_ = size;
      return;
    }
  }
  data_ = new char[size];  // also if mmap() fails
}

void Block::release() {
  if (mapped_ > 0) {
    munmap(data_, mapped_);
  } else {
    delete[] data_;
  }
}

}  // namespace weir::frontends
