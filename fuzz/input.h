// The input of a fuzz target: text, followed by a few bytes that choose how the text is split.
//
// So a seed is the text as a client sends it, with one or two arbitrary characters at its end.

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
  // The position at which to split the text. Call it last.
  size_t cut() {
    const size_t wish = number(0xffff);
    return wish % (text_.size() + 1);
  }
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Bytes in their own allocation, so that the sanitizer detects every read beyond them.
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

// Aborts the run, which keeps the input, if a condition does not hold.
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

inline void must_equal(const std::string& whole, const std::string& split, const char* what) {
  if (whole == split) return;
  std::fprintf(stderr, "%s\n--- whole:\n%s\n--- split:\n%s\n", what, whole.c_str(), split.c_str());
  must(false, what);
}

// Reads the input in one piece and in two: a Recorder must record the same for both.
template <typename Recorder>
void must_parse_the_same(Input input) {
  const size_t cut = input.cut();
  Recorder whole;
  whole.read(input.text());
  Recorder split;
  split.read(input.text().substr(0, cut));
  split.read(input.text().substr(cut));
  must_equal(whole.summary(), split.summary(), "whole and split input parse the same");
}

}  // namespace weir::fuzz
