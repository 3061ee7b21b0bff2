// Exact decisions of the Redis origin: one script for each call, all in one pipeline.
//
// A script changes the state and returns the state that it found; exact_rule.h decides on that.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <utility>

#include "origins/exact_rule.h"
#include "origins/redis/redis_worker.h"

namespace weir::origins {

using telemetry::OriginCommand;

namespace {

// How often a call is sent: again if the server lost the scripts.
constexpr int kMaxRounds = 3;

// Numbers that are separated by one character each. False: the text is something else.
template <typename... Numbers>
bool parse(std::string_view text, Numbers&... numbers) {
  const auto next = [&](auto& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
    return true;
  };
  return (next(numbers) && ...) && text.empty();
}

WallTime time_of(int64_t ms) {
  return WallTime(Millis(ms));
}

// Text that is no state is an empty one, also for the scripts.
BacklogState backlog_in(std::string_view text) {
  BacklogState state;
  int64_t at = 0;
  const bool valid =
      parse(text, state.version, at, state.pace.num, state.pace.den, state.ms, state.pulses) &&
      state.pace.num > 0 && state.pace.den > 0;
  if (!valid) return {};
  state.at = time_of(at);
  return state;
}

RingState ring_in(std::string_view text) {
  RingState state;
  int64_t at = 0;
  const size_t first = std::min(text.find(' '), text.size());
  const size_t second = std::min(text.find(' ', first + 1), text.size());
  if (!parse(text.substr(0, second), state.version, at)) return {};
  state.at = time_of(at);
  text.remove_prefix(std::min(second + 1, text.size()));
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    std::pair<int64_t, Count> cell;
    if (!parse(text.substr(0, end), cell.first, cell.second)) return state;
    state.cells.push_back(cell);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return state;
}

// Reads what the script kLog returned. `granted` becomes a digit for each ask.
std::optional<LogSummary> log_in(std::string_view text, std::string& granted) {
  LogSummary log;
  int64_t at = 0;
  const size_t last = text.rfind(' ');
  if (last == std::string_view::npos || !parse(text.substr(0, last), log.version, at, log.used)) {
    return std::nullopt;
  }
  log.at = time_of(at);
  int64_t newest = 0;
  if (parse(text.substr(last + 1), newest)) log.newest = time_of(newest);
  std::string digits;
  std::string_view rest = granted;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view each = rest.substr(0, end);
    int64_t stamp = 0;
    digits += each.starts_with('1') ? '1' : '0';
    const bool has_stamp = each.size() > 2 && parse(each.substr(2), stamp);
    log.must_have_left.push_back(has_stamp ? time_of(stamp) : algorithms::kNoStamp);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  granted = digits;
  return log;
}

std::string granted_in(const ExactAnswer& answer) {
  std::string digits;
  for (const ExactDecision& decision : answer.decisions) {
    digits += decision.outcome == Outcome::kAdmitted ? '1' : '0';
  }
  return digits;
}

// The answer to a call that a script has decided; none: the reply is not one.
std::optional<ExactAnswer> answer_in(const ExactCall& call, Count charged, WallTime clock,
                                     std::string_view found, std::string granted) {
  ExactAnswer answer;
  switch (exact_class(call.algorithm)) {
    case ExactClass::kBacklog: {
      BacklogState state = backlog_in(found);
      answer = decide(call, charged, clock, state);
      break;
    }
    case ExactClass::kRing: {
      RingState state = ring_in(found);
      answer = decide(call, charged, clock, state);
      break;
    }
    case ExactClass::kLog: {
      const auto log = log_in(found, granted);
      if (!log || log->must_have_left.size() != call.asks.size()) return std::nullopt;
      answer = decide(call, charged, std::max(clock, log->at), *log);
      break;
    }
  }
  if (granted_in(answer) != granted) return std::nullopt;
  return answer;
}

}  // namespace

// Calls of which some are not decided yet.
struct RedisOrigin::Worker::ExactCalls {
  std::vector<ExactCall> calls;
  std::vector<std::optional<ExactAnswer>> answers;
  ExactReply reply;
  int rounds = 0;

  [[nodiscard]] std::vector<size_t> pending() const {
    std::vector<size_t> items;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!answers[i]) items.push_back(i);
    }
    return items;
  }
  void end() const {
    std::vector<ExactAnswer> all;
    for (const auto& answer : answers) all.push_back(answer.value_or(ExactAnswer{}));
    reply(std::move(all));
  }
  // Takes the reply to one call. False: it is invalid.
  [[nodiscard]] bool take(size_t item, const RedisReply& received) {
    const auto& items = received.items;
    answers[item] = ExactAnswer{};
    if (items.size() == 1 && items[0].integer == 2) return true;  // nobody waits for it
    int64_t time = 0;
    Count charged = 0;
    int64_t refused = 0;
    if (items.size() != 6 || !parse(items[1].text, time) || !parse(items[4].text, charged) ||
        !parse(items[5].text, refused)) {
      return false;
    }
    const ExactCall& call = calls[item];
    auto answer =
        answer_in(call, charged, time_of(time), items[2].text, std::string(items[3].text));
    if (!answer) return false;
    answer->strict =
        is_strict(call, *answer, refused > 0 ? std::optional(time_of(refused)) : std::nullopt);
    answers[item] = std::move(answer);
    return true;
  }
};

