#include "bench/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir::bench {
namespace {

enum class Who : uint8_t { kWeir, kPeer, kFloor };

struct Bar {
  Who who;
  const char* label;
  const char* name;  // of the benchmark
};

struct Group {
  const char* title;
  std::vector<Bar> bars;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"One hot key, one thread",
       {{Who::kWeir, "Weir, check", "hot_key/check"},
        {Who::kPeer, "map + mutex", "hot_key/map"},
        {Who::kPeer, "keyed rate", "hot_key/rate"}}},
      {"One hot key, two threads",
       {{Who::kWeir, "Weir, check", "hot_key/check x2"},
        {Who::kPeer, "map + mutex", "hot_key/map x2"},
        {Who::kPeer, "keyed rate", "hot_key/rate x2"}}},
      {"1 M keys, one at a time",
       {{Who::kWeir, "Weir, check", "many_keys/weir/one_at_a_time"},
        {Who::kPeer, "map + mutex", "many_keys/map/one_at_a_time"},
        {Who::kPeer, "keyed rate", "many_keys/rate/one_at_a_time"},
        {Who::kFloor, "only touching memory", "many_keys/touch/one_at_a_time"}}},
      {"1 M keys, each as fast as it can",
       {{Who::kWeir, "Weir, check_each of 16", "many_keys/weir/batches"},
        {Who::kPeer, "map + mutex", "many_keys/map/overlapping"},
        {Who::kPeer, "keyed rate", "many_keys/rate/overlapping"},
        {Who::kFloor, "only touching memory", "many_keys/touch/batches"}}},
      {"1 M keys, each as fast as it can, two threads",
       {{Who::kWeir, "Weir, check_each of 16", "many_keys/weir/batches x2"},
        {Who::kPeer, "map + mutex", "many_keys/map/overlapping x2"},
        {Who::kPeer, "keyed rate", "many_keys/rate/overlapping x2"},
        {Who::kFloor, "only touching memory", "many_keys/touch/batches x2"}}},
  };
  return all;
}

// Lengths in pixels.
constexpr double kLeft = 190;
constexpr double kPlotWidth = 540;
constexpr double kWidth = kLeft + kPlotWidth + 90;
constexpr double kTop = 66;
constexpr double kBarHeight = 18;
constexpr double kBarStep = 22;
constexpr double kGroupTitle = 26;
constexpr double kGroupGap = 14;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string value_in(const Machine& machine, const std::string& what) {
  for (const auto& [name, value] : machine) {
    if (name == what) return value;
  }
  return {};
}

double millions(const std::optional<double>& nanos) {
  return nanos ? 1000 / *nanos : 0;
}

// 1, 2 or 5 times a power of ten, so that there are four to ten lines.
double tick_for(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 4)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (most / (step * power) <= 8) return step * power;
  }
  return 10 * power;
}

const char* style_of(Who who) {
  switch (who) {
    case Who::kWeir: return "weir";
    case Who::kPeer: return "peer";
    case Who::kFloor: break;
  }
  return "floor";
}

class Drawing {
 public:
  explicit Drawing(double most) : tick_(tick_for(most)), scale_(kPlotWidth / most) {}

  void add_group(const Group& group, const Results& results) {
    std::string bars;
    double y = y_ + kGroupTitle;
    for (const Bar& bar : group.bars) {
      const auto nanos = results.median(bar.name);
      if (!nanos) continue;
      const double width = std::max(1.0, millions(nanos) * scale_);
      bars +=
          fmt::format(R"(<text x="{:.0f}" y="{:.0f}" class="label" text-anchor="end">{}</text>)"
                      R"(<rect x="{:.0f}" y="{:.0f}" width="{:.1f}" height="{:.0f}" class="{}"/>)"
                      R"(<text x="{:.1f}" y="{:.0f}" class="value">{:.1f} M/s</text>)"
                      "\n",
                      kLeft - 8, y + 13, escaped(bar.label), kLeft, y, width, kBarHeight,
                      style_of(bar.who), kLeft + width + 6, y + 13, millions(nanos));
      y += kBarStep;
    }
    if (bars.empty()) return;
    body_ += fmt::format(R"(<text x="{:.0f}" y="{:.0f}" class="group">{}</text>)", kLeft,
                         y_ + kGroupTitle - 8, escaped(group.title));
    body_ += '\n' + bars;
    y_ = y + kGroupGap;
  }

  [[nodiscard]] bool empty() const { return body_.empty(); }

  [[nodiscard]] std::string finish(const Machine& machine) const {
    const double bottom = y_ - kGroupGap + 4;
    std::string out = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}">)"
        "\n<style>text{{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#1c2733}}"
        ".title{{font-size:18px;font-weight:bold}}.group{{font-size:13px;font-weight:bold}}"
        ".label{{font-size:12px}}.value{{font-size:12px}}.note{{font-size:11px;fill:#5b6875}}"
        ".weir{{fill:#1668b8}}.peer{{fill:#a9b4bf}}.floor{{fill:#fff;stroke:#7b8794;stroke-"
        "dasharray:4 3}}"
        ".grid{{stroke:#e3e8ec}}</style>\n"
        R"(<rect width="100%" height="100%" fill="#ffffff"/>)"
        "\n",
        kWidth, bottom + 76);
    out += text("title", 24, 32, "Decisions per second, in millions (longer is better)");
    out +=
        text("note", 24, 52,
             fmt::format("{}, {} cores, {}. Linear scale; medians.", value_in(machine, "processor"),
                         value_in(machine, "cores"), value_in(machine, "date")));
    for (double at = 0; kLeft + at * scale_ <= kLeft + kPlotWidth + 1; at += tick_) {
      const double x = kLeft + at * scale_;
      out +=
          fmt::format(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1:.0f}" y2="{2:.0f}" class="grid"/>)",
                      x, kTop, bottom);
      out += fmt::format(
          R"(<text x="{:.1f}" y="{:.0f}" class="note" text-anchor="middle">{:g}</text>)", x,
          bottom + 16, at);
      out += '\n';
    }
    out += body_;
    out += text("note", 24, bottom + 42,
                "map + mutex: std::unordered_map to sliding windows. keyed rate: the idea of Go's "
                "x/time/rate per key. Both in C++, in the same harness.");
    out += text("note", 24, bottom + 58,
                "only touching memory: reads and writes the cache lines of a decision, in the same "
                "order, and decides nothing.");
    return out + "</svg>\n";
  }

 private:
  static std::string text(const char* kind, double x, double y, const std::string& words) {
    return fmt::format(R"(<text x="{:.0f}" y="{:.0f}" class="{}">{}</text>)", x, y, kind,
                       escaped(words)) +
           '\n';
  }

  double tick_;
  double scale_;
  double y_ = kTop;
  std::string body_;
};

}  // namespace

std::string chart(const Results& results, const Machine& machine) {
  double most = 0;
  for (const Group& group : groups()) {
    for (const Bar& bar : group.bars) most = std::max(most, millions(results.median(bar.name)));
  }
  if (most == 0) return {};
  Drawing drawing(most);
  for (const Group& group : groups()) drawing.add_group(group, results);
  return drawing.empty() ? std::string() : drawing.finish(machine);
}

}  // namespace weir::bench
