// Bytes on their way in or out: written at the end, read from the front.
//
// Grows by doubling as far as its users let it, and gives the memory back when it is
// empty. A large buffer is mapped by itself, so that the system has its memory back at once
// when it is freed, whatever the heap looks like. Behind the last byte there is always some
// room that may be read, whatever stands there: parsers that look at many bytes at a time
// need it.
//
// One thread at a time.

#pragma once

#include <charconv>
#include <concepts>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

namespace weir::frontends {

// Memory for a buffer: from the heap, or, from kMapped on, mapped by itself.
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
  // Whether nothing but zeros is in it when it is new; writing some would take a page.
  [[nodiscard]] bool is_zero() const { return mapped_ > 0; }

 private:
  void release();

  char* data_ = nullptr;
  size_t mapped_ = 0;  // bytes; 0: it is from the heap
};

class Bytes {
 public:
  static constexpr size_t kPadding = 64;

  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] size_t size() const { return end_ - begin_; }
  [[nodiscard]] std::string_view unread() const { return {data_.get() + begin_, size()}; }
  [[nodiscard]] char* unread_data() { return data_.get() + begin_; }
  [[nodiscard]] size_t capacity() const { return capacity_; }  // bytes of memory, almost
  // What capacity() will be when there is room for `count` more.
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

  // Room for `count` bytes behind the last; views of what is unread end here.
  [[nodiscard]] std::span<char> room(size_t count) {
    if (capacity_ - end_ < count) make_room(count);
    return {data_.get() + end_, capacity_ - end_};
  }
  void wrote(size_t count) { end_ += count; }

  void append(std::string_view text) {
    if (text.empty()) return;  // and may be nowhere
    std::memcpy(room(text.size()).data(), text.data(), text.size());
    end_ += text.size();
  }
  void append(char c) {
    room(1)[0] = c;
    ++end_;
  }
  void append(std::integral auto number) {
    const std::span<char> free = room(24);
    end_ = static_cast<size_t>(std::to_chars(free.data(), free.data() + free.size(), number).ptr -
                               data_.get());
  }
  template <typename... Parts>
  void append_all(const Parts&... parts) {
    (append(parts), ...);
  }

  void clear() { begin_ = end_ = 0; }
  // Gives memory beyond `most` back, if nothing is unread.
  void shrink(size_t most) {
    if (empty() && capacity_ > most) *this = Bytes();
  }

 private:
  void make_room(size_t count) {
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
