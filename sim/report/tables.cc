#include "sim/report/tables.h"

#include <fmt/format.h>

#include "sim/report/figures.h"
#include "sim/report/plot.h"

namespace weir::sim {

std::string difference_mark(const Figure& from, const Figure& to) {
  const Difference unlike = difference(from, to);
  if (unlike != Difference::kBetter && unlike != Difference::kWorse) return {};
  const char* arrow = to.value > from.value ? "&#9650;" : "&#9660;";
  return fmt::format("<span class=\"{0}\">{1} {0}</span>", to_string(unlike), arrow);
}

std::string promises_table(const std::vector<Results>& variants) {
  const std::vector<ExpectationResult>& all = variants.front().expectations;
  if (all.empty()) return {};
  std::string text = "<h2>Promises</h2><div class=\"sheet\"><table><thead><tr><th>promise</th>";
  for (const Results& run : variants) {
    text += fmt::format("<th>{}</th>", escaped(variants.size() > 1 ? variant_name(run) : "it was"));
  }
  text += "</tr></thead><tbody>";
  for (size_t i = 0; i < all.size(); ++i) {
    text += fmt::format("<tr><th>{}</th>", escaped(all[i].expectation));
    for (const Results& run : variants) {
      if (i >= run.expectations.size()) {
        text += "<td></td>";
        continue;
      }
      const ExpectationResult& each = run.expectations[i];
      text += fmt::format("<td>{}<span class=\"{}\">{}</span></td>", readable(each.actual, kThin),
                          each.met ? "better" : "worse",
                          each.met ? "&#10003; kept" : "&#10007; not kept");
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
      text += fmt::format("<th>{}</th>", escaped(variant_name(run)));
    text += "</tr></thead>";
  }
  text += "<tbody>";
  for (const FigureGroup& group : grouped(variants.front().figures)) {
    text += fmt::format("<tr class=\"group\"><th colspan=\"{}\">{}</th></tr>", variants.size() + 1,
                        escaped(group.title));
    for (const Figure& figure : group.figures) {
      text += fmt::format("<tr><th>{}</th>", escaped(figure.label));
      for (size_t i = 0; i < variants.size(); ++i) {
        const Figure* other = find_figure(variants[i], figure.key);
        text += fmt::format("<td>{}{}</td>", other ? escaped(with_unit(*other, kThin)) : "",
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
      "<h2>What went wrong, and when</h2><div class=\"sheet\"><table><thead><tr><th>fault</th>"
      "<th>from</th><th>to</th></tr></thead><tbody>";
  for (const FaultSpan& fault : base.faults) {
    const std::string to =
        fault.to > fault.from ? readable(fault.to, kThin) + " s" : std::string("at once");
    text += fmt::format("<tr><th>{}</th><td>{} s</td><td>{}</td></tr>", escaped(fault.label),
                        readable(fault.from, kThin), to);
  }
  return text + "</tbody></table></div>";
}

}  // namespace weir::sim
