// Bytes on their way in or out: written at the end, read from the front.
//
// Grows by doubling as far as its users let it, and gives the memory back when it is
// empty. Behind the last byte there is always some room that may be read, whatever stands
// there: parsers that look at many bytes at a time need it.
//
// One thread at a time.

#pragma once

#include <charconv>
#include <concepts>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace weir::frontends {

class Bytes {
 public:
  static constexpr size_t kPadding = 64;

  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] size_t size() const { return end_ - begin_; }
  [[nodiscard]] std::string_view unread() const { return {data_.get() + begin_, size()}; }
  [[nodiscard]] char* unread_data() { return data_.get() + begin_; }

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
    size_t capacity = capacity_ == 0 ? 4096 : capacity_;
    while (capacity - unread < count) capacity *= 2;
    if (capacity == capacity_) {
      std::memmove(data_.get(), data_.get() + begin_, unread);
    } else {
      auto data = std::make_unique_for_overwrite<char[]>(capacity + kPadding);
      if (unread > 0) std::memcpy(data.get(), data_.get() + begin_, unread);
      std::memset(data.get() + capacity, 0, kPadding);
      data_ = std::move(data);
      capacity_ = capacity;
    }
    begin_ = 0;
    end_ = unread;
  }

  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;  // without the padding
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace weir::frontends
