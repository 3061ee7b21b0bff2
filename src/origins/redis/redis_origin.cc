#include "origins/redis/redis_origin.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <mutex>
#include <unordered_set>

#include "base/breaker.h"
#include "origins/redis/redis_cells.h"
#include "origins/redis/redis_upkeep.h"
#include "platform/entropy.h"
#include "platform/thread_group.h"

namespace weir::origins {

namespace asio = boost::asio;
using telemetry::OriginCommand;

namespace {

constexpr auto kProbeEvery = std::chrono::milliseconds(100);
// A call that takes as long as any request waits: nobody is to wait for the next one.
constexpr Nanos kSlow = std::chrono::milliseconds(300);
constexpr auto kFarewell = std::chrono::milliseconds(200);
// Nodes say once a second that they live; who was not heard of for three is not counted.
constexpr std::string_view kNodesKey = "weir:nodes";
constexpr Nanos kHeartbeat = std::chrono::seconds(1);
constexpr Millis kAlive{3000};
constexpr uint64_t kBeatsPerRoll = 10;  // all names are asked for, lest places be taken twice
// A cell outlives its last use by this, so that clocks may differ a little.
constexpr Millis kExpiryMargin{5000};
constexpr size_t kMostRemembered = 1 << 20;
constexpr size_t kUpkeepAtOnce = 1000;

Error error_of(OriginError error) {
  return {.code = error == OriginError::kTimeout ? ErrorCode::kTimeout : ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "the origin failed: " + std::string(to_string(error)),
          .fix = "see whether Redis is up and can be reached"};
}

// Whether the server answers reads and refuses every write.
bool is_write_refusal(OriginError error) {
  return error == OriginError::kOutOfMemory || error == OriginError::kReadOnly ||
         error == OriginError::kWritesRefused;
}

// Whether asking less would help. A server that refuses writes answers at once.
bool trips_breaker(OriginError error) {
  return !is_write_refusal(error) && error != OriginError::kNoScript;
}

std::string_view remedy_for_refused_writes(OriginError error) {
  switch (error) {
    case OriginError::kOutOfMemory:
      return "raise maxmemory, or choose a maxmemory-policy that evicts";
    case OriginError::kReadOnly: return "it is a replica: give the address of the master";
    default:
      return "see whether its replicas are connected (min-replicas-to-write) and its disk can be "
             "written to (stop-writes-on-bgsave-error)";
  }
}

// A server that no longer is what it was when we introduced ourselves.
bool needs_another_connection(OriginError error) {
  return error == OriginError::kReadOnly || error == OriginError::kRefused;
}

std::string millis_text(WallTime time) {
  return std::to_string(time.time_since_epoch().count());
}

// The first error that is not about one cell alone.
const RedisReply* first_error(std::span<const RedisReply> replies) {
  for (const RedisReply& each : replies) {
    if (each.type == RedisReply::Type::kError &&
        error_of_reply(each.text) != OriginError::kWrongType) {
      return &each;
    }
  }
  return nullptr;
}

// The answer to TIME: seconds and microseconds.
std::optional<WallTime> server_time(const RedisReply& reply) {
  if (reply.type != RedisReply::Type::kList || reply.items.size() != 2) return std::nullopt;
  int64_t parts[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    const std::string_view text = reply.items[static_cast<size_t>(i)].text;
    if (std::from_chars(text.data(), text.data() + text.size(), parts[i]).ec != std::errc()) {
      return std::nullopt;
    }
  }
  return WallTime(Millis(parts[0] * 1000 + parts[1] / 1000));
}

}  // namespace

struct RedisOrigin::Inside {
  Inside(const Clock& the_clock, RedisAddress address, uint64_t seed)
      : clock(the_clock),
        io(1),
        guard(asio::make_work_guard(io)),
        name(hex(seed)),
        link(io, the_clock, std::move(address), seed,
             [this](OriginError why) {
               metrics.errors.add(why);
               publish();
             }),
        probe(io),
        farewell(io) {}

  // Commands under way, counted by kind.
  struct Pipeline {
    std::string text;
    size_t count = 0;
  };
  void add(Pipeline& pipeline, OriginCommand kind, std::initializer_list<std::string_view> words) {
    append_command(pipeline.text, words);
    ++pipeline.count;
    metrics.commands.add(kind);
  }

