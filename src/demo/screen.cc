#include "demo/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace weir::demo {
namespace {

// Every glyph is one column wide.
struct GlyphSet {
  std::string_view admitted, denied, full, empty;
};

GlyphSet glyphs_of(Look look) {
  if (look.glyphs == Glyphs::kUnicode) {
    return {.admitted = "●", .denied = "·", .full = "█", .empty = "░"};
  }
  return {.admitted = "o", .denied = ".", .full = "#", .empty = "-"};
}

// The column widths of a row, with the space on the left.
constexpr int kNameColumns = 22;   // "sliding_window_strict"
constexpr int kTotalColumns = 9;   // "admitted"
constexpr int kLeftColumns = 6;    // a number after the bar
constexpr int kRetryColumns = 13;  // "retry after"
constexpr int kBarGap = 3;
constexpr int kCountsColumns =
    kNameColumns + 2 * kTotalColumns + kBarGap + kLeftColumns + kRetryColumns;
constexpr int kMinBar = 8;
constexpr int kMaxBar = 24;

std::string rate_text(const DemoSettings& settings) {
  if (settings.requests_per_second == 0) return "paused";
  if (settings.requests_per_second == 1) return "1 request per second";
  return fmt::format("{} requests per second", settings.requests_per_second);
}

std::string limit_text(const DemoSettings& settings) {
  return fmt::format("limit {} per {}", settings.limit, duration_text(settings.window));
}

std::string name_text(const DemoRow& row) {
  return fmt::format(" {:<{}}", to_string(row.algorithm), kNameColumns - 1);
}

std::string retry_text(const DemoRow& row, MonoTime now) {
  if (!row.retry_at || *row.retry_at <= now) return "";
  // Rounded up, so that it never shows 0.0 before the retry time.
  const auto tenths =
      std::chrono::ceil<std::chrono::duration<int64_t, std::deci>>(*row.retry_at - now);
  return fmt::format("{}.{} s", tenths.count() / 10, tenths.count() % 10);
}

class Screen {
 public:
  Screen(const DemoBoard& board, MonoTime now, Look look, ScreenSize size)
      // The last column stays empty: some terminals wrap after it.
      : board_(board),
        now_(now),
        look_(look),
        glyphs_(glyphs_of(look)),
        width_(std::max(size.columns - 1, 0)),
        height_(std::max(size.rows, 0)) {}

  std::string draw() {
    if (width_ >= kCountsColumns + kMinBar && height_ >= kTightLines) {
      draw_large(height_ >= kRoomyLines ? Spacing::kRoomy : Spacing::kTight);
    } else {
      draw_small();
    }
    if (lines_.size() > static_cast<size_t>(height_)) lines_.resize(static_cast<size_t>(height_));
    return fmt::format("{}", fmt::join(lines_, "\n"));
  }

 private:
  enum class Spacing : uint8_t { kTight, kRoomy };
  static constexpr int kTightLines = 4 + 2 * kAlgorithmCount + 3;
  static constexpr int kRoomyLines = kTightLines + kAlgorithmCount - 1;
  static_assert(kRoomyLines == 24, "a default terminal has 24 lines");

  void draw_large(Spacing spacing) {
    const DemoSettings& settings = board_.settings();
    add(line().text(Style::kStrong, " Weir: six algorithms on the same stream of requests"));
    add(line()
            .text(Style::kWaiting, fmt::format(" {}", limit_text(settings)))
            .text(Style::kPlain,
                  fmt::format("   {}   {} offered", rate_text(settings), board_.offered())));
    add(line());
    add(line().text(
        Style::kFaint,
        fmt::format("{:<{}}{:>{}}{:>{}}{:{}}{:<{}}{:>{}}", " algorithm", kNameColumns, "admitted",
                    kTotalColumns, "denied", kTotalColumns, "", kBarGap, "remaining",
                    bar_columns() + kLeftColumns, "retry after", kRetryColumns)));
    for (const DemoRow& row : board_.rows()) {
      if (spacing == Spacing::kRoomy && &row != &board_.rows().front()) add(line());
      add_counts(row);
      StyledLine outcomes = line().text(Style::kPlain, " ");
      add_outcomes(outcomes, row, width_ - 1);
      add(outcomes);
    }
    add(line());
    add(line()
            .text(Style::kPlain, " ")
            .glyphs(Style::kGood, glyphs_.admitted, 1)
            .text(Style::kFaint, " admitted   ")
            .glyphs(Style::kBad, glyphs_.denied, 1)
            .text(Style::kFaint, " denied   newest on the right"));
    add_keys();
  }

