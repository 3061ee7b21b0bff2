#include "plot/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "plot/figure.h"
#include "plot/svg.h"
#include "plot/text.h"
#include "plot/ticks.h"

namespace weir::plot {
namespace {

// Lengths in pixels.
constexpr double kLaneHeight = 16;
constexpr size_t kLanes = 4;
constexpr size_t kMaxLabels = 16;  // more would hide each other; the page lists them in a table
constexpr double kTickDistance = 64;

struct LabelPosition {
  double x = 0;
  size_t lane = kLanes;  // kLanes: the label does not fit
};

struct Strip {
  double left = 0;
  double right = 0;
};

// Assigns labels to lanes above the plot area, from right to left. No label overlaps another label
// or the line from another label down to the start of its span.
std::vector<LabelPosition> place_labels(const std::vector<Span>& spans,
                                        const std::vector<double>& starts, Strip strip) {
  std::vector<size_t> order(spans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&starts](size_t a, size_t b) { return starts[a] > starts[b]; });
  std::vector<LabelPosition> all(spans.size());
  std::array<double, kLanes> occupied_from{};
  occupied_from.fill(strip.right + 1);
  if (spans.size() > kMaxLabels) return all;
  for (const size_t i : order) {
    const double width = text_width(spans[i].label) + 12;
    if (width > strip.right - strip.left) continue;
    const double x = std::max(strip.left, std::min(starts[i], strip.right - width));
    size_t lane = kLanes;
    while (lane > 0 && x + width <= occupied_from[lane - 1]) --lane;
    if (lane == kLanes) continue;
    occupied_from[lane] = std::min(x, starts[i]);
    all[i] = {.x = x, .lane = lane};
  }
  return all;
}

std::string json_numbers(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) {
    if (text.size() > 1) text += ',';
    text += std::isfinite(value) ? fmt::format("{:.5g}", value) : "null";
  }
  return text + "]";
}

class Drawing {
 public:
  explicit Drawing(const LinePlot& plot) : plot_(plot) {
    from_ = finite(plot.from);
    to_ = finite(plot.to) > from_ ? plot.to : from_ + 1;
    if (is_logarithmic()) {
      from_ = std::max(from_, 1e-6);
      to_ = std::max(to_, from_ * 10);
    }
    stack_areas();
    y_ticks_ = ticks_up_to(plot.top > 0 ? plot.top : highest_value(), plot.height < 200 ? 4 : 6);
    if (plot.unit == "%") {
      std::erase_if(y_ticks_, [](double tick) { return tick > 100; });
    }
    max_y_ = y_ticks_.back();
    double widest = 0;
    for (const double tick : y_ticks_) widest = std::max(widest, text_width(y_label(tick)));
    left_ = std::max(44.0, widest + 14);
    right_ = plot.width - kRightMargin;
    std::vector<double> starts;
    for (const Span& span : plot.spans) starts.push_back(x(clamped(span.from)));
    label_positions_ = place_labels(plot.spans, starts, {.left = left_, .right = plot.width});
    size_t lanes = 0;
    for (const LabelPosition& each : label_positions_) {
      if (each.lane < kLanes) lanes = std::max(lanes, each.lane + 1);
    }
    area_top_ = 12 + kLaneHeight * static_cast<double>(lanes);
    area_bottom_ = area_top_ + plot.height;
  }

  [[nodiscard]] double height() const { return area_bottom_ + kBottomMargin; }

  // `position` has attributes of the element.
  [[nodiscard]] std::string svg(const std::string& position = {}) const {
    const std::string body = spans() + axes() + areas() + curves() + levels() + span_labels();
    return fmt::format(
               R"(<svg class="{10}"{11} style="--w:{0:.0f}px" viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-label="{2}" )"
               R"(data-left="{3:.1f}" data-right="{4:.1f}" data-top="{5:.1f}" data-bottom="{6:.1f}">)"
               R"(<clipPath id="{7}"><rect x="{3:.1f}" y="{5:.1f}" width="{8:.1f}" height="{9:.1f}"/></clipPath>)",
               plot_.width, height(), escape_html(plot_.title), left_, right_, area_top_,
               area_bottom_, clip_id(), right_ - left_, area_bottom_ - area_top_,
               plot_.spans.size() > kMaxLabels ? "many" : "few", position) +
           body + "<line class=\"cursor\"/></svg>";
  }

  [[nodiscard]] std::vector<LegendEntry> legend() const {
    std::vector<LegendEntry> all;
    for (const Area& area : plot_.areas)
      all.push_back({.label = area.label, .colour = area.colour, .swatch = "block"});
    for (const Curve& curve : plot_.curves) {
      const bool faint = curve.weight == Curve::Weight::kFaint;
      all.push_back(
          {.label = curve.label, .colour = curve.colour, .swatch = faint ? "faint" : "stroke"});
    }
    return all.size() > 1 ? all : std::vector<LegendEntry>();
  }