  // For how long a cell is kept: a span, since our clock may differ from the server's.
  [[nodiscard]] std::string span_until(WallTime expires_at) const {
    const Millis span = expires_at + kExpiryMargin - clock.now().wall;
    return std::to_string(std::max<int64_t>(1, span.count()));
  }
  void add_expiry(Pipeline& pipeline, std::string_view key, WallTime expires_at) {
    add(pipeline, OriginCommand::kExpire, {"PEXPIRE", key, span_until(expires_at)});
  }

  // One cell's part of a call: which field is ours, and which replies are about it: to the write if
  // there is one, to the expiry if it went along, and last its hash.
  struct Place {
    std::string field = {};
    size_t first = 0;
    size_t last = 0;
    Count acked = 0;
    bool known = false;  // as told, without asking
    bool written = false;
    bool expiry_along = false;  // else the cell is believed to have it; the first reply tells
    std::string key = {};
    WallTime expires_at{};  // if it is known
  };
  struct Call {
    Pipeline pipeline;
    std::vector<Place> places;
    [[nodiscard]] bool writes() const {
      return std::any_of(places.begin(), places.end(), [](const Place& p) { return p.written; });
    }
  };

  // Whether it makes sense to ask.
  [[nodiscard]] bool reachable() const { return breaker.closed() && link.ready(); }
  [[nodiscard]] bool asks(const std::function<void(Error)>& refuse);
  void tell(Pipeline& pipeline, Place& place, OriginCommand kind);
  void send(Call call, OriginReply reply);
  void leave_word(Call call);
  void check_expiries(const Call& call, std::span<const RedisReply> replies);
  void do_upkeep();
  void retire(std::vector<CellRetirement> cells, RetirementReply reply, bool again);
  void note_call(MonoTime began, std::optional<OriginError> failure);
  void note_refusal(OriginError why, std::string_view words);
  void note_written();
  // A server behind another connection may know nothing of what was sent before.
  void remember_connection() {
    const uint64_t connection = link.connection();
    if (connection == remembered_of && expiry_sent.size() < kMostRemembered) return;
    if (connection != remembered_of) script_sent = keep_script_sent = false;
    remembered_of = connection;
    expiry_sent.clear();
  }
  void look_after();
  void beat(Instant now);
  void ask_time(Instant now);
  void hear_time(Instant sent, const RedisReply& reply);
  void hear_beat(Instant sent, std::span<const RedisReply> replies);
  void hear_nodes(std::span<const RedisReply> replies, bool settled);
  void publish();
  void end();
  [[nodiscard]] Result<std::vector<CellTotals>> totals(const Call& call,
                                                       std::span<const RedisReply> replies);

  const Clock& clock;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  const std::string name;
  const std::string script_sha = sha_of_script(kRetireScript);
  const std::string keep_script_sha = sha_of_script(kKeepScript);
  telemetry::OriginMetrics metrics;

  // On the thread of run().
  RedisLink link;
  asio::steady_timer probe, farewell;
  base::Breaker breaker;
  std::unordered_set<std::string> expiry_sent;  // keys
  bool script_sent = false;
  bool keep_script_sent = false;
  uint64_t remembered_of = 0;  // the connection they were sent on
  RedisUpkeep upkeep;
  std::string refusal;  // why it refuses writes, in words; empty: it does not
  MonoTime beat_at{};
  MonoTime acknowledged_at{};  // when the last heartbeat was sent that was
  MonoTime settles_at{};       // from when on a smaller number of nodes is believed
  uint64_t beats = 0;
  bool beaten = false;  // on this connection
  // From our monotonic clock to the server's; none: not asked yet on this connection. So it does
  // not matter what our wall clock says, nor that it is set.
  std::optional<Millis> server_time_ahead;
  uint64_t ready_as = 0;  // the last connection that was ready
  Nanos took{0};          // the last call
  bool ended = false;

  // Single numbers: relaxed.
  std::atomic<uint32_t> rank{0};
  std::atomic<uint64_t> epoch{0};
  std::atomic<Reach> reach{Reach::kNone};
  mutable std::mutex mutex;
  std::string trouble = "not connected yet";  // guarded by mutex
  std::string shown_refusal;                  // guarded by mutex

