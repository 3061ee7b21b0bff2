// Large zeroed memory directly from the system, on huge pages if available: without them a random
// access into a big table misses the TLB as well as the cache.

#pragma once

#include <cstddef>
#include <utility>

namespace weir::platform {

// Owns the memory. Reserved at construction; each page becomes resident at its first write.
class Pages {
 public:
  Pages() = default;
  // Aborts the process if the system has no memory: there is no smaller table to fall back to.
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] size_t bytes() const { return bytes_; }
  // Clears a range and returns its pages to the system. Fast if little was written.
  void clear(size_t offset, size_t bytes) const;
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace weir::platform