  // The drawn points as JSON, for the script of the page.
  [[nodiscard]] std::string data() const {
    std::string groups;
    const auto add = [&groups](const std::vector<double>& x, const std::string& series) {
      if (!groups.empty()) groups += ',';
      groups += fmt::format(R"({{"x":{},"s":[{}]}})", json_numbers(x), series);
    };
    const auto one = [](const std::string& label, const std::string& colour,
                        const std::vector<double>& y) {
      return fmt::format(R"({{"n":{},"c":{},"y":{}}})", json_string(label), json_string(colour),
                         json_numbers(y));
    };
    if (!drawn_.empty()) {
      std::string series;
      for (auto area = plot_.areas.rbegin(); area != plot_.areas.rend(); ++area) {
        if (!series.empty()) series += ',';
        series += one(area->label, area->colour, picked(area->values, drawn_));
      }
      add(picked(plot_.x, drawn_), series);
    }
    for (const Curve& curve : plot_.curves) {
      const std::vector<size_t> kept = downsample(curve.y, max_points());
      add(picked(curve.x, kept), one(curve.label, curve.colour, picked(curve.y, kept)));
    }
    const std::string_view kind = plot_.x_axis == LinePlot::XAxis::kTime ? "s" : "n";
    return fmt::format(R"({{"from":{},"to":{},"log":{},"kind":"{}","unit":{},"g":[{}]}})",
                       json_number(from_), json_number(to_), is_logarithmic() ? "true" : "false",
                       kind, json_string(plot_.unit), groups);
  }

 private:
  static std::vector<double> picked(const std::vector<double>& values,
                                    const std::vector<size_t>& indexes) {
    std::vector<double> out;
    out.reserve(indexes.size());
    for (const size_t i : indexes) out.push_back(i < values.size() ? values[i] : 0);
    return out;
  }

  [[nodiscard]] bool is_logarithmic() const {
    return plot_.x_axis == LinePlot::XAxis::kLogarithmic;
  }
  [[nodiscard]] size_t max_points() const { return static_cast<size_t>(plot_.width); }
  [[nodiscard]] double clamped(double value) const { return std::clamp(finite(value), from_, to_); }

  [[nodiscard]] double x(double value) const {
    const double share = is_logarithmic()
                             ? std::log(std::max(value, from_) / from_) / std::log(to_ / from_)
                             : (value - from_) / (to_ - from_);
    return left_ + share * (right_ - left_);
  }
  [[nodiscard]] double y(double value) const {
    return area_bottom_ - value / max_y_ * (area_bottom_ - area_top_);
  }

  // Sums the areas: the upper edge of each.
  void stack_areas() {
    std::vector<double> sum(plot_.x.size(), 0.0);
    for (const Area& area : plot_.areas) {
      for (size_t i = 0; i < sum.size() && i < area.values.size(); ++i) {
        sum[i] += std::max(0.0, finite(area.values[i]));
      }
      stack_.push_back(sum);
    }
    if (!stack_.empty()) drawn_ = downsample(stack_.back(), max_points());
  }

  [[nodiscard]] double highest_value() const {
    double max = 0;
    for (const ReferenceLine& level : plot_.levels) max = std::max(max, finite(level.at) * 1.08);
    if (!stack_.empty()) {
      for (const double value : stack_.back()) max = std::max(max, value);
    }
    for (const Curve& curve : plot_.curves) {
      if (curve.weight == Curve::Weight::kFaint) continue;
      for (const double value : curve.y) max = std::max(max, finite(value));
    }
    return max;
  }

  // Equal ids in one page belong to equal clip paths.
  [[nodiscard]] std::string clip_id() const {
    return fmt::format("clip-{:.0f}-{:.0f}-{:.0f}", left_ * 10, area_top_,
                       plot_.width * 7 + plot_.height);
  }

  [[nodiscard]] std::string y_label(double tick) const { return tick_label(tick) + plot_.unit; }

  [[nodiscard]] std::string axes() const {
    std::string out;
    for (const double tick : y_ticks_) {
      out += line({left_, y(tick)}, {right_, y(tick)}, tick == 0 ? "axis" : "grid");
      out += text_at({left_ - 8, y(tick) + 4}, "tick end", y_label(tick));
    }
    const auto count = static_cast<size_t>((right_ - left_) / kTickDistance);
    std::vector<double> x_ticks;
    if (plot_.x_axis == LinePlot::XAxis::kTime) x_ticks = time_ticks(to_, count);
    if (plot_.x_axis == LinePlot::XAxis::kLinear) x_ticks = ticks_up_to(to_, count);
    if (is_logarithmic()) x_ticks = log_ticks(from_, to_);
    double free_from = left_ - 100;
    for (const double tick : x_ticks) {
      if (tick < from_ || tick > to_ * 1.0001) continue;
      const std::string label =
          plot_.x_axis == LinePlot::XAxis::kTime ? time_label(tick, to_) : tick_label(tick);
      const double half = text_width(label) / 2;
      const double middle = std::min(x(tick), plot_.width - half - 2);
      out += line({x(tick), area_bottom_}, {x(tick), area_bottom_ + 5}, "axis");
      if (middle - half < free_from) continue;
      out += text_at({middle, area_bottom_ + 19}, "tick middle", label);
      free_from = middle + half + 10;
    }
    if (!plot_.x_label.empty()) {
      out += text_at({(left_ + right_) / 2, area_bottom_ + 36}, "tick middle", plot_.x_label);
    }
    return out;
  }