  platform::ThreadGroup thread;  // last, so that it ends before the members that it uses
};

RedisOrigin::RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed)
    : inside_(std::make_unique<Inside>(clock, std::move(address), seed)) {}

RedisOrigin::~RedisOrigin() {
  stop();
}

void RedisOrigin::start() {
  asio::post(inside_->io, [inside = inside_.get()] {
    inside->link.start();
    inside->look_after();
  });
  inside_->thread.start([inside = inside_.get()] { inside->io.run(); });
}

void RedisOrigin::stop() {
  asio::post(inside_->io, [inside = inside_.get()] {
    if (!inside->link.ready()) return inside->end();
    inside->farewell.expires_after(kFarewell);
    inside->farewell.async_wait([inside](const auto&) { inside->end(); });
    Inside::Pipeline goodbye;
    inside->add(goodbye, OriginCommand::kNodes, {"ZREM", kNodesKey, inside->name});
    inside->link.send(std::move(goodbye.text), goodbye.count, [inside](auto, auto) {
      asio::post(inside->io, [inside] { inside->end(); });
    });
  });
  inside_->thread.join();
}

void RedisOrigin::Inside::end() {
  if (std::exchange(ended, true)) return;
  probe.cancel();
  farewell.cancel();
  link.stop();
  guard.reset();
  io.stop();
}

void RedisOrigin::read(std::vector<CellRead> cells, OriginReply reply) {
  asio::post(inside_->io, [inside = inside_.get(), cells = std::move(cells),
                           reply = std::move(reply)]() mutable {
    if (!inside->asks(reply)) return;
    Inside::Call call;
    for (const CellRead& cell : cells) {
      const size_t at = call.pipeline.count;
      std::string key = redis_key(cell.cell);
      inside->add(call.pipeline, OriginCommand::kRead, {"HGETALL", key});
      call.places.push_back({.field = redis_field(cell.reader),
                             .first = at,
                             .last = at,
                             .key = std::move(key),
                             .expires_at = cell.expires_at});
    }
    inside->send(std::move(call), std::move(reply));
  });
}

void RedisOrigin::replay(std::vector<CellReplay> cells, OriginReply reply) {
  asio::post(inside_->io, [inside = inside_.get(), cells = std::move(cells),
                           reply = std::move(reply)]() mutable {
    if (!inside->asks(reply)) return;
    const WallTime now = inside->clock.now().wall;
    inside->remember_connection();
    Inside::Call call;
    for (const CellReplay& cell : cells) {
      Inside::Place place{
          .field = redis_field(cell.writer), .first = call.pipeline.count, .acked = cell.total};
      // A window that is over needs no telling: as good as told.
      place.known = cell.expires_at <= now;
      if (!place.known) {
        place.key = redis_key(cell.cell);
        place.expires_at = cell.expires_at;
        if (cell.total > 0) inside->tell(call.pipeline, place, OriginCommand::kTell);
        inside->add(call.pipeline, OriginCommand::kRead, {"HGETALL", place.key});
        place.last = call.pipeline.count - 1;
      }
      call.places.push_back(std::move(place));
    }
    inside->send(std::move(call), std::move(reply));
  });
}

// Writes a field. With the first write on a connection the cell's end goes along; later the reply
// tells whether the cell still has it.
void RedisOrigin::Inside::tell(Pipeline& pipeline, Place& place, OriginCommand kind) {
  add(pipeline, kind, {"HSET", place.key, place.field, std::to_string(place.acked)});
  place.written = true;
  place.expiry_along = expiry_sent.insert(place.key).second;
  if (place.expiry_along) add_expiry(pipeline, place.key, place.expires_at);
}

