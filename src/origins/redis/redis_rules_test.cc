// Each Lua script of the origin on a real redis-server against its rule in C++, with random calls.
//
// The scripts run at the time of the test: a proxy puts kTimeText in front of each. So a case is
// the same each time it runs, and time passes as the case says. In each case
//
// - all replies are those of the rule: step_rule.h, exact_rule.h, in_process_state.h;
// - every key has a time to live, no call shortens it, and it is as long as the rule needs: nothing
//   that the origin remembers ends early;
// - clocks of processes differ, and the clock of the server goes back.
//
// The second test plants bugs in the scripts, and expects a case that fails.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "origins/exact_tuples.h"
#include "origins/in_process_state.h"
#include "origins/redis/redis_tuples.h"
#include "origins/redis/running_redis_test.h"
#include "origins/redis/script_proxy_test.h"
#include "tests/effort.h"

namespace weir::origins {
namespace {

// Gives a script the time `test:now`, and notes in `test:ends` when keys end by it; the server
// itself never deletes them. PEXPIRE still checks its arguments.
constexpr std::string_view kTimeText = R"(
local redis = (function()
  local server = redis
  local now = tonumber(server.call('GET', 'test:now'))
  local removes = {DEL = true, HDEL = true, ZREM = true, ZREMRANGEBYSCORE = true}
  local function ends(key) return tonumber(server.call('HGET', 'test:ends', key)) end
  local function set_end(key, ms)
    server.call('HSET', 'test:ends', key, string.format('%.0f', now + tonumber(ms)))
  end
  local function call(name, key, ...)
    if name == 'TIME' then
      return {string.format('%.0f', math.floor(now / 1000)), string.format('%d', now % 1000 * 1000)}
    end
    if name == 'PTTL' then
      if server.call('EXISTS', key) == 0 then return -2 end
      local at = ends(key)
      return at and at - now or -1
    end
    local reply = server.call(name, key, ...)
    if name == 'PEXPIRE' and reply == 1 then
      server.call('PERSIST', key)
      local before = ends(key)
      if before and now + tonumber((...)) < before then
        server.call('SADD', 'test:shortened', key)
      end
      set_end(key, (...))
    elseif name == 'SET' then
      server.call('PERSIST', key)
      local _, unit, ms = ...
      if unit == 'PX' then set_end(key, ms) end
    elseif removes[name] and server.call('EXISTS', key) == 0 then
      server.call('HDEL', 'test:ends', key)
    end
    return reply
  end
  return {call = call, error_reply = server.error_reply}
end)()
)";

// Sets the time, and deletes the keys that have ended.
constexpr std::string_view kAdvanceText = R"(
redis.call('SET', 'test:now', ARGV[1])
local all, ended = redis.call('HGETALL', 'test:ends'), {}
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) <= tonumber(ARGV[1]) then
    redis.call('DEL', all[i])
    redis.call('HDEL', 'test:ends', all[i])
    ended[#ended + 1] = all[i]
  end
end
return ended
)";

// The keys whose time to live was shortened, those that have none, and when the others end.
constexpr std::string_view kInspectText = R"(
local endless = {}
for _, key in ipairs(redis.call('KEYS', 'weir:{*')) do
  local ends = redis.call('HEXISTS', 'test:ends', key) == 1
  if not ends and not string.find(key, '{bridge}', 1, true) then endless[#endless + 1] = key end
end
return {redis.call('SMEMBERS', 'test:shortened'), endless, redis.call('HGETALL', 'test:ends')}
)";

constexpr std::string_view kResetText = R"(
for _, key in ipairs(redis.call('KEYS', 'weir:{*')) do redis.call('DEL', key) end
redis.call('DEL', 'weir:due', 'test:ends', 'test:shortened')
return redis.call('SET', 'test:now', ARGV[1])
)";

// Later than the clock of any machine, so that a due time may be ahead of it or not.
constexpr WallTime kStart{Millis(4'000'000'000'000)};

class SettableClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override {
    return {.wall = WallTime(Millis(wall_.load())), .mono = system_clock().now().mono};
  }
  void set(WallTime wall) { wall_ = wall.time_since_epoch().count(); }

 private:
  std::atomic<int64_t> wall_{kStart.time_since_epoch().count()};
};

int64_t ms_of(WallTime time) {
  return time.time_since_epoch().count();
}

std::string text_of(const CellTotals& totals) {
  std::ostringstream text;
  text << totals.mine << " + " << totals.siblings << (totals.refused ? " refused" : "");
  if (totals.regions) {
    for (const RegionCount& count : *totals.regions) {
      text << " " << count.region << ":" << count.sequence << "," << count.count << ","
           << count.limit_seen << "," << ms_of(count.leased_until);
    }
  }
  return text.str();
}

std::string text_of(const StepTotals& totals) {
  std::string granted;
  for (const bool each : totals.granted) granted += each ? '1' : '0';
  return text_of(totals.current) + ", last " + text_of(totals.last) + ", granted " + granted;
}

std::string text_of(const TupleCounts& counts) {
  std::ostringstream text;
  for (const TupleCounts::Window& window : counts.windows) {
    text << window.sequence << ": " << window.total << " of " << window.limit_seen << "; ";
  }
  const auto regions = std::make_shared<const std::vector<RegionCount>>(counts.regions);
  return text.str() + text_of(CellTotals{.regions = regions});
}

std::string text_of(const ExactAnswer& answer, bool with_strict) {
  std::ostringstream text;
  text << "version " << answer.version << " at " << ms_of(answer.at)
       << (answer.changed ? " changed" : "") << " charged " << answer.charged
       << (with_strict && answer.strict ? " strict" : "");
  for (const ExactDecision& each : answer.decisions) {
    text << "; " << static_cast<int>(each.outcome) << " " << each.remaining << " "
         << each.reset.count() << " " << (each.retry_after ? each.retry_after->count() : -1);
  }
  return text.str();
}

