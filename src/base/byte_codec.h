// Writes and reads numbers and strings as bytes, for messages and stored records.
//
// A number is a LEB128 varint; a signed number is zigzag-encoded first. A string is its length and
// its bytes.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::base {

class ByteWriter {
 public:
  void add(uint64_t number) {
    for (; number >= 0x80; number >>= 7) bytes_ += static_cast<char>(number | 0x80);
    bytes_ += static_cast<char>(number);
  }
  void add_signed(int64_t number) {
    const auto bits = static_cast<uint64_t>(number);
    add(bits << 1 ^ (number < 0 ? ~uint64_t{0} : 0));
  }
  void add(std::string_view text) {
    add(uint64_t{text.size()});
    bytes_ += text;
  }

  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Once a read fails, all later ones do, and ok() is false.
class ByteReader {
 public:
  // The bytes must outlive the reader and the strings read.
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] uint64_t number() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return fail();
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      const uint64_t bits = byte & 0x7f;
      if (shift == 63 && bits > 1) return fail();
      number |= bits << shift;
      if (byte < 0x80) return number;
    }
    return fail();
  }
  [[nodiscard]] int64_t signed_number() {
    const uint64_t bits = number();
    return static_cast<int64_t>(bits >> 1 ^ (~(bits & 1) + 1));
  }
  [[nodiscard]] std::string_view text() {
    const uint64_t size = number();
    if (size > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

  [[nodiscard]] bool ok() const { return ok_; }
  // Everything was read, and nothing failed.
  [[nodiscard]] bool at_end() const { return ok_ && rest_.empty(); }

 private:
  uint64_t fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace weir::base