// HSET lets the last word stand, even if it is the lower one: whoever reads it takes it for a hint,
// and at worst publishes again what the ledger has.
void RedisOrigin::note_published(std::vector<CellPublished> cells) {
  asio::post(inside_->io, [inside = inside_.get(), cells = std::move(cells)] {
    // Nobody waits for it, so that it was not sent is no failed call.
    if (!inside->reachable()) return;
    const WallTime now = inside->clock.now().wall;
    inside->remember_connection();
    Inside::Call call;
    for (const CellPublished& word : cells) {
      if (word.expires_at <= now || word.total == 0) continue;
      Inside::Place place{.field = std::string(kPublishedField),
                          .first = call.pipeline.count,
                          .acked = word.total,
                          .key = redis_key(word.cell),
                          .expires_at = word.expires_at};
      inside->tell(call.pipeline, place, OriginCommand::kPublish);
      call.places.push_back(std::move(place));
    }
    if (call.pipeline.count > 0) inside->leave_word(std::move(call));
  });
}

void RedisOrigin::Inside::leave_word(Call call) {
  std::string text = std::move(call.pipeline.text);
  const size_t count = call.pipeline.count;
  link.send(std::move(text), count,
            [this, began = clock.now().mono, call = std::move(call)](
                std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              check_expiries(call, replies);
              for (const RedisReply& each : replies) {
                if (each.type != RedisReply::Type::kError) continue;
                if (error_of_reply(each.text) == OriginError::kWrongType) {
                  metrics.errors.add(OriginError::kWrongType);  // of one cell only
                }
              }
              if (const RedisReply* const error = first_error(replies)) {
                failure = error_of_reply(error->text);
                note_refusal(*failure, error->text);
              }
              note_call(began, failure);
            });
}

void RedisOrigin::retire(std::vector<CellRetirement> cells, RetirementReply reply) {
  asio::post(inside_->io, [inside = inside_.get(), cells = std::move(cells),
                           reply = std::move(reply)]() mutable {
    if (inside->asks(reply)) inside->retire(std::move(cells), std::move(reply), true);
  });
}

void RedisOrigin::Inside::retire(std::vector<CellRetirement> cells, RetirementReply reply,
                                 bool again) {
  Pipeline pipeline;
  remember_connection();
  if (!std::exchange(script_sent, true)) {
    add(pipeline, OriginCommand::kRetire, {"SCRIPT", "LOAD", kRetireScript});
  }
  const size_t first = pipeline.count;
  for (const CellRetirement& cell : cells) {
    add(pipeline, OriginCommand::kRetire,
        {"EVALSHA", script_sha, "1", redis_key(cell.cell), redis_field(cell.writer)});
  }
  const MonoTime began = clock.now().mono;
  const auto take = [this, began, first, again, cells = std::move(cells), reply = std::move(reply)](
                        std::optional<OriginError> failure, std::span<const RedisReply> replies) {
    size_t retired = 0;
    for (size_t i = first; i < replies.size(); ++i) {
      retired += replies[i].type == RedisReply::Type::kInteger && replies[i].integer == 1 ? 1 : 0;
      if (replies[i].type != RedisReply::Type::kError) continue;
      failure = error_of_reply(replies[i].text);
      note_refusal(*failure, replies[i].text);
    }
    note_call(began, failure);
    if (failure == OriginError::kNoScript && again) {
      // Someone flushed the scripts in between.
      script_sent = false;
      return asio::post(io, [this, cells, reply] { retire(cells, reply, false); });
    }
    reply(failure ? Result<size_t>(error_of(*failure)) : Result<size_t>(retired));
  };
  link.send(std::move(pipeline.text), pipeline.count, take);
}

// If it makes no sense to ask, the one who asks is told at once.
bool RedisOrigin::Inside::asks(const std::function<void(Error)>& refuse) {
  if (reachable()) return true;
  const OriginError why = breaker.closed() ? OriginError::kUnreachable : OriginError::kCircuitOpen;
  metrics.errors.add(why);
  refuse(error_of(why));
  return false;
}

void RedisOrigin::Inside::note_call(MonoTime began, std::optional<OriginError> failure) {
  const MonoTime now = clock.now().mono;
  took = now - began;
  breaker.note(now, !failure || !trips_breaker(*failure));
  if (failure) {
    metrics.errors.add(*failure);
  } else {
    metrics.latency.add(now - began);
  }
  // Not from within a reply: the link is in the middle of its list.
  if (failure && needs_another_connection(*failure)) {
    asio::post(io, [this, why = *failure] { link.reconnect(why); });
  }
  publish();
}

