#include "lab/tables.h"

#include <fmt/format.h>

#include "lab/advice.h"
#include "lab/state_bytes.h"
#include "lab/text_table.h"

namespace weir::lab {
namespace {

std::string section(std::string_view title, std::string_view text, const TextTable& table) {
  return fmt::format("{}\n{}\n\n{}\n", title, text, to_text(table));
}

std::string state_section() {
  constexpr Count kEntries = 100;
  TextTable table{{"algorithm", "at least", "Weir"}};
  for (const Algorithm algorithm : kAlgorithms) {
    table.rows.push_back({std::string(to_string(algorithm)),
                          grouped(minimal_bytes(algorithm, kEntries)),
                          grouped(weir_bytes(algorithm, kEntries))});
  }
  return section(
      "1. Bytes per key",
      "For a limit of 100. At least: the numbers that the algorithm must remember, 8 bytes\n"
      "each. Weir: its slot in the table, with key and bookkeeping, and its ring or log.",
      table);
}

std::string gcra_section() {
  constexpr const char* kPublished[] = {"41", "41", "39", "40", ""};
  TextTable table{{"tolerance", "now ? TAT - tolerance", "at once", "in all", "published"}};
  size_t row = 0;
  for (const GcraForm& form : gcra_forms(kFromStart)) {
    table.rows.push_back({form.tolerance, form.comparison, grouped(form.result.at_once),
                          grouped(form.result.admitted), kPublished[row++]});
  }
  return section(
      "2. Four ways to write GCRA, and Weir",
      "10 per second, burst 10. The client sends at every tick (1 ms) from 0 to 3000 ms,\n"
      "both included, until it is denied. With one tick more, 3001 ms, the second line has\n"
      "41 and the third 40. The published test did not end at a stated tick.",
      table);
}

std::string burst_zero_section() {
  const Saturation zero = burst_of_zero();
  return fmt::format(
      "3. A burst of 0\nBy the formula, tolerance = (0 - 1) x T. It does not deny all: the same "
      "client gets\n"
      "{} of the 30 that drain, half the rate, and no error. Weir refuses the request:\n\n{}\n\n",
      zero.admitted, burst_of_zero_error());
}

std::string percent_over(Count admitted, Count expected) {
  const double excess = static_cast<double>(admitted) - static_cast<double>(expected);
  return fmt::format("{:+.1f} %", 100 * excess / static_cast<double>(expected));
}

std::string over_grant_section() {
  TextTable table{{"algorithm", "expected", "from 0", "from 600", "over", "published"}};
  const auto add = [&](std::string name, Count expected, const Saturation& start,
                       const Saturation& phase, std::string published) {
    table.rows.push_back({std::move(name), grouped(expected), grouped(start.admitted),
                          grouped(phase.admitted), percent_over(phase.admitted, expected),
                          std::move(published)});
  };
  const auto add_weir = [&](Algorithm algorithm, Count expected, std::string published) {
    add(std::string(to_string(algorithm)), expected, saturate(algorithm, kFromStart),
        saturate(algorithm, kFromPhase), std::move(published));
  };
  add_weir(Algorithm::kTokenBucket, 40, "40");
  add_weir(Algorithm::kGcra, 40, "39");
  add("two cells, with fraction", 30, saturate_with_fraction(kFromStart),
      saturate_with_fraction(kFromPhase), "34");
  add_weir(Algorithm::kSlidingWindow, 30, "");
  add_weir(Algorithm::kSlidingWindowStrict, 30, "");
  add_weir(Algorithm::kSlidingLog, 30, "");
  add_weir(Algorithm::kFixedWindow, 30, "");
  return section(
      "4. Admitted in 3 s at 10 per second, burst 10",
      "The same client, from the start of a window and from 0.6 of it, for 3 s. Expected:\n"
      "rate x time, and the burst where there is one. Over: the run from 600 ms. The\n"
      "published 34, 13 % more than 30, is the estimate with its fraction from 600 ms.\n"
      "sliding_window is the same estimate, rounded down. fixed_window and sliding_log\n"
      "admit 10 four times: the schedule touches four windows, and its last tick is 3 s\n"
      "after its first.",
      table);
}

std::string fixed_window_section() {
  const Comparison comparison = compare(two_minutes(), kTwoMinutesLimit);
  TextTable table{{"algorithm", "admitted", "worst window", "/ limit"}};
  for (const AlgorithmResult& result : comparison.results) {
    table.rows.push_back({std::string(to_string(result.algorithm)), grouped(result.admitted),
                          grouped(result.worst_window),
                          fmt::format("{:.2f}", comparison.worst_ratio(result))});
  }
  return section(
      "5. Two windows meet",
      "Limit 100 per minute. 99 requests 1 s before a minute ends, 100 requests 1 s after.\n"
      "Published for the fixed window: 199.",
      table);
}

std::string headroom_section(const std::vector<HeadroomError>& errors) {
  TextTable table{{"limit / mean of the busiest key", "wrongly allowed", "refused", "error"}};
  for (const HeadroomError& each : errors) {
    table.rows.push_back(
        {fmt::format("{:.2f}", static_cast<double>(each.percent) / 100),
         grouped(each.differences.wrongly_allowed), grouped(each.differences.wrongly_refused),
         fmt::format("{:.4f} %", 100.0 * static_cast<double>(each.differences.sum()) /
                                     static_cast<double>(each.requests))});
  }
  return section(
      "6. Error of sliding_window on skewed traffic",
      "2,000,000 requests of 10,000 keys, as the shape skewed draws them with seed 1. The\n"
      "busiest key sends 100 per second on average. Published for production traffic:\n"
      "0.003 %. That traffic is not public. The error depends on how near the busy keys\n"
      "are to the limit: here it is 0.003 % if the limit is 1.33 x the rate of the\n"
      "busiest key.",
      table);
}

std::string shapes_sections() {
  const ShapeSettings settings;
  TextTable worst{{"shape"}};
  TextTable error{{"shape"}};
  for (const Algorithm algorithm : kAlgorithms) {
    for (TextTable* table : {&worst, &error}) table->header.emplace_back(to_string(algorithm));
  }
  const std::vector<Comparison> comparisons = compare_all_shapes(settings);
  for (size_t i = 0; i < comparisons.size(); ++i) {
    worst.rows.push_back({std::string(shapes()[i].name)});
    error.rows.push_back({std::string(shapes()[i].name)});
    for (const AlgorithmResult& result : comparisons[i].results) {
      worst.rows.back().push_back(fmt::format("{:.2f}", comparisons[i].worst_ratio(result)));
      error.rows.back().push_back(fmt::format("{:.2f} %", comparisons[i].error_percent(result)));
    }
  }
  const std::string conditions =
      fmt::format("Limit {} per {} ms, burst {}, {} requests, seed {}.", settings.limit.limit,
                  settings.limit.duration.count(), settings.limit.burst, grouped(settings.requests),
                  settings.seed);
  return section("7. Worst trailing window / limit, six algorithms x seven shapes", conditions,
                 worst) +
         section(
             "8. Error against sliding_log, six algorithms x seven shapes",
             conditions +
                 "\nError: decisions that differ from those of sliding_log on the same requests /\n"
                 "requests. Above the limit it compares which requests were admitted, not how "
                 "many.",
             error);
}

struct UseCase {
  const char* name;
  const char* published;
  Needs needs;
};

std::string use_cases_section() {
  constexpr Millis kHour{3'600'000};
  constexpr Millis kDay{86'400'000};
  const UseCase cases[] = {
      {"public API, 100 per second",
       "GCRA",
       {.bursts = Bursts::kYes, .limit = 100, .duration = Millis(1000), .keys = 1'000'000}},
      {"internal service, 1,000 per second",
       "Token Bucket",
       {.bursts = Bursts::kYes, .limit = 1000, .duration = Millis(1000), .keys = 100}},
      {"login, 5 per hour",
       "Sliding Window Counter",
       {.limit = 5, .duration = kHour, .keys = 100'000}},
      {"audit, exactly 100 per day",
       "Sliding Window Log",
       {.strictness = Strictness::kNeverExceeds,
        .bytes_per_key = 4096,
        .limit = 100,
        .duration = kDay,
        .keys = 10'000}},
  };
  TextTable table{{"use", "published", "weir lab --suggest", "state"}};
  for (const UseCase& each : cases) {
    const Advice advice = advise(each.needs);
    table.rows.push_back({each.name, each.published, std::string(to_string(advice.algorithm)),
                          readable_bytes(advice.bytes)});
  }
  return section(
      "9. Four uses",
      "Keys: 1,000,000, 100, 100,000 and 10,000. token_bucket decides as gcra with the same\n"
      "memory.",
      table);
}

}  // namespace

std::vector<Comparison> compare_all_shapes(const ShapeSettings& settings) {
  std::vector<Comparison> all;
  for (const Shape& shape : shapes()) {
    all.push_back(compare(make_traffic(shape, settings), settings.limit));
  }
  return all;
}

std::string tables_text(const std::vector<HeadroomError>& errors) {
  std::string text = state_section() + gcra_section() + burst_zero_section() +
                     over_grant_section() + fixed_window_section() + headroom_section(errors) +
                     shapes_sections() + use_cases_section();
  text.pop_back();  // no empty line at the end
  return text;
}

}  // namespace weir::lab
