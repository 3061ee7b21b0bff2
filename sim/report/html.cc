#include "sim/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "plot/page.h"
#include "plot/text.h"
#include "sim/report/charts.h"
#include "sim/report/figures.h"
#include "sim/report/tables.h"

namespace weir::sim {
namespace {

using plot::escape_html;
using plot::kThinSpace;

using Variants = std::vector<Results>;

std::string page_header(const Results& base) {
  std::string text = fmt::format(
      "<p class=\"eyebrow\">Weir simulation</p><h1>{}</h1><p class=\"about\">{}</p>"
      "<p class=\"facts\">{} region{} &middot; {} nodes &middot; {} keys &middot; seed {} &middot; "
      "{} &middot; {} events</p>",
      escape_html(base.scenario), escape_html(base.about), base.regions.size(),
      base.regions.size() == 1 ? "" : "s", base.nodes,
      plot::readable(static_cast<double>(base.keys), kThinSpace), base.seed,
      speed_of(base, kThinSpace), plot::readable(static_cast<double>(base.events), kThinSpace));
  return text;
}

std::string verdict(const Results& run, size_t variants) {
  const std::string prefix =
      variants > 1 ? fmt::format("{}: ", escape_html(variant_name(run))) : std::string();
  if (run.broken) {
    return fmt::format("<p class=\"verdict bad\">&#10007; {}invariant broken: {}</p>", prefix,
                       escape_html(*run.broken));
  }
  const size_t total = run.promises.size();
  if (total == 0) return {};
  const auto met = static_cast<size_t>(std::ranges::count_if(run.promises, &Kept::kept));
  if (met == total) {
    return fmt::format("<p class=\"verdict good\">&#10003; {}all expectations met</p>", prefix);
  }
  return fmt::format("<p class=\"verdict bad\">&#10007; {}{} of {} expectation{} not met</p>",
                     prefix, total - met, total, total == 1 ? "" : "s");
}

std::string cards(const Variants& variants) {
  std::string text = "<div class=\"cards\">";
  for (const char* key : {"worst_cell", "mean_cell", "bound", "denied", "false_denials", "rows",
                          "rows_read", "propagation_p99", "degraded", "offered_per_second"}) {
    const Figure* figure = find_figure(variants.front(), key);
    if (!figure) continue;
    text += fmt::format("<div class=\"card\" title=\"{}\"><p>{}</p><strong>{}</strong>",
                        escape_html(figure->label), escape_html(short_label(*figure)),
                        escape_html(with_unit(*figure, kThinSpace)));
    for (size_t i = 1; i < variants.size(); ++i) {
      const Figure* other = find_figure(variants[i], key);
      if (!other) continue;
      text += fmt::format(
          "<div class=\"other\" title=\"{}\"><i class=\"dot\" style=\"--swatch:{}\"></i><b>{}</b>{}"
          "</div>",
          escape_html(variant_name(variants[i])), variant_colour(i),
          escape_html(with_unit(*other, kThinSpace)), difference_mark(*figure, *other));
    }
    text += "</div>";
  }
  return text + "</div>";
}

// The colours of the variants in the cards.
std::string variant_legend(const Variants& variants) {
  if (variants.size() < 2) return {};
  std::string text = "<div class=\"legend\" style=\"margin:12px 0\">";
  for (size_t i = 0; i < variants.size(); ++i) {
    text += fmt::format("<span><i class=\"dot\" style=\"--swatch:{}\"></i>{}</span>",
                        variant_colour(i), escape_html(variant_name(variants[i])));
  }
  return text + "</div>";
}

std::string last_events(const Variants& variants) {
  std::string text;
  for (const Results& run : variants) {
    if (!run.broken) continue;
    text += "<h2>Last events before the invariant broke</h2><pre>";
    for (const std::string& event : run.last_events) text += escape_html(event) + "\n";
    text += "</pre>";
  }
  return text;
}

std::string footer(const Variants& variants, std::string_view command) {
  std::string text = "<footer>";
  if (!command.empty()) text += fmt::format("Reproduce with:<pre>{}</pre>", escape_html(command));
  for (const Results& run : variants) {
    text += fmt::format("<div>{}: seed {}, fingerprint {:016x}, {}</div>",
                        escape_html(variant_name(run)), run.seed, run.fingerprint,
                        speed_of(run, kThinSpace));
  }
  return text + "</footer>";
}

}  // namespace

std::string to_html(const std::vector<Results>& variants, std::string_view command) {
  if (variants.empty()) return {};
  const Results& base = variants.front();
  std::string body = page_header(base);
  for (const Results& run : variants) body += verdict(run, variants.size());
  body += last_events(variants) + variant_legend(variants) + cards(variants) + "\n";
  body += key_charts(variants) + traffic_charts(variants) + accuracy_chart(variants) +
          cost_charts(variants) + propagation_chart(variants);
  body += expectations_table(variants) + faults_table(base) + figures_table(variants) +
          footer(variants, command);
  return plot::to_html({.title = base.scenario + " - Weir simulation", .body = body});
}

}  // namespace weir::sim