void RedisOrigin::Inside::send(Call call, OriginReply reply) {
  if (call.pipeline.count == 0) return reply(totals(call, {}));
  std::string text = std::move(call.pipeline.text);
  const size_t count = call.pipeline.count;
  link.send(std::move(text), count,
            [this, began = clock.now().mono, call = std::move(call), reply = std::move(reply)](
                std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              // Also where one of many writes was refused: the others were not.
              check_expiries(call, replies);
              if (failure) {
                note_call(began, failure);
                return reply(error_of(*failure));
              }
              if (const RedisReply* const wrong = first_error(replies)) {
                const OriginError meaning = error_of_reply(wrong->text);
                note_refusal(meaning, wrong->text);
                note_call(began, meaning);
                Error error = error_of(meaning);
                error.detail = "the origin answered: " + std::string(wrong->text);
                return reply(std::move(error));
              }
              auto received = totals(call, replies);
              if (call.writes()) note_written();
              if (!upkeep.empty()) do_upkeep();
              note_call(began, received ? std::nullopt : std::optional(OriginError::kOther));
              reply(std::move(received));
            });
}

// A write may have made a cell that has no expiry: a field that was new to a cell we had written
// before means that the cell was flushed or evicted, and its expiry with it; or the expiry failed;
// or nothing was answered.
void RedisOrigin::Inside::check_expiries(const Call& call, std::span<const RedisReply> replies) {
  for (const Place& place : call.places) {
    if (!place.written) continue;
    if (!replies.empty()) {
      const RedisReply& write = replies[place.first];
      if (write.type != RedisReply::Type::kInteger) continue;
      const auto sets = [](const RedisReply& reply) {
        return reply.type == RedisReply::Type::kInteger && reply.integer == 1;
      };
      if (place.expiry_along ? sets(replies[place.first + 1]) : !sets(write)) continue;
    }
    upkeep.owe_expiry(place.key, place.expires_at);
  }
  if (!replies.empty() && !upkeep.empty()) do_upkeep();
}

// Sends what cells lack. What fails is owed again, and sent when the server accepts a heartbeat.
void RedisOrigin::Inside::do_upkeep() {
  if (!link.ready()) return;
  remember_connection();
  auto tasks = upkeep.take(kUpkeepAtOnce);
  if (tasks.empty()) return;
  Pipeline pipeline;
  const bool raises =
      std::any_of(tasks.begin(), tasks.end(), [](const auto& task) { return task.departed > 0; });
  if (raises && !std::exchange(keep_script_sent, true)) {
    add(pipeline, OriginCommand::kRetire, {"SCRIPT", "LOAD", kKeepScript});
  }
  const size_t first = pipeline.count;
  for (const RedisUpkeep::Task& task : tasks) {
    if (task.departed == 0) {
      add_expiry(pipeline, task.key, task.expires_at);
    } else {
      add(pipeline, OriginCommand::kRetire,
          {"EVALSHA", keep_script_sha, "1", task.key, std::to_string(task.departed),
           span_until(task.expires_at)});
    }
  }
  link.send(std::move(pipeline.text), pipeline.count,
            [this, first, tasks = std::move(tasks)](std::optional<OriginError> failure,
                                                    std::span<const RedisReply> replies) {
              for (size_t i = 0; i < tasks.size(); ++i) {
                if (!failure && replies[first + i].type != RedisReply::Type::kError) continue;
                if (!failure) {
                  const OriginError why = error_of_reply(replies[first + i].text);
                  metrics.errors.add(why);
                  if (why == OriginError::kNoScript) keep_script_sent = false;
                  if (why == OriginError::kWrongType) continue;  // it is no cell
                }
                upkeep.owe(tasks[i]);
              }
            });
}