std::string text_of(const ExactCall& call) {
  std::ostringstream text;
  text << to_string(call.algorithm) << " " << call.limit << " per " << call.duration.count()
       << " ms, call " << call.number << " of " << call.writer.incarnation << ", own " << call.own
       << ", acked " << call.acked << ", capacity " << call.capacity << ", strict for "
       << call.strict_for.count() << " ms, foreign " << call.foreign_width.count() << " ms "
       << call.foreign_sequence << " " << call.foreign << " " << call.foreign_last << " at first "
       << call.foreign_at_first << " at most " << call.foreign_most << ", asks";
  for (const ExactAsk& ask : call.asks) text << " " << ask.cost << "/" << ask.capacity;
  return text.str();
}

std::string text_of(const std::vector<DueTuple>& entries) {
  std::ostringstream text;
  for (const DueTuple& each : entries) {
    text << each.tuple << " " << static_cast<int>(each.kind) << " " << ms_of(each.at) << " "
         << each.revision << "; ";
  }
  return text.str();
}

enum class Case { kCells, kStates, kWriters, kBridge };

class RedisRules : public ::testing::Test {
 protected:
  RedisRules() {
    plant("", "");
    origin_.await_ready();
    // With the first heartbeat the origin knows the time of the server.
    await([this] { return control_.ask({"ZCARD", "weir:nodes"}).integer == 1; });
  }

  // Replaces a text in all scripts. Returns how many have it.
  size_t plant(std::string_view text, std::string_view by) {
    ScriptProxy::Texts texts;
    size_t found = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      std::string script(origins::text_of(static_cast<Script>(i)));
      const size_t at = text.empty() ? std::string::npos : script.find(text);
      if (at != std::string::npos) {
        script.replace(at, text.size(), by);
        ++found;
      }
      texts[i] = std::string(kTimeText) + script;
    }
    proxy_.use(texts);
    return found;
  }

  // How the scripts differ from the rule in one case; empty: they do not.
  std::string difference_in(Case which, uint64_t seed) {
    random_ = seed * 4 + static_cast<uint64_t>(which);
    difference_.clear();
    operation_ = 0;
    // The origin remembers keys of earlier cases.
    name_ = std::to_string(++cases_);
    now_ = kStart + Millis(draw(1'000'000'000));
    clock_.set(now_);
    (void)control_.ask({"EVAL", std::string(kResetText), "0", std::to_string(ms_of(now_))});
    switch (which) {
      case Case::kCells: run_cells(); break;
      case Case::kStates: run_states(); break;
      case Case::kWriters: run_writers(); break;
      case Case::kBridge: run_bridge(); break;
    }
    if (difference_.empty()) return {};
    return "case " + std::to_string(static_cast<int>(which)) + ", seed " + std::to_string(seed) +
           ", operation " + std::to_string(operation_) + ": " + difference_;
  }

 private:
  struct Cells;
  struct States;

  uint64_t draw(uint64_t below) { return base::split_mix(random_) % below; }
  bool one_in(uint64_t many) { return draw(many) == 0; }
  void differ(const std::string& text) {
    if (difference_.empty()) difference_ = text;
  }
  void expect_equal(const std::string& what, const std::string& script, const std::string& rule) {
    if (script != rule) differ(what + "\n  script " + script + "\n  rule   " + rule);
  }

  // Returns the keys that have ended.
  std::vector<std::string> advance(WallTime to) {
    now_ = to;
    clock_.set(to);
    const RedisReply& reply =
        control_.ask({"EVAL", std::string(kAdvanceText), "0", std::to_string(ms_of(to))});
    std::vector<std::string> ended;
    for (const RedisReply& key : reply.items) ended.emplace_back(key.text);
    return ended;
  }
  // When keys end. Notes what no call may do.
  std::map<std::string, WallTime> ends() {
    const RedisReply& reply = control_.ask({"EVAL", std::string(kInspectText), "0"});
    std::map<std::string, WallTime> ends;
    if (reply.items.size() != 3) {
      differ("the server answers " + std::string(reply.text));
      return ends;
    }
    for (const RedisReply& key : reply.items[0].items) {
      differ("the time to live of " + std::string(key.text) + " was shortened");
    }
    for (const RedisReply& key : reply.items[1].items) {
      differ(std::string(key.text) + " has no time to live");
    }
    const auto& pairs = reply.items[2].items;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      ends[std::string(pairs[i].text)] =
          WallTime(Millis(std::stoll(std::string(pairs[i + 1].text))));
    }
    return ends;
  }
  // All earlier calls were executed.
  void settle() { (void)origin_.read({read_of("settle")}); }

  // --- cells and region counts ---

  void run_cells();
  void step_cells(Cells& cells);
  void replay_cell(Cells& cells);
  void retire_component(Cells& cells);
  void update_tuple(Cells& cells);
  void lose_departed(Cells& cells);
  void check_ends(const Cells& cells);
  CellId draw_cell(Cells& cells);
  Component draw_writer() { return {.incarnation = 1 + draw(3), .generation = 1 + draw(2)}; }
  // The time by the clock of a process.
  WallTime process_time(const Cells& cells);

  // --- states ---

  void run_states();
  ExactCall draw_call(States& states, size_t tuple, uint64_t writer);
  void decide(States& states, const ExactCall& call, bool again);

  void run_writers();
  void run_bridge();

  SettableClock clock_;
  RedisServer server_;
  ScriptProxy proxy_{server_.port()};
  RunningOrigin origin_{clock_, proxy_.port()};
  ServerConnection control_{server_.port()};
  uint64_t random_ = 0;
  uint64_t cases_ = 0;
  std::string name_;
  WallTime now_{};
  uint64_t operation_ = 0;
  std::string difference_;
};

