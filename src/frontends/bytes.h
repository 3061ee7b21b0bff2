// A byte buffer: written at the end, consumed from the start.
//
// Grows by doubling; shrink() frees the memory of an empty buffer. A large buffer is its own memory
// mapping, so that freeing it returns the memory to the system at once. kPadding bytes behind the
// last byte are always readable, because SIMD parsers read beyond the end.
//
// One thread at a time.

#pragma once

#include <concepts>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/decimal.h"
#include "base/inline.h"

namespace weir::frontends {

// Memory for a buffer: from the heap, or a mapping of its own from kMapped bytes on.
class Block {
 public:
  static constexpr size_t kMapped = 16 << 10;

  Block() = default;
  explicit Block(size_t size);
  ~Block() { release(); }
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), mapped_(std::exchange(other.mapped_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    if (this != &other) {
      release();
      data_ = std::exchange(other.data_, nullptr);
      mapped_ = std::exchange(other.mapped_, 0);
    }
    return *this;
  }

  [[nodiscard]] char* get() const { return data_; }
  // Whether a new block is zero; then nothing needs to be cleared, which would commit a page.
  [[nodiscard]] bool is_zero() const { return mapped_ > 0; }

 private:
  void release();

  char* data_ = nullptr;
  size_t mapped_ = 0;  // bytes; 0: from the heap
};

class Bytes {
 public:
  static constexpr size_t kPadding = 64;

  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] size_t size() const { return end_ - begin_; }
  [[nodiscard]] std::string_view unread() const { return {data_.get() + begin_, size()}; }
  [[nodiscard]] char* unread_data() { return data_.get() + begin_; }
  [[nodiscard]] size_t capacity() const { return capacity_; }  // without the padding
  // capacity() after prepare(count).
  [[nodiscard]] size_t capacity_with(size_t count) const {
    if (capacity_ - end_ >= count) return capacity_;
    size_t capacity = capacity_ == 0 ? 4096 : capacity_;
    while (capacity - size() < count) capacity *= 2;
    return capacity;
  }

  void consume(size_t count) {
    begin_ += count;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Space for at least `count` bytes behind the last. Invalidates views of unread().
  [[nodiscard]] WEIR_HOT_INLINE std::span<char> prepare(size_t count) {
    if (capacity_ - end_ < count) [[unlikely]]
      grow(count);
    return {data_.get() + end_, capacity_ - end_};
  }
  void commit(size_t count) { end_ += count; }

  void append(std::string_view text) {
    if (text.empty()) return;  // data() may be null
    std::memcpy(prepare(text.size()).data(), text.data(), text.size());
    end_ += text.size();
  }
  void append(char c) {
    prepare(1)[0] = c;
    ++end_;
  }
  void append(std::integral auto number) { append_all(number); }
  // Texts, characters and numbers, one after the other. Inlined, so that texts which the compiler
  // knows are stored, not copied by a call.
  template <typename... Parts>
  WEIR_HOT_INLINE void append_all(const Parts&... parts) {
    char* at = prepare((most_of(parts) + ...)).data();
    ((at = put(at, parts)), ...);
    end_ = static_cast<size_t>(at - data_.get());
  }

  void clear() { begin_ = end_ = 0; }
  // Frees the memory of an empty buffer if it is larger than `most`.
  void shrink(size_t limit) {
    if (empty() && capacity_ > limit) *this = Bytes();
  }

 private:
  static size_t most_of(std::string_view text) { return text.size(); }
  static size_t most_of(char) { return 1; }
  static size_t most_of(std::integral auto) { return base::kMaxDecimal; }
  WEIR_HOT_INLINE static char* put(char* at, std::string_view text) {
    if (!text.empty()) std::memcpy(at, text.data(), text.size());  // data() may be null
    return at + text.size();
  }
  WEIR_HOT_INLINE static char* put(char* at, char c) {
    *at = c;
    return at + 1;
  }
  WEIR_HOT_INLINE static char* put(char* at, std::integral auto number) {
    return base::put_decimal(at, number);
  }

  [[gnu::noinline]] void grow(size_t count) {
    const size_t unread = size();
    const size_t capacity = capacity_with(count);
    if (capacity == capacity_) {
      std::memmove(data_.get(), data_.get() + begin_, unread);
    } else {
      Block data(capacity + kPadding);
      if (unread > 0) std::memcpy(data.get(), data_.get() + begin_, unread);
      if (!data.is_zero()) std::memset(data.get() + capacity, 0, kPadding);
      data_ = std::move(data);
      capacity_ = capacity;
    }
    begin_ = 0;
    end_ = unread;
  }

  Block data_;
  size_t capacity_ = 0;  // without the padding
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace weir::frontends