Result<std::vector<CellTotals>> RedisOrigin::Inside::totals(const Call& call,
                                                            std::span<const RedisReply> replies) {
  std::vector<CellTotals> all;
  for (const Place& place : call.places) {
    if (place.known) {
      all.push_back({.mine = place.acked});
      continue;
    }
    const RedisReply& reply = replies[place.last];
    if (reply.type == RedisReply::Type::kList) {
      const CellHash hash = read_hash(reply, place.field);
      metrics.invalid.fetch_add(hash.invalid, std::memory_order_relaxed);
      if (place.expires_at != WallTime{}) {
        upkeep.see_departed(place.key, hash.departed, place.expires_at);
      }
      all.push_back(hash.totals);
    } else if (reply.type == RedisReply::Type::kError) {
      // Something else has the cell's name; it cannot be told, and must not keep others waiting.
      metrics.errors.add(OriginError::kWrongType);
      all.push_back({.mine = place.acked});
    } else {
      return error_of(OriginError::kOther);
    }
  }
  return all;
}

// The server's clock, on which all nodes go, since theirs may differ.
void RedisOrigin::Inside::ask_time(Instant now) {
  Pipeline pipeline;
  add(pipeline, OriginCommand::kNodes, {"TIME"});
  link.send(std::move(pipeline.text), pipeline.count,
            [this, now](std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              if (failure) return;
              hear_time(now, replies[0]);
              if (server_time_ahead) beat_at = {};
            });
}

void RedisOrigin::Inside::hear_time(Instant sent, const RedisReply& reply) {
  const Instant now = clock.now();
  took = now.mono - sent.mono;
  const auto theirs = server_time(reply);
  if (!theirs) return;
  const WallTime middle = sent.wall + (now.wall - sent.wall) / 2;
  metrics.clock_ahead.store((*theirs - middle).count(), std::memory_order_relaxed);
  const Nanos ours = (sent.mono + took / 2).time_since_epoch();
  server_time_ahead = theirs->time_since_epoch() - std::chrono::floor<Millis>(ours);
}

// Says that this node lives, and hears how many do, which of them it is, and the time.
void RedisOrigin::Inside::beat(Instant now) {
  if (!link.ready() || !breaker.closed() || now.mono < beat_at) return;
  beat_at = now.mono + kHeartbeat;
  if (!server_time_ahead) return ask_time(now);
  const WallTime at(std::chrono::floor<Millis>(now.mono.time_since_epoch()) + *server_time_ahead);
  Pipeline pipeline;
  const auto ask = [&](std::initializer_list<std::string_view> words) {
    add(pipeline, OriginCommand::kNodes, words);
  };
  const std::string alive = millis_text(at - kAlive);
  ask({"TIME"});
  ask({"ZADD", kNodesKey, millis_text(at), name});
  ask({"ZREMRANGEBYSCORE", kNodesKey, "-inf", millis_text(at - 10 * kAlive)});
  ask({"ZCOUNT", kNodesKey, alive, "+inf"});
  if (beats++ % kBeatsPerRoll == 0) {
    ask({"ZRANGEBYSCORE", kNodesKey, alive, "+inf"});
    upkeep.forget_expired(now.wall);
  }
  link.send(std::move(pipeline.text), pipeline.count,
            [this, now](std::optional<OriginError> failure, std::span<const RedisReply> replies) {
              if (!failure) hear_beat(now, replies);
            });
}

void RedisOrigin::Inside::hear_beat(Instant sent, std::span<const RedisReply> replies) {
  hear_time(sent, replies[0]);
  // Whoever could not say that it lives does not hear who does, either: the others could not say so
  // any better. All go on by what they last knew.
  if (replies[1].type != RedisReply::Type::kInteger) {
    beats = 0;
    const OriginError why = error_of_reply(replies[1].text);
    metrics.errors.add(why);
    note_refusal(why, replies[1].text);
    if (why == OriginError::kReadOnly) {
      asio::post(io, [this, why] { link.reconnect(why); });
    }
    return;
  }
  note_written();
  if (!upkeep.empty()) do_upkeep();
  // It does not know us any more: it was flushed, and has forgotten the rest, too.
  const bool is_new = replies[1].integer == 1;
  if (is_new && beaten) epoch.fetch_add(1, std::memory_order_relaxed);
  beaten = true;
  // After a pause in which nobody was heard of, the others may come a little later than we do.
  const bool paused = is_new || sent.mono - acknowledged_at > 2 * kHeartbeat;
  if (paused) settles_at = sent.mono + kAlive;
  acknowledged_at = sent.mono;
  hear_nodes(replies, sent.mono >= settles_at);
}

