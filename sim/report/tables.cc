#include "sim/report/tables.h"

#include <fmt/format.h>

#include "plot/text.h"
#include "sim/report/figures.h"

namespace weir::sim {

using plot::escape_html;
using plot::kThinSpace;
using plot::readable;

std::string difference_mark(const Figure& from, const Figure& to) {
  const Difference found = difference(from, to);
  if (found != Difference::kBetter && found != Difference::kWorse) return {};
  const char* arrow = to.value > from.value ? "&#9650;" : "&#9660;";
  return fmt::format("<span class=\"{0}\">{1} {0}</span>", to_string(found), arrow);
}

std::string expectations_table(const std::vector<Results>& variants) {
  const std::vector<Kept>& all = variants.front().promises;
  if (all.empty()) return {};
  std::string text =
      "<h2>Expectations</h2><div class=\"sheet\"><table><thead><tr><th>expectation</th>";
  for (const Results& run : variants) {
    text +=
        fmt::format("<th>{}</th>", escape_html(variants.size() > 1 ? variant_name(run) : "actual"));
  }
  text += "</tr></thead><tbody>";
  for (size_t i = 0; i < all.size(); ++i) {
    text += fmt::format("<tr><th>{}</th>", escape_html(all[i].promise));
    for (const Results& run : variants) {
      if (i >= run.promises.size()) {
        text += "<td></td>";
        continue;
      }
      const Kept& each = run.promises[i];
      text += fmt::format("<td>{}<span class=\"{}\">{}</span></td>", readable(each.was, kThinSpace),
                          each.kept ? "better" : "worse",
                          each.kept ? "&#10003; met" : "&#10007; not met");
    }
    text += "</tr>";
  }
  return text + "</tbody></table></div>";
}

std::string figures_table(const std::vector<Results>& variants) {
  std::string text = "<h2>All figures</h2><div class=\"sheet\"><table>";
  if (variants.size() > 1) {
    text += "<thead><tr><th></th>";
    for (const Results& run : variants)
      text += fmt::format("<th>{}</th>", escape_html(variant_name(run)));
    text += "</tr></thead>";
  }
  text += "<tbody>";
  for (const FigureGroup& group : grouped(variants.front().figures)) {
    text += fmt::format("<tr class=\"group\"><th colspan=\"{}\">{}</th></tr>", variants.size() + 1,
                        escape_html(group.title));
    for (const Figure& figure : group.figures) {
      text += fmt::format("<tr><th>{}</th>", escape_html(figure.label));
      for (size_t i = 0; i < variants.size(); ++i) {
        const Figure* other = find_figure(variants[i], figure.key);
        text +=
            fmt::format("<td>{}{}</td>", other ? escape_html(with_unit(*other, kThinSpace)) : "",
                        other && i > 0 ? difference_mark(figure, *other) : "");
      }
      text += "</tr>";
    }
  }
  return text + "</tbody></table></div>";
}

std::string faults_table(const Results& base) {
  if (base.faults.empty()) return {};
  std::string text =
      "<h2>Faults</h2><div class=\"sheet\"><table><thead><tr><th>fault</th>"
      "<th>from</th><th>to</th></tr></thead><tbody>";
  for (const FaultSpan& fault : base.faults) {
    const std::string to =
        fault.to > fault.from ? readable(fault.to, kThinSpace) + " s" : std::string("instant");
    text += fmt::format("<tr><th>{}</th><td>{} s</td><td>{}</td></tr>", escape_html(fault.label),
                        readable(fault.from, kThinSpace), to);
  }
  return text + "</tbody></table></div>";
}

}  // namespace weir::sim