struct RedisRules::Cells {
  struct Part {
    Count total = 0;  // at the server, at least
    Count limit = 0;  // the smallest that was sent
    bool retired = false;
  };
  struct Kept {
    WallTime least{};
    WallTime most{};
  };
  InProcessState rule;
  // The clocks of processes agree, and time passes. Otherwise it stands still: the in-process
  // origin knows no clock but its own.
  bool one_clock = true;
  uint64_t scale = 1;  // of counts
  std::string tuples[2];
  Millis durations[2];
  std::map<std::pair<CellId, Component>, Part> parts;
  std::map<std::string, Kept> kept;  // by key

  [[nodiscard]] Millis duration_of(const CellId& cell) const {
    return durations[cell.tuple == tuples[0] ? 0 : 1];
  }
  [[nodiscard]] WallTime expiry_of(const CellId& cell) const {
    return WallTime((cell.sequence + 2) * duration_of(cell));
  }
  [[nodiscard]] Count count_in_rule(const CellId& cell, const Component& component) const {
    const auto all = rule.components(cell);
    const auto found = all.find(component);
    return found == all.end() ? 0 : 1 + found->second;
  }
  // A call may keep the key until `most`, and must if it wrote something new.
  void keep(const std::string& key, WallTime until, bool must) {
    Kept& times = kept[key];
    if (must) times.least = std::max(times.least, until);
    times.most = std::max(times.most, until);
  }
};

WallTime RedisRules::process_time(const Cells& cells) {
  const Millis ahead(cells.one_clock ? 0 : static_cast<int64_t>(draw(8001)) - 4000);
  clock_.set(now_ + ahead);
  return now_ + ahead;
}

CellId RedisRules::draw_cell(Cells& cells) {
  const size_t tuple = draw(2);
  const auto sequence = now_.time_since_epoch() / cells.durations[tuple];
  return {cells.tuples[tuple], sequence - static_cast<int64_t>(draw(2))};
}

void RedisRules::step_cells(Cells& cells) {
  const WallTime by_process = process_time(cells);
  std::vector<CellStep> steps;
  for (uint64_t i = 1 + draw(3); i > 0; --i) {
    const CellId cell = draw_cell(cells);
    const Component writer = draw_writer();
    const Cells::Part& part = cells.parts[{cell, writer}];
    if (part.retired) continue;
    const auto some = [&](uint64_t below) { return one_in(2) ? 0 : draw(below) * cells.scale; };
    CellStep step{.cell = cell,
                  .writer = writer,
                  .own = one_in(3) ? draw(part.total + 1) : part.total + some(4),
                  .own_last = some(20),
                  .siblings = some(20),
                  .siblings_last = some(20),
                  .foreign = some(20),
                  .foreign_last = some(20),
                  .duration = cells.duration_of(cell),
                  .expires_at = cells.expiry_of(cell),
                  .limit_seen = one_in(2) ? 0 : 1 + draw(50),
                  .with_regions = one_in(2),
                  .asks = {}};
    for (uint64_t asks = draw(5); asks > 0; --asks) {
      const auto width = static_cast<uint64_t>(step.duration.count());
      step.asks.push_back({.cost = draw(6) * cells.scale,
                           .limit = draw(80) * cells.scale + draw(3),
                           .rest = Millis(one_in(2) ? 0 : draw(width + 1))});
    }
    steps.push_back(std::move(step));
  }
  const auto replies = origin_.step(steps);
  if (!replies) return differ("a step failed: " + replies.error().detail);
  for (size_t i = 0; i < steps.size(); ++i) {
    const CellStep& step = steps[i];
    const Count before = cells.count_in_rule(step.cell, step.writer);
    const StepTotals expected = cells.rule.step(step, now_);
    const Count after = cells.count_in_rule(step.cell, step.writer);
    if (after > 0 || expected.current.refused) {
      cells.keep(redis_key(step.cell), now_ + (step.expires_at + kExpiryMargin - by_process),
                 before == 0 && after > 0);
    }
    Cells::Part& part = cells.parts[{step.cell, step.writer}];
    part.total = std::max(part.total, expected.current.mine);
    part.limit = smaller_limit(part.limit, step.limit_seen);
    expect_equal("a step", text_of(replies->at(i)), text_of(expected));
  }
}

// A process never writes a smaller total or a larger limit than before.
void RedisRules::replay_cell(Cells& cells) {
  const CellId cell = draw_cell(cells);
  const Component writer = draw_writer();
  Cells::Part& part = cells.parts[{cell, writer}];
  if (part.retired) return;
  const WallTime by_process = process_time(cells);
  const Count limit = part.limit == 0 ? draw(50) : part.limit - draw(part.limit);
  const CellReplay replay{.cell = cell,
                          .writer = writer,
                          .total = part.total + draw(3) * cells.scale,
                          .expires_at = cells.expiry_of(cell),
                          .limit_seen = one_in(2) ? 0 : limit};
  if (replay.expires_at <= by_process) return;
  const auto replies = origin_.replay({replay});
  if (!replies) return differ("a replay failed: " + replies.error().detail);
  const Count before = cells.count_in_rule(cell, writer);
  cells.rule.replay(replay, now_);
  const Count after = cells.count_in_rule(cell, writer);
  if (after > 0) {
    cells.keep(redis_key(cell), now_ + (replay.expires_at + kExpiryMargin - by_process),
               before == 0);
  }
  part.total = replay.total;
  part.limit = smaller_limit(part.limit, replay.limit_seen);
  expect_equal("a replay", text_of(replies->at(0)), text_of(cells.rule.totals(cell, writer)));
  settle();  // a repaired expiry
}

