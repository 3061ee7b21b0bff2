#include "sim/report/svg_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/figures.h"
#include "sim/report/plot.h"

namespace weir::sim {
namespace {

constexpr double kLetter = 6.4;  // on average, of the 11 px that labels are written in

std::string legend(const std::vector<Named>& entries) {
  if (entries.empty()) return {};
  std::string text = "<div class=\"legend\">";
  for (const Named& each : entries) {
    text += fmt::format("<span><i class=\"{}\" style=\"--swatch:{}\"></i>{}</span>", each.kind,
                        each.colour, escaped(each.label));
  }
  return text + "</div>";
}

}  // namespace

double width_of(std::string_view text) {
  const auto letters = std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
  return static_cast<double>(letters) * kLetter;
}

std::string text_at(Spot spot, std::string_view kind, std::string_view words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>", spot.x, spot.y, kind,
                     escaped(words));
}

std::string line(Spot from, Spot to, std::string_view kind) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)",
                     from.x, from.y, to.x, to.y, kind);
}

std::string tick_label(double value) {
  std::string text = std::abs(value) < 1e-12 ? "0" : fmt::format("{:.4g}", value);
  return std::abs(value) >= 1000 ? readable(std::round(value), kThin) : text;
}

std::string figure_of(const FigureParts& parts) {
  std::string text = fmt::format("<figure><figcaption><h3>{}</h3>", escaped(parts.title));
  if (!parts.note.empty()) text += fmt::format("<p>{}</p>", escaped(parts.note));
  text += "</figcaption>" + legend(parts.legend) + "<div class=\"frame\">" + parts.svg + "</div>";
  if (!parts.data.empty()) text += "<script type=\"application/json\">" + parts.data + "</script>";
  return text + "</figure>\n";
}

std::string escaped(std::string_view text) {
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

std::vector<double> ticks_up_to(double most, size_t about) {
  if (!std::isfinite(most) || most <= 0) return {0, 1};
  const auto parts = static_cast<double>(std::max<size_t>(about, 1));
  const double power = std::pow(10, std::floor(std::log10(most / parts)));
  double step = 10 * power;
  for (const double digit : {5.0, 2.0, 1.0}) {
    if (most / (digit * power) <= parts) step = digit * power;
  }
  std::vector<double> ticks = {0};
  while (ticks.back() < most * (1 - 1e-9)) {
    ticks.push_back(step * static_cast<double>(ticks.size()));
  }
  return ticks;
}

std::vector<size_t> thinned(const std::vector<double>& values, size_t room) {
  std::vector<size_t> kept;
  const size_t buckets = std::max<size_t>(1, room / 2);
  if (values.size() <= room) {
    for (size_t i = 0; i < values.size(); ++i) kept.push_back(i);
    return kept;
  }
  kept.push_back(0);
  const auto keep = [&kept](size_t i) {
    if (kept.back() < i) kept.push_back(i);
  };
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = bucket * values.size() / buckets;
    const size_t end = (bucket + 1) * values.size() / buckets;
    size_t least = begin;
    size_t most = begin;
    for (size_t i = begin; i < end; ++i) {
      if (finite(values[i]) < finite(values[least])) least = i;
      if (finite(values[i]) > finite(values[most])) most = i;
    }
    keep(std::min(least, most));
    keep(std::max(least, most));
  }
  keep(values.size() - 1);
  return kept;
}

}  // namespace weir::sim