  [[nodiscard]] std::string areas() const {
    std::string out;
    for (size_t area = 0; area < stack_.size(); ++area) {
      std::string path;
      for (const size_t i : drawn_) {
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(plot_.x[i]),
                            y(stack_[area][i]));
      }
      for (auto i = drawn_.rbegin(); i != drawn_.rend(); ++i) {
        const double below = area == 0 ? 0 : stack_[area - 1][*i];
        path += fmt::format("L{:.1f} {:.1f}", x(plot_.x[*i]), y(below));
      }
      if (!path.empty()) path += "Z";
      out +=
          fmt::format(R"svg(<path class="area" style="fill:{}" clip-path="url(#{})" d="{}"/>)svg",
                      plot_.areas[area].colour, clip_id(), path);
    }
    return out;
  }

  [[nodiscard]] std::string curves() const {
    std::string out;
    for (auto each = plot_.curves.rbegin(); each != plot_.curves.rend(); ++each) {
      const Curve& curve = *each;
      std::string path;
      bool pen_down = false;
      for (const size_t i : downsample(curve.y, max_points())) {
        if (i >= curve.x.size() || !std::isfinite(curve.x[i]) || !std::isfinite(curve.y[i])) {
          pen_down = false;
          continue;
        }
        path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x(curve.x[i]), y(curve.y[i]));
        pen_down = true;
      }
      const bool faint = curve.weight == Curve::Weight::kFaint;
      out +=
          fmt::format(R"svg(<path class="{}" style="stroke:{}" clip-path="url(#{})" d="{}"/>)svg",
                      faint ? "curve faint" : "curve", curve.colour, clip_id(), path);
    }
    return out;
  }

  [[nodiscard]] std::string levels() const {
    std::string out;
    for (const ReferenceLine& level : plot_.levels) {
      if (!std::isfinite(level.at) || level.at < 0 || level.at > max_y_) continue;
      out += line({left_, y(level.at)}, {right_, y(level.at)}, "level");
      out += text_at({right_ - 4, y(level.at) - 5}, "level-label end", level.label);
    }
    return out;
  }

  [[nodiscard]] std::string spans() const {
    std::string out;
    for (const Span& span : plot_.spans) {
      const double from = x(clamped(span.from));
      const double to = x(clamped(std::max(finite(span.from), finite(span.to))));
      const std::string title = fmt::format("<title>{}</title>", escape_html(span.label));
      if (to - from < 1) {
        out += fmt::format(
            R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" class="instant">{3}</line>)",
            from, area_top_, area_bottom_, title);
      } else {
        out += fmt::format(
            R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="span">{}</rect>)",
            from, area_top_, to - from, area_bottom_ - area_top_, title);
      }
    }
    return out;
  }

  [[nodiscard]] std::string span_labels() const {
    std::string out;
    for (size_t i = 0; i < plot_.spans.size(); ++i) {
      if (label_positions_[i].lane == kLanes) continue;
      const double base =
          area_top_ - 6 - kLaneHeight * static_cast<double>(label_positions_[i].lane);
      const double from = x(clamped(plot_.spans[i].from));
      if (label_positions_[i].x >= from) out += line({from, base - 9}, {from, area_top_}, "leader");
      out += text_at({label_positions_[i].x + 5, base}, "span-label", plot_.spans[i].label);
    }
    return out;
  }

  const LinePlot& plot_;
  double from_ = 0;
  double to_ = 1;
  std::vector<std::vector<double>> stack_;
  std::vector<size_t> drawn_;
  std::vector<double> y_ticks_;
  double max_y_ = 1;
  std::vector<LabelPosition> label_positions_;
  double left_ = 0;
  double right_ = 0;
  double area_top_ = 0;
  double area_bottom_ = 0;
};

}  // namespace

std::string to_html(const LinePlot& plot) {
  const Drawing drawing(plot);
  return to_html(Figure{.title = plot.title,
                        .note = plot.note,
                        .legend = drawing.legend(),
                        .svg = drawing.svg(),
                        .data = drawing.data()});
}

SvgElement to_svg_element(const LinePlot& plot, Point corner) {
  const Drawing drawing(plot);
  const std::string position =
      fmt::format(R"( x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}")", corner.x, corner.y,
                  plot.width, drawing.height());
  return {.text = drawing.svg(position), .height = drawing.height()};
}

std::vector<LegendEntry> legend_of(const LinePlot& plot) {
  return Drawing(plot).legend();
}

double stack_height(const LinePlot& plot) {
  double highest = 0;
  for (size_t i = 0; i < plot.x.size(); ++i) {
    double sum = 0;
    for (const Area& area : plot.areas) sum += i < area.values.size() ? area.values[i] : 0;
    if (sum > highest) highest = sum;
  }
  return highest;
}

}  // namespace weir::plot
