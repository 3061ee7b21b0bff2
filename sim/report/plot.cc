#include "sim/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/report/json.h"
#include "sim/report/svg_parts.h"

namespace weir::sim {
namespace {

// Lengths in pixels.
constexpr double kLane = 16;
constexpr size_t kLanes = 4;
constexpr size_t kMostLabels = 16;  // more would be a carpet; the page has them in a table
constexpr double kTickRoom = 64;

std::string clock_label(double seconds, double longest) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (longest < 180) return fmt::format("{} s", whole);
  if (longest < 7200) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::vector<double> time_ticks(double to, size_t about) {
  constexpr std::array kSteps = {1.0,   2.0,   5.0,   10.0,   15.0,   30.0,   60.0,     120.0,
                                 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21'600.0, 86'400.0};
  const auto fits = [&](double step) { return to / step <= static_cast<double>(about); };
  const auto found = std::ranges::find_if(kSteps, fits);
  const double step = found == kSteps.end() ? std::max(kSteps.back(), to / 4) : *found;
  std::vector<double> ticks;
  for (double at = 0; at <= to + 1e-9; at += step) ticks.push_back(at);
  return ticks;
}

std::vector<double> log_ticks(double from, double to) {
  std::vector<double> ticks;
  for (double power = std::pow(10, std::floor(std::log10(from))); power <= to; power *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double at = power * digit;
      if (at >= from * 0.999 && at <= to * 1.001) ticks.push_back(at);
    }
  }
  return ticks;
}

// A place for each label above the picture, so that none lies on another or on the line that leads
// from another to its beginning: from the right to the left, each above those it would reach.
struct Placed {
  double x = 0;
  size_t lane = kLanes;  // none: there was no room
};

struct Strip {
  double left = 0;
  double right = 0;
};

std::vector<Placed> place(const std::vector<FaultSpan>& spans, const std::vector<double>& starts,
                          Strip strip) {
  std::vector<size_t> order(spans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&starts](size_t a, size_t b) { return starts[a] > starts[b]; });
  std::vector<Placed> all(spans.size());
  std::array<double, kLanes> taken{};  // from where on
  taken.fill(strip.right + 1);
  if (spans.size() > kMostLabels) return all;
  for (const size_t i : order) {
    const double width = width_of(spans[i].label) + 12;
    if (width > strip.right - strip.left) continue;
    const double x = std::max(strip.left, std::min(starts[i], strip.right - width));
    size_t lane = kLanes;
    while (lane > 0 && x + width <= taken[lane - 1]) --lane;
    if (lane == kLanes) continue;
    taken[lane] = std::min(x, starts[i]);
    all[i] = {.x = x, .lane = lane};
  }
  return all;
}

