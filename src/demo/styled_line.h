// A line of text with colours and a maximum width.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace weir::demo {

enum class Colour : uint8_t { kNone, kAnsi };

enum class Style : uint8_t { kPlain, kStrong, kFaint, kGood, kBad, kWaiting };

inline std::string_view code_of(Style style) {
  switch (style) {
    case Style::kPlain: break;
    case Style::kStrong: return "\x1b[1m";
    case Style::kFaint: return "\x1b[2m";
    case Style::kGood: return "\x1b[32m";
    case Style::kBad: return "\x1b[31m";
    case Style::kWaiting: return "\x1b[33m";
  }
  return "\x1b[0m";
}

// Built from left to right; text beyond the width is dropped.
class StyledLine {
 public:
  StyledLine(Colour colour, int width) : colour_(colour), left_(width) {}

  // ASCII only: one byte is one column.
  StyledLine& text(Style style, std::string_view content) {
    const auto fitting = std::min(content.size(), static_cast<size_t>(std::max(left_, 0)));
    return put(style, content.substr(0, fitting), static_cast<int>(fitting));
  }

  StyledLine& glyphs(Style style, std::string_view glyph, int count) {
    for (int i = 0; i < count && left_ > 0; ++i) put(style, glyph, 1);
    return *this;
  }

  [[nodiscard]] std::string finish() {
    switch_to(Style::kPlain);
    return std::move(line_);
  }

 private:
  StyledLine& put(Style style, std::string_view content, int columns) {
    if (columns == 0) return *this;
    switch_to(style);
    line_ += content;
    left_ -= columns;
    return *this;
  }

  void switch_to(Style style) {
    if (style == style_) return;
    style_ = style;
    if (colour_ == Colour::kNone) return;
    line_ += code_of(Style::kPlain);
    if (style != Style::kPlain) line_ += code_of(style);
  }

  Colour colour_;
  int left_;
  Style style_ = Style::kPlain;
  std::string line_;
};

}  // namespace weir::demo
