#include "lab/questions.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

#include "lab/text_table.h"

namespace weir::lab {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t from = std::min(text.find_first_not_of(kBlank), text.size());
  text.remove_prefix(from);
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

std::optional<bool> yes_or_no(std::string_view answer) {
  if (answer == "yes" || answer == "y") return true;
  if (answer == "no" || answer == "n") return false;
  return std::nullopt;
}

struct Range {
  uint64_t from = 1;
  uint64_t to = 1;
};

std::optional<uint64_t> number_in(std::string_view answer, Range range) {
  uint64_t number = 0;
  const char* end = answer.data() + answer.size();
  const auto parsed = std::from_chars(answer.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  if (number < range.from || number > range.to) return std::nullopt;
  return number;
}

class Questions {
 public:
  Questions(Source source, std::istream& in, std::ostream& out)
      : source_(source), in_(in), out_(out) {}

  // Asks until `parse` accepts the answer. Nothing after an error.
  template <typename Parse>
  auto ask(std::string_view flag, std::string_view question, const std::string& valid,
           const Parse& parse) -> decltype(parse({})) {
    while (!error_) {
      if (source_ == Source::kTerminal) out_ << question << " (" << valid << ") " << std::flush;
      std::string line;
      if (!std::getline(in_, line)) {
        fail(flag, "has no answer: the input has ended", valid);
        break;
      }
      const std::string_view answer = trimmed(line);
      if (const auto value = parse(answer)) return value;
      const std::string problem = fmt::format("is '{}'", answer.substr(0, 40));
      if (source_ == Source::kTerminal) {
        out_ << "The answer " << problem << ": it must be " << valid << ".\n";
      } else {
        fail(flag, problem, valid);
      }
    }
    return std::nullopt;
  }

  std::optional<bool> ask_yes_no(std::string_view flag, std::string_view question) {
    return ask(flag, question, "yes or no", yes_or_no);
  }

  std::optional<uint64_t> ask_number(std::string_view flag, std::string_view question,
                                     Range range) {
    return ask(flag, question,
               fmt::format("a whole number from {} to {}", grouped(range.from), grouped(range.to)),
               [range](std::string_view answer) { return number_in(answer, range); });
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  void fail(std::string_view flag, std::string_view problem, const std::string& valid) {
    error_ =
        Error{.field = std::string(flag),
              .detail = fmt::format("{} {}", flag, problem),
              .fix = fmt::format("it must be {}; answer it on a line of its own, or give {} as "
                                 "a flag",
                                 valid, flag)};
  }

  Source source_;
  std::istream& in_;
  std::ostream& out_;
  std::optional<Error> error_;
};

}  // namespace

Result<Needs> ask_needs(const GivenAnswers& given, Source source, std::istream& in,
                        std::ostream& out) {
  Questions questions(source, in, out);
  Needs needs;
  if (given.bursts) {
    needs.bursts = *given.bursts;
  } else if (questions
                 .ask_yes_no("--bursts", "Are bursts allowed, with a size apart from the rate?")
                 .value_or(false)) {
    needs.bursts = Bursts::kYes;
  }
  if (given.strictness) {
    needs.strictness = *given.strictness;
  } else if (questions.ask_yes_no("--strict", "Must no window ever have more than the limit?")
                 .value_or(false)) {
    needs.strictness = Strictness::kNeverExceeds;
  }
  const auto number = [&](std::optional<uint64_t> flag, std::string_view name,
                          std::string_view question, Range range) {
    return flag ? *flag : questions.ask_number(name, question, range).value_or(range.from);
  };
  needs.bytes_per_key = number(given.bytes_per_key, "--bytes-per-key",
                               "How many bytes of memory may a key take?", {1, kMaxBytesPerKey});
  needs.limit =
      number(given.limit, "--limit", "How many requests per window?", {1, kMaxAdvisedLimit});
  const std::optional<uint64_t> duration =
      given.duration_ms ? std::optional(static_cast<uint64_t>(*given.duration_ms)) : std::nullopt;
  needs.duration = Millis(number(
      duration, "--duration", "How long is the window, in ms?",
      {static_cast<uint64_t>(kMinDuration.count()), static_cast<uint64_t>(kMaxDuration.count())}));
  needs.keys = number(given.keys, "--keys", "How many keys are active within a window?",
                      {1, kMaxAdvisedKeys});
  if (questions.error()) return *questions.error();
  return needs;
}

}  // namespace weir::lab