std::string coordinates(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) {
    if (text.size() > 1) text += ',';
    text += std::isfinite(value) ? fmt::format("{:.5g}", value) : "null";
  }
  return text + "]";
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot) {
    from_ = finite(plot.from);
    to_ = finite(plot.to) > from_ ? plot.to : from_ + 1;
    if (logarithmic()) {
      from_ = std::max(from_, 1e-6);
      to_ = std::max(to_, from_ * 10);
    }
    stack_up();
    y_ticks_ = ticks_up_to(plot.top > 0 ? plot.top : most(), plot.height < 200 ? 4 : 6);
    if (plot.unit == "%") {
      std::erase_if(y_ticks_, [](double tick) { return tick > 100; });
    }
    top_value_ = y_ticks_.back();
    double widest = 0;
    for (const double tick : y_ticks_) widest = std::max(widest, width_of(y_label(tick)));
    left_ = std::max(44.0, widest + 14);
    right_ = plot.width - kRight;
    std::vector<double> starts;
    for (const FaultSpan& span : plot.spans) starts.push_back(x(clamped(span.from)));
    placed_ = place(plot.spans, starts, {.left = left_, .right = plot.width});
    size_t lanes = 0;
    for (const Placed& each : placed_) {
      if (each.lane < kLanes) lanes = std::max(lanes, each.lane + 1);
    }
    above_ = 12 + kLane * static_cast<double>(lanes);
    bottom_ = above_ + plot.height;
  }

  [[nodiscard]] std::string svg() {
    const std::string body = spans() + axes() + areas() + curves() + levels() + span_labels();
    return fmt::format(
               R"(<svg class="{10}" viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-label="{2}" )"
               R"(data-left="{3:.1f}" data-right="{4:.1f}" data-top="{5:.1f}" data-bottom="{6:.1f}">)"
               R"(<clipPath id="{7}"><rect x="{3:.1f}" y="{5:.1f}" width="{8:.1f}" height="{9:.1f}"/></clipPath>)",
               plot_.width, bottom_ + kBottom, escaped(plot_.title), left_, right_, above_, bottom_,
               clip_name(), right_ - left_, bottom_ - above_,
               plot_.spans.size() > kMostLabels ? "many" : "few") +
           body + "<line class=\"cursor\"/></svg>";
  }

  [[nodiscard]] std::vector<Named> entries() const {
    std::vector<Named> all;
    for (const Layer& layer : plot_.layers) all.push_back({layer.label, layer.colour, "block"});
    for (const Curve& curve : plot_.curves) {
      const bool faint = curve.weight == Curve::Weight::kFaint;
      all.push_back({curve.label, curve.colour, faint ? "faint" : "stroke"});
    }
    return all.size() > 1 ? all : std::vector<Named>();
  }

  // For the script: what was where.
  [[nodiscard]] std::string data() const {
    std::string groups;
    const auto add = [&groups](const std::vector<double>& x, const std::string& series) {
      if (!groups.empty()) groups += ',';
      groups += fmt::format(R"({{"x":{},"s":[{}]}})", coordinates(x), series);
    };
    const auto one = [](const std::string& label, const std::string& colour,
                        const std::vector<double>& y) {
      return fmt::format(R"({{"n":{},"c":{},"y":{}}})", json_string(label), json_string(colour),
                         coordinates(y));
    };
    if (!shown_.empty()) {
      std::string series;
      for (auto layer = plot_.layers.rbegin(); layer != plot_.layers.rend(); ++layer) {
        if (!series.empty()) series += ',';
        series += one(layer->label, layer->colour, picked(layer->values, shown_));
      }
      add(picked(plot_.x, shown_), series);
    }
    for (const Curve& curve : plot_.curves) {
      const std::vector<size_t> kept = thinned(curve.y, room());
      add(picked(curve.x, kept), one(curve.label, curve.colour, picked(curve.y, kept)));
    }
    const std::string_view kind = plot_.across == Plot::Across::kTime ? "s" : "n";
    return fmt::format(R"({{"from":{},"to":{},"log":{},"kind":"{}","unit":{},"g":[{}]}})",
                       json_number(from_), json_number(to_), logarithmic() ? "true" : "false", kind,
                       json_string(plot_.unit), groups);
  }

 private:
  static std::vector<double> picked(const std::vector<double>& values,
                                    const std::vector<size_t>& indexes) {
    std::vector<double> out;
    out.reserve(indexes.size());
    for (const size_t i : indexes) out.push_back(i < values.size() ? values[i] : 0);
    return out;
  }

  [[nodiscard]] bool logarithmic() const { return plot_.across == Plot::Across::kLogarithm; }
  [[nodiscard]] size_t room() const { return static_cast<size_t>(plot_.width); }
  [[nodiscard]] double clamped(double value) const { return std::clamp(finite(value), from_, to_); }

  [[nodiscard]] double x(double value) const {
    const double share = logarithmic()
                             ? std::log(std::max(value, from_) / from_) / std::log(to_ / from_)
                             : (value - from_) / (to_ - from_);
    return left_ + share * (right_ - left_);
  }
  [[nodiscard]] double y(double value) const {
    return bottom_ - value / top_value_ * (bottom_ - above_);
  }

  // The upper edge of every layer.
  void stack_up() {
    std::vector<double> sum(plot_.x.size(), 0.0);
    for (const Layer& layer : plot_.layers) {
      for (size_t i = 0; i < sum.size() && i < layer.values.size(); ++i) {
        sum[i] += std::max(0.0, finite(layer.values[i]));
      }
      edges_.push_back(sum);
    }
    if (!edges_.empty()) shown_ = thinned(edges_.back(), room());
  }

  [[nodiscard]] double most() const {
    double most = 0;
    for (const Level& level : plot_.levels) most = std::max(most, finite(level.at) * 1.08);
    if (!edges_.empty()) {
      for (const double value : edges_.back()) most = std::max(most, value);
    }
    for (const Curve& curve : plot_.curves) {
      if (curve.weight == Curve::Weight::kFaint) continue;
      for (const double value : curve.y) most = std::max(most, finite(value));
    }
    return most;
  }

  // Of what cannot be the same in another plot of the page with another picture.
  [[nodiscard]] std::string clip_name() const {
    return fmt::format("clip-{:.0f}-{:.0f}-{:.0f}", left_ * 10, above_,
                       plot_.width * 7 + plot_.height);
  }

  [[nodiscard]] std::string y_label(double tick) const { return tick_label(tick) + plot_.unit; }

  [[nodiscard]] std::string axes() const {
    std::string out;
    for (const double tick : y_ticks_) {
      out += line({left_, y(tick)}, {right_, y(tick)}, tick == 0 ? "axis" : "grid");
      out += text_at({left_ - 8, y(tick) + 4}, "tick end", y_label(tick));
    }
    const auto about = static_cast<size_t>((right_ - left_) / kTickRoom);
    std::vector<double> across;
    if (plot_.across == Plot::Across::kTime) across = time_ticks(to_, about);
    if (plot_.across == Plot::Across::kNumber) across = ticks_up_to(to_, about);
    if (logarithmic()) across = log_ticks(from_, to_);
    double free = left_ - 100;
    for (const double tick : across) {
      if (tick < from_ || tick > to_ * 1.0001) continue;
      const std::string label =
          plot_.across == Plot::Across::kTime ? clock_label(tick, to_) : tick_label(tick);
      const double half = width_of(label) / 2;
      const double middle = std::min(x(tick), plot_.width - half - 2);
      out += line({x(tick), bottom_}, {x(tick), bottom_ + 5}, "axis");
      if (middle - half < free) continue;
      out += text_at({middle, bottom_ + 19}, "tick middle", label);
      free = middle + half + 10;
    }
    if (!plot_.across_label.empty()) {
      out += text_at({(left_ + right_) / 2, bottom_ + 36}, "tick middle", plot_.across_label);
    }
    return out;
  }

  [[nodiscard]] std::string areas() const {
    std::string out;
    for (size_t layer = 0; layer < edges_.size(); ++layer) {
      std::string path;
      for (const size_t i : shown_) {
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(plot_.x[i]),
                            y(edges_[layer][i]));
      }
      for (auto i = shown_.rbegin(); i != shown_.rend(); ++i) {
        const double below = layer == 0 ? 0 : edges_[layer - 1][*i];
        path += fmt::format("L{:.1f} {:.1f}", x(plot_.x[*i]), y(below));
      }
      if (!path.empty()) path += "Z";
      out +=
          fmt::format(R"svg(<path class="area" style="fill:{}" clip-path="url(#{})" d="{}"/>)svg",
                      plot_.layers[layer].colour, clip_name(), path);
    }
    return out;
  }

  [[nodiscard]] std::string curves() const {
    std::string out;
    for (auto each = plot_.curves.rbegin(); each != plot_.curves.rend(); ++each) {
      const Curve& curve = *each;
      std::string path;
      bool pen_down = false;
      for (const size_t i : thinned(curve.y, room())) {
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
                      faint ? "curve faint" : "curve", curve.colour, clip_name(), path);
    }
    return out;
  }

  [[nodiscard]] std::string levels() const {
    std::string out;
    for (const Level& level : plot_.levels) {
      if (!std::isfinite(level.at) || level.at < 0 || level.at > top_value_) continue;
      out += line({left_, y(level.at)}, {right_, y(level.at)}, "level");
      out += text_at({right_ - 4, y(level.at) - 5}, "level-label end", level.label);
    }
    return out;
  }

  [[nodiscard]] std::string spans() const {
    std::string out;
    for (const FaultSpan& span : plot_.spans) {
      const double from = x(clamped(span.from));
      const double to = x(clamped(std::max(finite(span.from), finite(span.to))));
      const std::string title = fmt::format("<title>{}</title>", escaped(span.label));
      if (to - from < 1) {
        out += fmt::format(
            R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" class="instant">{3}</line>)",
            from, above_, bottom_, title);
      } else {
        out += fmt::format(
            R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="span">{}</rect>)",
            from, above_, to - from, bottom_ - above_, title);
      }
    }
    return out;
  }

  [[nodiscard]] std::string span_labels() const {
    std::string out;
    for (size_t i = 0; i < plot_.spans.size(); ++i) {
      if (placed_[i].lane == kLanes) continue;
      const double base = above_ - 6 - kLane * static_cast<double>(placed_[i].lane);
      const double from = x(clamped(plot_.spans[i].from));
      if (placed_[i].x >= from) out += line({from, base - 9}, {from, above_}, "leader");
      out += text_at({placed_[i].x + 5, base}, "span-label", plot_.spans[i].label);
    }
    return out;
  }

  const Plot& plot_;
  double from_ = 0;
  double to_ = 1;
  std::vector<std::vector<double>> edges_;
  std::vector<size_t> shown_;
  std::vector<double> y_ticks_;
  double top_value_ = 1;
  std::vector<Placed> placed_;
  double left_ = 0;
  double right_ = 0;
  double above_ = 0;
  double bottom_ = 0;
};

}  // namespace

std::string to_figure(const Plot& plot) {
  Drawing drawing(plot);
  return figure_of({.title = plot.title,
                    .note = plot.note,
                    .legend = drawing.entries(),
                    .svg = drawing.svg(),
                    .data = drawing.data()});
}

}  // namespace weir::sim
