// Answers of the Redis protocol, in the version the client asked for.

#pragma once

#include <concepts>
#include <string_view>

#include "frontends/bytes.h"

namespace weir::frontends {

class RespWriter {
 public:
  explicit RespWriter(Bytes& out, int protocol = 2) : out_(out), protocol_(protocol) {}

  void simple(std::string_view text) { out_.append_all('+', text, kEnd); }
  // A line: what would end it becomes a space.
  void error(std::string_view text) {
    out_.append('-');
    for (const char c : text) out_.append(c == '\r' || c == '\n' ? ' ' : c);
    out_.append(kEnd);
  }
  void integer(std::integral auto number) { out_.append_all(':', number, kEnd); }
  void bulk(std::string_view text) { out_.append_all('$', text.size(), kEnd, text, kEnd); }
  void null() { out_.append(protocol_ == 3 ? std::string_view("_\r\n") : "$-1\r\n"); }
  void boolean(bool value) {
    if (protocol_ == 3) {
      out_.append(value ? std::string_view("#t\r\n") : "#f\r\n");
    } else {
      integer(value ? 1 : 0);
    }
  }
  void array(size_t items) { out_.append_all('*', items, kEnd); }
  // Keys and values follow each other; in version 2 they are one flat array.
  void map(size_t pairs) {
    if (protocol_ == 3) {
      out_.append_all('%', pairs, kEnd);
    } else {
      array(2 * pairs);
    }
  }

 private:
  static constexpr std::string_view kEnd = "\r\n";
  Bytes& out_;
  int protocol_;
};

}  // namespace weir::frontends
