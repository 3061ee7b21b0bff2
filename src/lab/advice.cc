#include "lab/advice.h"

#include <fmt/format.h>

#include <sstream>

#include "algorithms/backlog.h"
#include "base/wide.h"
#include "lab/state_bytes.h"
#include "lab/text_table.h"

namespace weir::lab {
namespace {

static_assert(kMaxAdvisedLimit <= algorithms::kAlwaysRepresentable);

uint64_t saturating_product(uint64_t a, uint64_t b) {
  const base::Wide product = base::Wide{a} * b;
  constexpr uint64_t kMost = ~uint64_t{0};
  return product > kMost ? kMost : a * b;
}

bool fits_memory(Algorithm algorithm, const Needs& needs) {
  return weir_bytes(algorithm, needs.limit) <= needs.bytes_per_key;
}

// The stamps of all keys at their limit.
uint64_t log_bytes(const Needs& needs) {
  return saturating_product(saturating_product(needs.limit, needs.keys), 8);
}

// Whether the log fits; adds the reason.
bool consider_log(const Needs& needs, std::vector<std::string>& reasons) {
  const std::string size =
      fmt::format("{} units per window x {} keys x 8 bytes = {}", grouped(needs.limit),
                  grouped(needs.keys), readable_bytes(log_bytes(needs)));
  if (needs.limit > kMaxLogLimit) {
    reasons.push_back(
        fmt::format("sliding_log is out: its limit is at most {}. The log would have {}.",
                    grouped(kMaxLogLimit), size));
    return false;
  }
  if (log_bytes(needs) > kMaxLogBytes) {
    reasons.push_back(fmt::format("sliding_log is out: the log would have {}, more than {}.", size,
                                  readable_bytes(kMaxLogBytes)));
    return false;
  }
  if (!fits_memory(Algorithm::kSlidingLog, needs)) {
    reasons.push_back(fmt::format(
        "sliding_log is out: it needs {} bytes per key, and {} are allowed.",
        grouped(weir_bytes(Algorithm::kSlidingLog, needs.limit)), grouped(needs.bytes_per_key)));
    return false;
  }
  reasons.push_back(fmt::format("The log is small: {}.", size));
  reasons.emplace_back(
      "sliding_log never admits more than the limit in any window, and never denies a request that "
      "would fit.");
  return true;
}

void choose_strict(const Needs& needs, Advice& advice) {
  if (needs.bursts == Bursts::kYes) {
    advice.reasons.emplace_back(
        "gcra and token_bucket are out: within one duration they admit the burst and the limit "
        "together. The algorithms below admit the whole limit at once as a burst, and no more.");
  }
  if (consider_log(needs, advice.reasons)) {
    advice.algorithm = Algorithm::kSlidingLog;
    return;
  }
  if (fits_memory(Algorithm::kSlidingWindowStrict, needs)) {
    advice.algorithm = Algorithm::kSlidingWindowStrict;
    advice.reasons.emplace_back(
        "sliding_window_strict never admits more than the limit in any window. A client that "
        "always sends too much gets about 94 % of the limit, and down to 83 % for durations below "
        "1.6 s.");
    return;
  }
  advice.reasons.push_back(
      fmt::format("sliding_window_strict is out: it needs {} bytes per key, and {} are allowed.",
                  grouped(weir_bytes(Algorithm::kSlidingWindowStrict, needs.limit)),
                  grouped(needs.bytes_per_key)));
  advice.algorithm = Algorithm::kGcra;
  advice.burst = 1;
  advice.reasons.emplace_back(
      "gcra with a burst of 1 admits requests of cost 1 at equal distances, so no window has more "
      "than the limit. It admits no bursts and no larger cost.");
  if (needs.bursts == Bursts::kYes) advice.fits = false;
}

void choose(const Needs& needs, Advice& advice) {
  if (needs.strictness == Strictness::kNeverExceeds) return choose_strict(needs, advice);
  if (needs.bursts == Bursts::kYes) {
    advice.algorithm = Algorithm::kGcra;
    advice.burst = needs.limit;
    advice.reasons.emplace_back(
        "gcra enforces a steady rate and a burst that you choose. Within one duration it admits "
        "less than the burst and the limit together. token_bucket makes the same decisions with "
        "the same memory; only the name differs.");
    return;
  }
  advice.algorithm = Algorithm::kSlidingWindow;
  advice.reasons.emplace_back(
      "sliding_window needs no burst setting and little memory. It is close to exact for most "
      "traffic; the worst case is 2 x the limit within one duration. weir lab --tables shows its "
      "error for seven traffic shapes.");
}

// "- text", broken between words at 79 columns.
std::string list_item(const std::string& text) {
  constexpr size_t kWidth = 79;
  std::string item;
  std::string line = "-";
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kWidth) {
      item += line + '\n';
      line = " ";
    }
    line += ' ' + word;
  }
  return item + line + '\n';
}

}  // namespace

Advice advise(const Needs& needs) {
  Advice advice;
  choose(needs, advice);
  advice.bytes_per_key = weir_bytes(advice.algorithm, needs.limit);
  advice.bytes = saturating_product(advice.bytes_per_key, needs.keys);
  if (advice.bytes_per_key > needs.bytes_per_key) {
    advice.fits = false;
    advice.reasons.push_back(
        fmt::format("Nothing in Weir fits {} bytes per key: the smallest state has {}. Keys beyond "
                    "--capacity are counted together in a sketch, which may deny more "
                    "(docs/memory.md).",
                    grouped(needs.bytes_per_key), grouped(advice.bytes_per_key)));
  }
  return advice;
}

std::string to_text(const Advice& advice, const Needs& needs) {
  std::string text = fmt::format(
      "{}{}{}\n\n", advice.fits ? "Use " : "Nothing fits; closest is ", to_string(advice.algorithm),
      advice.burst > 0 ? fmt::format(" with a burst of {}", advice.burst) : "");
  for (const std::string& reason : advice.reasons) text += list_item(reason);
  text += list_item(fmt::format("State: {} bytes per key x {} keys = {}.",
                                grouped(advice.bytes_per_key), grouped(needs.keys),
                                readable_bytes(advice.bytes)));
  text += fmt::format("\nRedis protocol:  WEIR.LIMIT api alice {} {} ALGORITHM {}{}\n", needs.limit,
                      needs.duration.count(), to_string(advice.algorithm),
                      advice.burst > 0 ? fmt::format(" BURST {}", advice.burst) : "");
  return text;
}

std::string readable_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace weir::lab