void RedisOrigin::Inside::hear_nodes(std::span<const RedisReply> replies, bool settled) {
  if (replies[3].type != RedisReply::Type::kInteger) return;
  const auto count = static_cast<uint32_t>(std::clamp<int64_t>(replies[3].integer, 1, 10'000));
  const uint32_t known = metrics.nodes.load(std::memory_order_relaxed);
  // Who came or went changes the places of the others.
  if (count != known) beats = 0;
  if (!settled && count < known) return;
  metrics.nodes.store(count, std::memory_order_relaxed);
  if (replies.size() < 5 || replies[4].type != RedisReply::Type::kList) return;
  uint32_t before = 0;
  for (const RedisReply& other : replies[4].items) before += other.text < name ? 1 : 0;
  rank.store(before, std::memory_order_relaxed);
}

// The server answers, but what is accepted now cannot be told: for those who decide it is as good
// as lost, until it accepts a write again. Heartbeats find out.
void RedisOrigin::Inside::note_refusal(OriginError why, std::string_view words) {
  if (!is_write_refusal(why)) return;
  if (words.ends_with('.')) words.remove_suffix(1);
  refusal = std::string(words) + "; " + std::string(remedy_for_refused_writes(why));
  publish();
}

void RedisOrigin::Inside::note_written() {
  if (refusal.empty()) return;
  refusal.clear();
  publish();
}

// Says that it lives, and probes while the breaker is open.
void RedisOrigin::Inside::look_after() {
  publish();
  const Instant now = clock.now();
  beat(now);
  if (link.ready() && breaker.probe_due(now.mono)) {
    Pipeline ping;
    add(ping, OriginCommand::kPing, {"PING"});
    link.send(std::move(ping.text), ping.count,
              [this](std::optional<OriginError> failure, std::span<const RedisReply> replies) {
                if (!failure && replies[0].type != RedisReply::Type::kError) breaker.close();
                publish();
              });
  }
  probe.expires_after(kProbeEvery);
  probe.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) look_after();
  });
}

void RedisOrigin::Inside::publish() {
  const bool ready = link.ready();
  if (ready && std::exchange(ready_as, link.connection()) != link.connection()) {
    metrics.connections.fetch_add(1, std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_relaxed);
    beaten = false;
    server_time_ahead.reset();
    // A replica is left once for each heartbeat, not as fast as it can be reached.
    if (refusal.empty()) beat_at = {};
    took = Nanos(0);
  }
  const bool closed = breaker.closed();
  metrics.ready.store(ready, std::memory_order_relaxed);
  metrics.closed.store(closed, std::memory_order_relaxed);
  metrics.writable.store(refusal.empty(), std::memory_order_relaxed);
  const bool slow = std::max(took, link.waiting(clock.now().mono)) >= kSlow;
  reach.store(!ready || !closed  ? Reach::kNone
              : !refusal.empty() ? Reach::kReadOnly
              : slow             ? Reach::kSlow
                                 : Reach::kPrompt,
              std::memory_order_relaxed);
  const std::lock_guard lock(mutex);
  trouble = link.trouble();
  shown_refusal = refusal;
}

Reach RedisOrigin::reach() const {
  return inside_->reach.load(std::memory_order_relaxed);
}

uint32_t RedisOrigin::live_nodes() const {
  return inside_->metrics.nodes.load(std::memory_order_relaxed);
}

uint32_t RedisOrigin::rank() const {
  return inside_->rank.load(std::memory_order_relaxed);
}

uint64_t RedisOrigin::epoch() const {
  return inside_->epoch.load(std::memory_order_relaxed);
}

const telemetry::OriginMetrics& RedisOrigin::metrics() const {
  return inside_->metrics;
}

std::string RedisOrigin::trouble() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->trouble;
}

std::string RedisOrigin::refusal() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->shown_refusal;
}

std::shared_ptr<RedisOrigin> make_redis_origin(const Clock& clock, RedisOriginOptions options) {
  const uint64_t seed = options.seed == 0 ? platform::entropy() : options.seed;
  return std::make_shared<RedisOrigin>(clock, std::move(options.address), seed);
}

}  // namespace weir::origins
