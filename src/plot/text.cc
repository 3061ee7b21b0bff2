#include "plot/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir::plot {
namespace {

// The number of leading bytes that form one code point; 0 if they are not UTF-8.
size_t code_point_bytes(std::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool out_of_range = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || out_of_range ? 0 : length;
}

int fraction_digits(double magnitude) {
  if (magnitude >= 100) return 0;
  return magnitude >= 10 ? 1 : 3;  // counts relative to a limit differ by thousandths
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < ' ' && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = code_point_bytes(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (const char c = text[0]; c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < ' ' || c == '<' || c == '\x7f') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string readable(double value, std::string_view thousands) {
  if (!std::isfinite(value)) return "?";
  const double magnitude = std::abs(value);
  if (magnitude >= 1e15) return fmt::format("{:.3g}", value);
  if (magnitude > 0 && magnitude < 0.001) return fmt::format("{:.1g}", value);
  const bool whole = magnitude == std::floor(magnitude);
  std::string text = fmt::format("{:.{}f}", magnitude, whole ? 0 : fraction_digits(magnitude));
  const size_t point = std::min(text.find('.'), text.size());
  if (text.size() == point + 4 && text.back() == '0') text.pop_back();
  for (size_t at = point; at > 3; at -= 3) text.insert(at - 3, thousands);
  return value < 0 ? fmt::format("-{}", text) : text;
}

}  // namespace weir::plot