void RedisRules::retire_component(Cells& cells) {
  if (cells.parts.empty()) return;
  auto each = cells.parts.begin();
  std::advance(each, static_cast<ptrdiff_t>(draw(cells.parts.size())));
  const CellRetirement retirement{.cell = each->first.first, .writer = each->first.second};
  each->second.retired = true;
  const auto retired = origin_.retire({retirement});
  if (!retired) return differ("a retirement failed: " + retired.error().detail);
  const size_t expected = cells.rule.retire(retirement) ? 1 : 0;
  expect_equal("a retirement", std::to_string(*retired), std::to_string(expected));
}

void RedisRules::update_tuple(Cells& cells) {
  const CellId cell = draw_cell(cells);
  const WallTime by_process = process_time(cells);
  const auto sequence = cell.sequence;
  TupleUpdate update{.tuple = cell.tuple,
                     .counts = {},
                     .kept_until = now_ + Millis(1 + draw(600'000)),
                     .sequences = {sequence - 1, sequence}};
  if (one_in(2)) update.now = by_process + Millis(cells.one_clock ? 0 : draw(1000));
  for (uint64_t i = draw(4); i > 0; --i) {
    update.counts.push_back({.region = std::to_string(draw(3)),
                             .sequence = sequence + 1 - static_cast<int64_t>(draw(5)),
                             .count = draw(50) * cells.scale,
                             .limit_seen = draw(20),
                             .leased_until = WallTime(Millis(draw(30)))});
  }
  for (uint64_t i = draw(3); i > 0; --i) {
    CellFloor floor{.sequence = sequence,
                    .total = 1 + draw(60) * cells.scale,
                    .expires_at = cells.expiry_of(cell)};
    for (uint64_t writer = 1; writer <= 3; ++writer) {
      if (one_in(2)) floor.writers.push_back(writer);
    }
    update.floors.push_back(std::move(floor));
  }
  const WallTime by = update.now == WallTime{} ? by_process : update.now;
  if (update.kept_until <= by) return;
  const auto replies = origin_.update_tuples({update});
  if (!replies) return differ("an update failed: " + replies.error().detail);
  if (!update.counts.empty()) {
    cells.keep(tuple_key(key_prefix(cell.tuple)), now_ + (update.kept_until + kExpiryMargin - by),
               true);
  }
  (void)cells.rule.update(update, now_, 0);
  for (const CellFloor& floor : update.floors) {
    const Count before = cells.count_in_rule(cell, kDeparted);
    cells.rule.raise_departed(cell.tuple, floor, now_);
    const Count after = cells.count_in_rule(cell, kDeparted);
    if (after > before) {
      cells.keep(redis_key(cell), now_ + (floor.expires_at + kExpiryMargin - by_process), true);
    }
  }
  expect_equal("an update", text_of(replies->at(0)),
               text_of(cells.rule.tuple(update.tuple, update.sequences)));
}

// The origin has read the departed component, and restores it.
void RedisRules::lose_departed(Cells& cells) {
  if (!cells.one_clock) return;
  const CellId cell = draw_cell(cells);
  const CellRead read{.cell = cell, .reader = draw_writer(), .expires_at = cells.expiry_of(cell)};
  const std::string expected = text_of(cells.rule.totals(cell, read.reader));
  const auto first = origin_.read({read});
  if (!first) return differ("a read failed: " + first.error().detail);
  expect_equal("a read", text_of(first->at(0)), expected);
  if (one_in(2)) {
    (void)control_.ask({"HDEL", redis_key(cell), "departed"});
  } else if (cells.count_in_rule(cell, kDeparted) > 2) {
    (void)control_.ask({"HSET", redis_key(cell), "departed", "1"});
  }
  (void)origin_.read({read});
  const auto restored = origin_.read({read});
  if (!restored) return differ("a read failed: " + restored.error().detail);
  expect_equal("a read after a loss", text_of(restored->at(0)), expected);
}

void RedisRules::check_ends(const Cells& cells) {
  const auto ends = this->ends();
  for (const auto& [key, times] : cells.kept) {
    const auto found = ends.find(key);
    if (found == ends.end()) {
      differ(key + " has ended");
    } else if (found->second < times.least || found->second > times.most) {
      differ(key + " ends " + std::to_string((found->second - times.least).count()) +
             " ms after the earliest, and " + std::to_string((found->second - times.most).count()) +
             " ms after the latest time");
    }
  }
}

void RedisRules::run_cells() {
  constexpr Millis kDurations[] = {Millis(1000), Millis(10'000), Millis(3'600'000)};
  Cells cells;
  cells.one_clock = !one_in(3);
  cells.scale = one_in(4) ? uint64_t{1} << draw(34) : 1;
  for (size_t i = 0; i < 2; ++i) {
    cells.tuples[i] = name_ + (i == 0 ? "a" : "b");
    // So long that a clock that is ahead does not end the window.
    cells.durations[i] = cells.one_clock ? kDurations[draw(3)] : kDurations[1 + draw(2)];
  }
  for (operation_ = 1; operation_ <= 40 && difference_.empty(); ++operation_) {
    switch (draw(10)) {
      case 0: retire_component(cells); break;
      case 1: replay_cell(cells); break;
      case 2: update_tuple(cells); break;
      case 3: lose_departed(cells); break;
      case 4:
      case 5: {
        if (!cells.one_clock) break;
        check_ends(cells);
        const auto width = static_cast<uint64_t>(cells.durations[draw(2)].count());
        for (const std::string& key : advance(now_ + Millis(draw(one_in(4) ? 3 * width : width)))) {
          cells.kept.erase(key);
        }
        cells.rule.delete_expired(now_ - kExpiryMargin);
        break;
      }
      default: step_cells(cells);
    }
  }
  check_ends(cells);
  clock_.set(now_);
  for (size_t i = 0; i < 2 && difference_.empty(); ++i) {
    const auto newest = now_.time_since_epoch() / cells.durations[i];
    const std::vector<int64_t> sequences = {newest - 2, newest - 1, newest};
    const auto counts = origin_.read_tuples({{.tuple = cells.tuples[i], .sequences = sequences}});
    if (!counts) return differ("a read failed: " + counts.error().detail);
    expect_equal("the counts in the end", text_of(counts->at(0)),
                 text_of(cells.rule.tuple(cells.tuples[i], sequences)));
  }
}

struct RedisRules::States {
  struct Tuple {
    std::string name;
    Algorithm algorithm = Algorithm::kGcra;
    bool across_durations = false;
    Count limit = 1;
    Count burst = 1;
    Millis duration{1};
    Millis strict_for{0};
    Millis width{0};                   // of windows of other regions
    std::map<int64_t, Count> foreign;  // by window
  };
  struct Writer {
    uint64_t number = 0;
    Count own = 0;
    Count acked = 0;
    std::optional<ExactCall> last;
    std::optional<ExactCall> before;
  };
  ExactTuples rule;
  bool inspects = true;     // the times to live
  bool with_margin = true;  // marks and charges for other regions need no margin
  std::vector<Tuple> tuples;
  std::map<std::pair<size_t, uint64_t>, Writer> writers;
};

ExactCall RedisRules::draw_call(States& states, size_t at, uint64_t incarnation) {
  constexpr Count kCosts[] = {0, 1, 1, 1, 2, 5, 12, 1'000'000'000'000};
  States::Tuple& tuple = states.tuples[at];
  States::Writer& writer = states.writers[{at, incarnation}];
  const bool is_backlog = exact_class(tuple.algorithm) == ExactClass::kBacklog;
  if (one_in(2) && writer.last) writer.acked = std::max(writer.acked, writer.last->own);
  if (one_in(3)) writer.own += draw(2 * tuple.burst + 2);
  ExactCall call{.tuple = tuple.name,
                 .algorithm = tuple.algorithm,
                 .limit = is_backlog && one_in(5) ? 1 + draw(20) : tuple.limit,
                 .duration = tuple.duration,
                 .across_durations = tuple.across_durations,
                 .writer = {.incarnation = incarnation},
                 .number = ++writer.number,
                 .own = writer.own,
                 .acked = writer.acked,
                 .strict_for = tuple.strict_for,
                 .asks = {}};
  if (call.across_durations && one_in(3)) call.duration = Millis(one_in(2) ? 100 : 60'000);
  const algorithms::Pace pace = algorithms::pace_of(call.limit, call.duration);
  for (uint64_t asks = draw(4); asks > 0; --asks) {
    Count capacity = one_in(3) ? 1 + draw(20) : (is_backlog ? tuple.burst : tuple.limit);
    const bool drains = base::Wide{capacity} * pace.num <=
                        base::Wide{static_cast<uint64_t>(kMaxExactDrain.count())} * pace.den;
    if (is_backlog && !(drains && algorithms::representable(pace, call.limit, capacity))) {
      capacity = 1;
    }
    const Count cost = one_in(4) ? draw(capacity + 2) : kCosts[draw(std::size(kCosts))];
    call.asks.push_back({.cost = cost, .capacity = capacity});
    if (one_in(2)) call.capacity = std::max(call.capacity, capacity);
  }
  if (tuple.width > Millis(0) && !one_in(3)) {
    call.foreign_width = tuple.width;
    call.foreign_sequence = now_.time_since_epoch() / tuple.width;
    if (one_in(6)) call.foreign_sequence += static_cast<int64_t>(draw(3)) - 1;
    if (one_in(2)) tuple.foreign[call.foreign_sequence] += draw(2 * tuple.burst + 2);
    call.foreign = tuple.foreign[call.foreign_sequence];
    call.foreign_last = tuple.foreign[call.foreign_sequence - 1];
    call.foreign_at_first = draw(call.foreign + call.foreign_last + 1);
    call.foreign_most = one_in(2) ? draw(tuple.burst + 1) : Count{1} << 40;
  }
  writer.before = std::exchange(writer.last, call);
  return call;
}

void RedisRules::decide(States& states, const ExactCall& call, bool again) {
  const auto answers = origin_.decide({call});
  if (!answers) return differ("a decision failed: " + answers.error().detail);
  const ExactAnswer expected = states.rule.decide(call, now_);
  // The answer to a repeated call is the first one, except that a refusal since then counts.
  expect_equal(text_of(call) + (again ? ", again" : ""), text_of(answers->at(0), !again),
               text_of(expected, !again));
  // Only an admission and the mark of a refusal keep the state.
  const bool keeps = expected.changed || is_strict(call, expected, std::nullopt);
  const auto kept = states.rule.kept_until(call.tuple);
  if (again || !keeps || !kept || !states.inspects) return;
  const auto ends = this->ends();
  const auto found = ends.find(key_prefix(call.tuple) + "x");
  const WallTime least = *kept - (states.with_margin ? Millis(0) : kExpiryMargin);
  if (found == ends.end() || found->second < least) {
    differ("the state ends " + std::to_string(ms_of(*kept)) + " by the rule, and " +
           std::to_string(found == ends.end() ? 0 : ms_of(found->second)) + " by the script, now " +
           std::to_string(ms_of(now_)) + ": " + text_of(call));
  } else if (expected.changed && found->second < now_ + kExpiryMargin) {
    differ("a call that may be sent again is not remembered");
  }
}

void RedisRules::run_states() {
  constexpr Algorithm kAlgorithms[] = {Algorithm::kGcra, Algorithm::kTokenBucket,
                                       Algorithm::kSlidingWindowStrict, Algorithm::kSlidingLog};
  constexpr Millis kDurations[] = {Millis(100), Millis(1000), Millis(60'000), Millis(3'600'000)};
  States states;
  states.with_margin = one_in(5);
  for (int i = 0; i < 2; ++i) {
    States::Tuple tuple{.name = name_ + std::to_string(i),
                        .algorithm = kAlgorithms[draw(4)],
                        .limit = 1 + draw(20),
                        .burst = 1 + draw(20),
                        .duration = kDurations[draw(4)],
                        .foreign = {}};
    const bool is_backlog = exact_class(tuple.algorithm) == ExactClass::kBacklog;
    tuple.across_durations = is_backlog && one_in(4);
    if (is_backlog && one_in(5)) {
      tuple.limit = 1 + draw(uint64_t{1} << draw(30));
      tuple.burst = 1 + draw(uint64_t{1} << draw(30));
      tuple.duration = Millis(100 + draw(uint64_t{1} << draw(36)));
    }
    const Millis few[] = {Millis(0), Millis(1000), 2 * tuple.duration, Millis(600'000)};
    if (!states.with_margin) {
      tuple.strict_for = few[draw(4)];
      tuple.width = few[draw(4)];
    }
    states.tuples.push_back(std::move(tuple));
  }
  for (operation_ = 1; operation_ <= 40 && difference_.empty(); ++operation_) {
    const size_t at = draw(2);
    const auto duration = static_cast<uint64_t>(states.tuples[at].duration.count());
    const uint64_t kind = draw(20);
    Millis by(0);
    if (kind < 8) by = Millis(draw(20));
    if (kind >= 8 && kind < 12) by = Millis(draw(duration));
    if (kind == 12) by = Millis(draw(5 * duration + 10'000));
    if (kind == 13) by = -Millis(draw(3 * duration));
    if (kind == 14) by = Millis(draw(2000));
    if (kind == 15) by = Millis(duration);
    if (by != Millis(0) && now_ + by > WallTime(kStart.time_since_epoch() / 2)) {
      const auto ended = advance(now_ + by);
      for (const States::Tuple& tuple : states.tuples) {
        const auto found = std::find(ended.begin(), ended.end(), key_prefix(tuple.name) + "x");
        if (found != ended.end()) states.rule.erase(tuple.name);
      }
    }
    const uint64_t incarnation = 1 + draw(3);
    const States::Writer& writer = states.writers[{at, incarnation}];
    const uint64_t repeat = draw(20);
    if (repeat < 3 && writer.last) {
      decide(states, *writer.last, true);
    } else if (repeat == 3 && writer.before) {
      decide(states, *writer.before, true);
    } else {
      decide(states, draw_call(states, at, incarnation), false);
    }
  }
}

// So many writers of one tuple that the origin forgets the oldest. What a writer admitted by itself
// is charged once, while the call that told it is remembered.
void RedisRules::run_writers() {
  constexpr Algorithm kAlgorithms[] = {Algorithm::kGcra, Algorithm::kSlidingWindowStrict,
                                       Algorithm::kSlidingLog};
  States states;
  states.inspects = false;
  std::vector<uint64_t> recent;  // the last ones at the end
  std::map<uint64_t, ExactCall> calls;
  const Algorithm algorithm = kAlgorithms[draw(3)];
  for (operation_ = 1; operation_ <= 140 && difference_.empty(); ++operation_) {
    (void)advance(now_ + Millis(1));
    uint64_t writer = calls.size() + 1;
    if (operation_ > 110 || (one_in(4) && !recent.empty())) {
      const size_t most = std::min<size_t>(recent.size(), kExactWriters - 10);
      writer = recent[recent.size() - 1 - draw(most)];
    }
    const bool is_new = !calls.contains(writer);
    ExactCall& call = calls[writer];
    call.tuple = name_;
    call.algorithm = algorithm;
    call.limit = 100'000;
    call.duration = Millis(3'600'000);
    call.writer = {.incarnation = writer};
    const bool again = !is_new && one_in(2);
    if (!again) {
      ++call.number;
      call.own += 1 + draw(3);
      call.asks = {{.cost = 1, .capacity = 100'000}};
      std::erase(recent, writer);
      recent.push_back(writer);
    }
    decide(states, call, again);
  }
}

void RedisRules::run_bridge() {
  InProcessState rule;
  uint64_t messages = 0;
  const auto holder = [&] { return std::string(1, static_cast<char>('a' + draw(2))); };
  std::string last_saved;
  const auto rule_time = [&] {
    return Instant{.wall = now_, .mono = MonoTime(now_.time_since_epoch())};
  };
  for (operation_ = 1; operation_ <= 40 && difference_.empty(); ++operation_) {
    const DueTuple entry{.tuple = std::to_string(draw(3)),
                         .kind = one_in(3) ? Due::kWindowEnd : Due::kNow,
                         .at = kStart + Millis(draw(1'000'000'000))};
    switch (draw(8)) {
      case 0: {
        const std::string who = holder();
        const Millis lease(1 + draw(2000));
        const auto grant = origin_.acquire(who, lease);
        if (!grant) return differ("acquire failed: " + grant.error().detail);
        const BridgeGrant expected = rule.acquire(who, lease, rule_time());
        const auto text = [](const BridgeGrant& each) {
          return std::to_string(each.ours) + " " + each.state + " " +
                 std::to_string(ms_of(each.now));
        };
        expect_equal("acquire", text(*grant), text(expected));
        break;
      }
      case 1: {
        const std::string who = holder();
        origin_->release(who);
        rule.release(who);
        settle();
        break;
      }
      case 2: {
        const std::string who = holder();
        const std::string state = std::to_string(draw(1000));
        const std::string before = one_in(4) ? std::to_string(draw(3)) : last_saved;
        const auto saved = origin_.save(who, state, before);
        if (!saved) return differ("save failed: " + saved.error().detail);
        const bool expected = rule.save(who, before, state, rule_time().mono);
        if (expected) last_saved = state;
        expect_equal("save", std::to_string(*saved), std::to_string(expected));
        break;
      }
      case 3: (void)advance(now_ + Millis(draw(1500))); break;
      case 4: {
        origin_->notify("x");
        ++messages;
        settle();
        const RedisReply& stored = control_.ask({"GET", "weir:{bridge}:messages"});
        expect_equal("messages", std::string(stored.text), std::to_string(messages));
        break;
      }
      case 5:
      case 6: {
        origin_->add_due({entry});
        rule.due.add(entry);
        break;
      }
      default: {
        const auto entries = origin_.read_due(entry.at, 10);
        if (!entries) return differ("read_due failed: " + entries.error().detail);
        std::vector<DueTuple> expected = rule.due.read({}, entry.at, 10);
        expect_equal("due tuples", text_of(*entries), text_of(expected));
        // Some were added again meanwhile.
        for (DueTuple& each : expected) {
          if (one_in(4)) each.at += Millis(1);
          if (one_in(4)) each.revision = next_revision(each.revision);
          rule.due.remove(each);
        }
        origin_->remove_due(expected);
      }
    }
  }
  const auto entries = origin_.read_due(kStart + Millis(2'000'000'000), 100);
  if (!entries) return differ("read_due failed: " + entries.error().detail);
  expect_equal("due tuples in the end", text_of(*entries),
               text_of(rule.due.read({}, kStart + Millis(2'000'000'000), 100)));
}

TEST_F(RedisRules, AreThoseOfTheScriptsForRandomCalls) {
  for (uint64_t seed = 1; seed <= generated_cases(600); ++seed) {
    for (const Case which : {Case::kCells, Case::kStates, Case::kBridge}) {
      if (which == Case::kBridge && seed % 3 != 0) continue;
      ASSERT_EQ(difference_in(which, seed), "");
    }
    if (seed % 15 == 1) {
      ASSERT_EQ(difference_in(Case::kWriters, seed), "");
    }
  }
}

struct PlantedScriptBug {
  const char* name;
  Case found_by;
  const char* text;
  const char* by;
};

constexpr PlantedScriptBug kScriptBugs[] = {
    {"a step shortens a time to live", Case::kCells, "redis.call('PTTL', KEYS[1]) < ttl", "true"},
    {"a step sets no time to live", Case::kCells, "redis.call('PEXPIRE', KEYS[1], ttl)", ""},
    {"a step ignores the own count of the last window", Case::kCells,
     "math.max(last_mine or 0, numbers[9])", "(last_mine or 0)"},
    {"a step ignores the stored own count of the last window", Case::kCells,
     "math.max(last_mine or 0, numbers[9])", "numbers[9]"},
    {"a step ignores the siblings that the process knows", Case::kCells,
     "math.max(others, numbers[5])", "others"},
    {"a step ignores the siblings of the last window that the process knows", Case::kCells,
     "math.max(last_others, numbers[6])", "last_others"},
    {"a step ignores other regions", Case::kCells, "+ numbers[7]", ""},
    {"a step ignores the last window of other regions", Case::kCells, "+ numbers[8]", ""},
    {"a step rounds up the part of the last window", Case::kCells, "math.floor(second / duration)",
     "math.ceil(second / duration)"},
    {"a step admits one unit less", Case::kCells, "used + numbers[i] <= numbers[i + 1]",
     "used + numbers[i] < numbers[i + 1]"},
    {"a step lowers the component", Case::kCells, "if total > mine or", "if total ~= mine or"},
    {"a step adds to the component", Case::kCells, "local total, granted, refused = own",
     "local total, granted, refused = math.max(own, mine)"},
    {"a step does not mark a refusal", Case::kCells, "if refused then set('refused', '1') end", ""},
    {"a step raises the limit", Case::kCells, "if not limit or seen < limit then", "if true then"},
    {"a step without an admission does not report its limit", Case::kCells,
     "if seen > 0 then\n  local limit", "if seen > 0 and total > 0 then\n  local limit"},
    {"a retired component replaces the departed one", Case::kCells,
     "redis.call('HINCRBY', KEYS[1], 'departed', count)",
     "redis.call('HSET', KEYS[1], 'departed', count)"},
    {"a retired component loses its limit", Case::kCells, "limit < departed", "false"},
    {"the departed count is not restored", Case::kCells,
     "least > 0 and (tonumber(redis.call('HGET', KEYS[1], 'departed')) or 0) < least", "false"},
    {"a write shortens a time to live", Case::kCells,
     "if redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then return 1 end", ""},
    {"a write sets no time to live", Case::kCells, "return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
     "return 1"},
    {"a floor counts the writers that did not write again", Case::kCells,
     "chosen[string.match(name, '^[^.]*')]", "true"},
    {"a floor lowers the departed component", Case::kCells, "missing <= departed", "missing <= 0"},
    {"a floor shortens a time to live", Case::kCells,
     "if missing <= departed then return 0 end\n"
     "redis.call('HSET', KEYS[1], 'departed', string.format('%.0f', missing))\n"
     "if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then",
     "if missing <= departed then return 0 end\n"
     "redis.call('HSET', KEYS[1], 'departed', string.format('%.0f', missing))\n"
     "if true then"},
    {"an update lowers a count", Case::kCells, "math.max(window[2], count)", "count"},
    {"an update raises a limit", Case::kCells, "limit < window[3]", "limit > window[3]"},
    {"an update lowers a lease", Case::kCells, "lease = math.max(lease,",
     "lease = math.min(lease,"},
    {"an update keeps two windows", Case::kCells, "math.min(3, #windows)", "math.min(2, #windows)"},
    {"an update shortens a time to live", Case::kCells, "redis.call('PTTL', key) < ttl", "true"},

    {"a state shortens a time to live", Case::kStates,
     "math.max(ms + now - clock, redis.call('PTTL', key))", "ms + now - clock"},
    {"a state ends early after its clock was set back", Case::kStates, "ms + now - clock", "ms"},
    {"a refusal does not extend the time to live", Case::kStates, "keep(KEYS[1], strict_for)", ""},
    {"a refusal is not marked", Case::kStates, "if refuses then mark_refusal() end", ""},
    {"the charges for other regions end early", Case::kStates,
     "ms = math.max(ms, 2 * width_of_others)", ""},
    {"a log ends early", Case::kStates, "keep(log, duration + 5000)", "keep(log, duration / 2)"},
    {"a ring ends early", Case::kStates, "keep_state(18 * width + 5000)",
     "keep_state(9 * width + 5000)"},
    {"a backlog ends early", Case::kStates, "keep_state(ms - now + 5001)", "keep_state(ms - now)"},
    {"foreign cost beyond a burst is forgotten", Case::kStates,
     "local left = more - math.min(more, numbers[12])\n  more = more - left",
     "local left = 0\n  more = math.min(more, numbers[12])"},
    {"foreign cost is charged again", Case::kStates,
     "if news then redis.call('HSET', KEYS[1], others, news) end", ""},
    {"all foreign cost is charged at first", Case::kStates,
     "if ahead > 1 then more = math.min(numbers[11], more) end", ""},
    {"foreign cost of the last window is charged again", Case::kStates,
     "if ahead == 1 then current, last = 0, current end",
     "if ahead == 1 then current, last = 0, 0 end"},
    {"cost that was told is charged again", Case::kStates, "told = of and tonumber(before) or 0",
     "told = 0"},
    {"cost that was acknowledged is charged", Case::kStates, "own - math.max(acked, told)",
     "own - told"},
    {"a call that is sent again is charged again", Case::kStates,
     "if of and tonumber(of) == number then", "if false then"},
    {"an older call is decided", Case::kStates,
     "if of and tonumber(of) > number then return {2} end", ""},
    {"a clock that was set back is not followed", Case::kStates,
     "local set_back = at > clock + duration", "local set_back = false"},
    {"time runs backwards", Case::kStates, "local now = math.max(clock, at)", "local now = clock"},
    {"a backlog charges beyond its bound", Case::kStates,
     "charged = charged - math.max(0, unreported - math.max(0, room))", ""},
    {"a converted backlog is rounded down", Case::kStates, "multiply_add(waiting, to, from - 1)",
     "multiply_add(waiting, to, 0)"},
    {"a converted backlog always keeps its units", Case::kStates, "if keeps_time > 0 then",
     "if false then"},
    {"a backlog grants a request beyond its burst", Case::kStates,
     "now + numbers[i + 2], numbers[i + 3]", "now + numbers[i + 2] + numbers[i], numbers[i + 3]"},
    {"a ring forgets a sub-cell early", Case::kStates, "of >= sequence - 16",
     "of >= sequence - 15"},
    {"a log forgets a unit late", Case::kStates, "tonumber(found[1]) <= now - duration",
     "tonumber(found[1]) < now - duration"},
    {"a state keeps its version", Case::kStates, "version, at = version + 1, now", "at = now"},

    {"most writers are forgotten", Case::kWriters, "for i = 64, #writers do",
     "for i = 8, #writers do"},
    {"the newest writers are forgotten", Case::kWriters, "return a[1] > b[1] end)\n  for i = 64",
     "return a[1] < b[1] end)\n  for i = 64"},

    {"a lease is taken from its holder", Case::kBridge, "if not holder or holder == ARGV[1] then",
     "if true then"},
    {"anyone ends a lease", Case::kBridge,
     "~= ARGV[1] then return 0 end\nreturn redis.call('DEL', KEYS[1])",
     "~= ARGV[1] then end\nreturn redis.call('DEL', KEYS[1])"},
    {"anyone saves the state", Case::kBridge,
     "~= ARGV[1] then return 0 end\nif (redis.call('GET', KEYS[2])",
     "~= ARGV[1] then end\nif (redis.call('GET', KEYS[2])"},
    {"a state that is not the known one is replaced", Case::kBridge,
     "if (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then return 0 end", ""},
    {"a tuple that is due again has the same score", Case::kBridge, "% 1 + 1 / 1024", "% 1"},
    {"a tuple that is due again is removed", Case::kBridge,
     "tonumber(score) == tonumber(ARGV[i + 1])", "true"},
    {"messages have one number", Case::kBridge, "local number = redis.call('INCR', KEYS[1])",
     "local number = redis.call('SET', KEYS[1], '1') and 1"},
};

TEST_F(RedisRules, FindPlantedBugsInTheScripts) {
  constexpr uint64_t kMostCases = 60;
  for (const PlantedScriptBug& bug : kScriptBugs) {
    ASSERT_GT(plant(bug.text, bug.by), 0u) << "no script has the line of: " << bug.name;
    uint64_t seed = 1;
    std::string found;
    while (seed <= kMostCases && (found = difference_in(bug.found_by, seed)).empty()) ++seed;
    EXPECT_FALSE(found.empty()) << "not found: " << bug.name;
  }
}

}  // namespace
}  // namespace weir::origins