void RedisOrigin::Worker::decide(std::vector<ExactCall> calls, ExactReply reply) {
  auto exact = std::make_shared<ExactCalls>();
  exact->calls = std::move(calls);
  exact->answers.resize(exact->calls.size());
  exact->reply = std::move(reply);
  decide_next(exact);
}

// Adds the script of one call, and returns which one it is.
Script RedisOrigin::Worker::add_exact(Pipeline& commands, const ExactCall& call) {
  const std::string prefix = key_prefix(call.tuple);
  std::vector<std::string> keys = {prefix + "x"};
  std::vector<std::string> values = {redis_field(call.writer)};
  const auto add_numbers = [&](std::initializer_list<uint64_t> numbers) {
    for (const uint64_t number : numbers) values.push_back(std::to_string(number));
  };
  const auto duration = static_cast<uint64_t>(call.duration.count());
  add_numbers({call.number, duration, call.acked, call.own,
               static_cast<uint64_t>(call.strict_for.count()),
               static_cast<uint64_t>(call.foreign_width.count()),
               static_cast<uint64_t>(std::max<int64_t>(call.foreign_sequence, 1)), call.foreign,
               call.foreign_last, call.foreign_at_first, call.foreign_most, call.capacity});
  Script script = Script::kBacklog;
  switch (exact_class(call.algorithm)) {
    case ExactClass::kBacklog: {
      const algorithms::Pace pace = algorithms::pace_of(call.limit, call.duration);
      add_numbers({pace.num, pace.den, call.across_durations ? uint64_t{1} : uint64_t{0}});
      for (const ExactAsk& ask : call.asks) {
        const DrainTime burst = drain_time(ask.capacity, pace);
        // A cost beyond the burst is never granted, whatever its size.
        const DrainTime cost = ask.cost > ask.capacity
                                   ? DrainTime{.ms = burst.ms + 1, .pulses = burst.pulses}
                                   : drain_time(ask.cost, pace);
        add_numbers({cost.ms, cost.pulses, burst.ms, burst.pulses});
      }
      break;
    }
    case ExactClass::kRing:
      script = Script::kRing;
      add_numbers({static_cast<uint64_t>(algorithms::ring_width(call.duration).count())});
      for (const ExactAsk& ask : call.asks) add_numbers({ask.cost, ask.capacity});
      break;
    case ExactClass::kLog:
      script = Script::kLog;
      keys.push_back(prefix + "g");
      for (const ExactAsk& ask : call.asks) add_numbers({ask.cost, ask.capacity});
      break;
  }
  add_script(commands, OriginCommand::kStep, script,
             std::vector<std::string_view>(keys.begin(), keys.end()),
             std::vector<std::string_view>(values.begin(), values.end()));
  return script;
}

// Sends what is not decided yet.
void RedisOrigin::Worker::decide_next(const std::shared_ptr<ExactCalls>& calls) {
  std::vector<size_t> pending = calls->pending();
  if (pending.empty() || ++calls->rounds > kMaxRounds) return calls->end();
  Pipeline commands;
  std::array<bool, static_cast<size_t>(Script::kCount)> used{};
  for (const size_t item : pending) {
    used[static_cast<size_t>(add_exact(commands, calls->calls[item]))] = true;
  }
  std::vector<Script> scripts;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) scripts.push_back(static_cast<Script>(i));
  }
  const size_t count = commands.count;
  call_scripts(
      {.commands = std::move(commands),
       .scripts = scripts,
       .optional = count,
       .done = [this, calls, scripts, pending = std::move(pending)](Result<Replies> replies) {
         if (!replies) return calls->reply(replies.error());
         for (size_t i = 0; i < pending.size(); ++i) {
           const RedisReply& each = (*replies)[i];
           if (each.type != RedisReply::Type::kError) {
             if (calls->take(pending[i], each)) continue;
             metrics.errors.add(OriginError::kOther);
             continue;
           }
           const OriginError error = error_of_reply(each.text);
           metrics.errors.add(error);
           if (error == OriginError::kNoScript) {
             scripts_sent = {};
           } else if (error == OriginError::kWrongType) {
             calls->answers[pending[i]] = ExactAnswer{};
           } else {
             note_refused_write(error, each.text);
             return calls->reply(to_error(error, each.text, scripts));
           }
         }
         if (calls->pending().empty()) return calls->end();
         // Posted: inside a reply handler the link iterates over its calls.
         boost::asio::post(io, [this, calls] { decide_next(calls); });
       }});
}

}  // namespace weir::origins