  void draw_small() {
    add(line()
            .text(Style::kWaiting, fmt::format(" {}", limit_text(board_.settings())))
            .text(Style::kPlain, fmt::format(", {}", rate_text(board_.settings()))));
    for (const DemoRow& row : board_.rows()) {
      const std::string sums = fmt::format("{:>5}/{:<4}", row.admitted, row.denied);
      StyledLine small = line().text(Style::kStrong, name_text(row)).text(Style::kPlain, " ");
      add_outcomes(small, row, width_ - kNameColumns - 1 - static_cast<int>(sums.size()));
      add(small.text(Style::kPlain, sums));
    }
    add_keys();
  }

  void add_counts(const DemoRow& row) {
    const Count limit = board_.settings().limit;
    const int columns = bar_columns();
    // Rounded up, so that one remaining request is visible.
    const Count scaled = std::min(row.remaining, limit) * static_cast<Count>(columns);
    const auto full = static_cast<int>((scaled + limit - 1) / limit);
    add(line()
            .text(Style::kStrong, name_text(row))
            .text(Style::kPlain, fmt::format("{:>{}}{:>{}}{:{}}", row.admitted, kTotalColumns,
                                             row.denied, kTotalColumns, "", kBarGap))
            .glyphs(Style::kGood, glyphs_.full, full)
            .glyphs(Style::kFaint, glyphs_.empty, columns - full)
            .text(Style::kPlain, fmt::format("{:>{}}", row.remaining, kLeftColumns))
            .text(Style::kWaiting, fmt::format("{:>{}}", retry_text(row, now_), kRetryColumns)));
  }

  // The newest `columns` outcomes, right-aligned.
  void add_outcomes(StyledLine& to, const DemoRow& row, int columns) const {
    const int shown = std::clamp(static_cast<int>(row.recent.size()), 0, std::max(columns, 0));
    to.glyphs(Style::kPlain, " ", columns - shown);
    for (auto outcome = row.recent.end() - shown; outcome != row.recent.end(); ++outcome) {
      const bool admitted = *outcome == Outcome::kAdmitted;
      to.glyphs(admitted ? Style::kGood : Style::kBad, admitted ? glyphs_.admitted : glyphs_.denied,
                1);
    }
  }

  void add_keys() {
    constexpr std::string_view kLong =
        " space burst of 10  1-9 rate  0 pause  +/- limit  w window  r reset  q quit";
    constexpr std::string_view kShort = " space 1-9 0 + - w r   q quit";
    add(line().text(Style::kFaint, static_cast<int>(kLong.size()) <= width_ ? kLong : kShort));
  }

  [[nodiscard]] int bar_columns() const {
    return std::clamp(width_ - kCountsColumns, kMinBar, kMaxBar);
  }
  [[nodiscard]] StyledLine line() const { return {look_.colour, width_}; }
  void add(StyledLine&& finished) { lines_.push_back(finished.finish()); }
  void add(StyledLine& finished) { lines_.push_back(finished.finish()); }

  const DemoBoard& board_;
  const MonoTime now_;
  const Look look_;
  const GlyphSet glyphs_;
  const int width_;
  const int height_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string render(const DemoBoard& board, MonoTime now, Look look, ScreenSize size) {
  return Screen(board, now, look, size).draw();
}

std::string totals(const DemoBoard& board) {
  std::string table =
      fmt::format("{} requests offered, {}\n", board.offered(), limit_text(board.settings()));
  for (const DemoRow& row : board.rows()) {
    table += fmt::format("{:<{}} {:>6} admitted {:>6} denied\n", to_string(row.algorithm),
                         kNameColumns - 1, row.admitted, row.denied);
  }
  return table;
}

std::string duration_text(Millis duration) {
  if (duration % std::chrono::seconds(1) != Millis(0))
    return fmt::format("{} ms", duration.count());
  return fmt::format("{} s", duration / std::chrono::seconds(1));
}

}  // namespace weir::demo
