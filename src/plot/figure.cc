#include "plot/figure.h"

#include <fmt/format.h>

#include "plot/text.h"

namespace weir::plot {
namespace {

std::string to_html(const std::vector<LegendEntry>& entries) {
  if (entries.empty()) return {};
  std::string text = "<div class=\"legend\">";
  for (const LegendEntry& each : entries) {
    text += fmt::format("<span><i class=\"{}\" style=\"--swatch:{}\"></i>{}</span>", each.swatch,
                        each.colour, escape_html(each.label));
  }
  return text + "</div>";
}

}  // namespace

std::string to_html(const Figure& figure) {
  std::string text = fmt::format("<figure><figcaption><h3>{}</h3>", escape_html(figure.title));
  if (!figure.note.empty()) text += fmt::format("<p>{}</p>", escape_html(figure.note));
  text += "</figcaption>" + to_html(figure.legend);
  text += "<div class=\"frame\">" + figure.svg + "</div>";
  if (!figure.data.empty()) {
    text += "<script type=\"application/json\">" + figure.data + "</script>";
  }
  return text + "</figure>\n";
}

std::string side_by_side(const std::string& figures) {
  return "<div class=\"pair\">" + figures + "</div>";
}

}  // namespace weir::plot
