// Numbers and strings as text: for readers, for HTML and for JSON.

#pragma once

#include <string>
#include <string_view>

namespace weir::plot {

// Separates thousands in a page or an image.
inline constexpr std::string_view kThinSpace = "\u202f";

// Safe inside HTML text and attributes, and inside SVG.
[[nodiscard]] std::string escape_html(std::string_view text);

// In quotes. Bytes that are not UTF-8 become U+FFFD. '<' is escaped as well, so that the result can
// stand in a <script> element.
[[nodiscard]] std::string json_string(std::string_view text);

// The shortest text that reads back as the same number; null for NaN and infinity.
[[nodiscard]] std::string json_number(double value);

// Three to four significant digits, no fraction for a whole number; "?" for NaN and infinity.
[[nodiscard]] std::string readable(double value, std::string_view thousands = ",");

}  // namespace weir::plot
