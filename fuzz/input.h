// What the fuzzer made up: text, and behind it a few bytes that choose how the text arrives.
//
// So a seed is the text as it would be sent, with one or two arbitrary characters at its end.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace weir::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : text_(reinterpret_cast<const char*>(data), size) {}

  // A number from 0 to `most`, taken from the end; 0 when nothing is left.
  size_t number(size_t most) {
    size_t number = 0;
    for (size_t range = most; range > 0 && !text_.empty(); range >>= 8) {
      number = number << 8 | static_cast<uint8_t>(text_.back());
      text_.remove_suffix(1);
    }
    return number % (most + 1);
  }
  // Where the text is to be split. To be asked last.
  size_t cut() {
    const size_t wish = number(0xffff);
    return wish % (text_.size() + 1);
  }
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Bytes with nothing readable behind them, so that the sanitizer sees every look beyond.
class Exact {
 public:
  explicit Exact(std::string_view text) : bytes_(text.begin(), text.end()) {}
  [[nodiscard]] std::string_view view() const { return {bytes_.data(), bytes_.size()}; }
  [[nodiscard]] char* data() { return bytes_.data(); }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool holds(std::string_view part) const {
    return part.data() >= bytes_.data() && part.data() + part.size() <= bytes_.data() + size();
  }

 private:
  std::vector<char> bytes_;
};

// Ends the run with the input kept, if something that must hold does not.
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

inline void must_equal(const std::string& whole, const std::string& split, const char* what) {
  if (whole == split) return;
  std::fprintf(stderr, "%s\n--- whole:\n%s\n--- split:\n%s\n", what, whole.c_str(), split.c_str());
  must(false, what);
}

// The input in one piece and in two: a Listener tells the same story of both.
template <typename Listener>
void must_be_received_alike(Input input) {
  const size_t cut = input.cut();
  Listener whole;
  whole.hear(input.text());
  Listener split;
  split.hear(input.text().substr(0, cut));
  split.hear(input.text().substr(cut));
  must_equal(whole.story(), split.story(), "whole and split are understood alike");
}

}  // namespace weir::fuzz
