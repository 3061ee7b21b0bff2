// Writes replies of the Redis protocol in the version that the client chose.

#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/decimal.h"
#include "frontends/bytes.h"

namespace weir::frontends {

class RespWriter {
 public:
  explicit RespWriter(Bytes& out, int protocol = 2) : out_(out), protocol_(protocol) {}

  void simple(std::string_view text) { out_.append_all('+', text, kEnd); }
  // A line: CR and LF become spaces.
  void error(std::string_view text) {
    out_.append('-');
    for (const char c : text) out_.append(c == '\r' || c == '\n' ? ' ' : c);
    out_.append(kEnd);
  }
  void integer(std::integral auto number) { out_.append_all(':', number, kEnd); }
  // An array of integers. The most frequent reply, so it is written in one piece.
  template <size_t kCount>
  void integers(const std::array<int64_t, kCount>& numbers) {
    constexpr size_t kLongest = 24;
    const std::span<char> space = out_.prepare((kCount + 1) * kLongest);
    char* at = space.data();
    *at++ = '*';
    at = put(at, static_cast<int64_t>(kCount));
    for (const int64_t number : numbers) {
      *at++ = ':';
      at = put(at, number);
    }
    out_.commit(static_cast<size_t>(at - space.data()));
  }
  void bulk(std::string_view text) { out_.append_all('$', text.size(), kEnd, text, kEnd); }
  void null() { out_.append(protocol_ == 3 ? std::string_view("_\r\n") : "$-1\r\n"); }
  // In place of an array.
  void null_array() { out_.append(protocol_ == 3 ? std::string_view("_\r\n") : "*-1\r\n"); }
  void boolean(bool value) {
    if (protocol_ == 3) {
      out_.append(value ? std::string_view("#t\r\n") : "#f\r\n");
    } else {
      integer(value ? 1 : 0);
    }
  }
  void array(size_t items) { out_.append_all('*', items, kEnd); }
  // Keys and values alternate; version 2 has a flat array.
  void map(size_t pairs) {
    if (protocol_ == 3) {
      out_.append_all('%', pairs, kEnd);
    } else {
      array(2 * pairs);
    }
  }

 private:
  static char* put(char* at, int64_t number) {
    at = base::put_decimal(at, number);
    *at++ = '\r';
    *at++ = '\n';
    return at;
  }

  static constexpr std::string_view kEnd = "\r\n";
  Bytes& out_;
  int protocol_;
};

}  // namespace weir::frontends
