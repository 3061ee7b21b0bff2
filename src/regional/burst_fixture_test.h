// A region of processes on one origin, with an adversary that chooses the order of everything:
// which process gets a request, when each message arrives, which one is lost or arrives twice, who
// pauses, joins or dies, and when heartbeats are acknowledged.
//
// The processes are engines as in production; only time and the network are simulated.

#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "decide/engine.h"
#include "origins/in_process_origin.h"
#include "tests/doubles/manual_clock.h"

namespace weir::regional {

struct BurstOptions {
  uint64_t seed = 1;
  uint32_t nodes = 3;
  Count limit = 100;
  Count most_cost = 1;
  Algorithm algorithm = Algorithm::kFixedWindow;
  Millis duration{10'000};
  Consistency consistency = Consistency::kConverge;
  OnOriginLoss on_origin_loss = OnOriginLoss::kDeny;
  uint32_t lost_permille = 0;
  uint32_t repeated_permille = 0;
  uint32_t paused_permille = 0;
  uint32_t joined_permille = 0;
  bool changes_limit = false;  // half of the requests have half the limit
  bool late = false;           // messages may take longer than requests wait
  int actions = 400;
};

class BurstRegion {
 public:
  explicit BurstRegion(const BurstOptions& options) : options_(options), random_(options.seed) {
    for (uint32_t i = 0; i < options.nodes; ++i) join();
  }
  ~BurstRegion() {
    // Requests in flight keep their engines alive.
    clock_.advance(Millis(10'000));
    for (auto& node : nodes_) node->executor.run();
  }
  BurstRegion(const BurstRegion&) = delete;
  BurstRegion& operator=(const BurstRegion&) = delete;

  // Lets all processes hear of each other and read the tuple, so that they have allowances.
  void settle() {
    const Millis step(100);
    for (Millis passed{0}; passed < Millis(8000); passed += step) {
      pass(step);
      deliver_all();
    }
  }

  // The largest share of the limit that was admitted in any window so far, in permille.
  [[nodiscard]] uint64_t worst_permille() const {
    return std::max(worst_permille_, worst_unmerged_permille());
  }
  [[nodiscard]] Count admitted() const { return admitted_; }
  // Calls that requests waited for.
  [[nodiscard]] uint64_t steps() const {
    uint64_t all = 0;
    for (const auto& node : nodes_) {
      const LimiterStats stats = node->engine->stats();
      all += stats.steps.asked - stats.replayed;
    }
    return all;
  }
  [[nodiscard]] Count admitted_in_this_window() const {
    const auto found = windows_.find(window_end());
    return found == windows_.end() ? 0 : found->second;
  }

  // One schedule.
  void run() {
    for (int i = 0; i < options_.actions; ++i) act();
    deliver_all();
  }

  // The same burst on each process, at the same time.
  void burst(int requests) {
    for (int i = 0; i < requests; ++i) {
      for (size_t node = 0; node < nodes_.size(); ++node) send_request(node);
    }
  }
  void deliver_all() {
    while (!network_.empty()) deliver(0);
    for (auto& node : nodes_) node->executor.run();
    if (!network_.empty()) deliver_all();
  }
  void to_next_window() {
    const Millis into =
        Millis(clock_.now().wall.time_since_epoch().count() % options_.duration.count());
    Millis left = options_.duration - into;
    while (left > Millis(0)) {
      const Millis step = std::min(left, Millis(100));
      pass(step);
      deliver_all();
      left -= step;
    }
  }
  void join() {
    auto node = std::make_unique<Node>(*this);
    node->link = std::make_shared<Link>(*this, nodes_.size());
    node->engine = decide::Engine::make(clock_, {.origin = node->link,
                                                 .on_origin_loss = options_.on_origin_loss,
                                                 .consistency = options_.consistency,
                                                 .capacity = 64,
                                                 .seed = base::split_mix(random_) | 1});
    nodes_.push_back(std::move(node));
  }
  // Time passes; processes that are not paused run their background work.
  void pass(Millis time) {
    clock_.advance(time);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = *nodes_[i];
      if (node.paused_until > clock_.now().mono) continue;
      if (clock_.now().mono - node.heartbeat_sent >= Millis(1000)) send_heartbeat(i);
      node.executor.run();
      node.engine->run_replay(clock_.now(), node.executor);
    }
  }
  void pause(size_t node, Millis time) { nodes_[node]->paused_until = clock_.now().mono + time; }

  void send_request(size_t index) {
    Node& node = *nodes_[index];
    if (node.paused_until > clock_.now().mono) return;
    const Count cost = unit() * (1 + below(options_.most_cost));
    const Count limit = options_.changes_limit && below(2) == 0
                            ? std::max<Count>(1, options_.limit / 2)
                            : options_.limit;
    const Request request{.ns = "api",
                          .identifier = "caller",
                          .limit = limit,
                          .duration = options_.duration,
                          .cost = cost,
                          .algorithm = options_.algorithm};
    node.engine->check_async(clock_.now(), request, node.home,
                             [this, cost](const Result<Verdict>& verdict) {
                               if (verdict->admitted()) note_admitted(verdict->reset, cost);
                             });
  }

 private:
  class Link final : public RegionalOrigin, public StepStore, public ExactStore {
   public:
    Link(BurstRegion& region, size_t node) : region_(region), node_(node) {}
    void read(std::vector<CellRead> cells, OriginReply reply) override {
      region_.send(node_, [this, cells, reply](auto answer) {
        region_.origin_.read(cells, [answer, reply](auto totals) {
          answer([reply, value = *totals] { reply(value); });
        });
      });
    }
    void replay(std::vector<CellReplay> cells, OriginReply reply) override {
      region_.send(node_, [this, cells, reply](auto answer) {
        region_.origin_.replay(cells, [answer, reply](auto totals) {
          answer([reply, value = *totals] { reply(value); });
        });
      });
    }
    void step(std::vector<CellStep> steps, StepReply reply) override {
      region_.send(node_, [this, steps, reply](auto answer) {
        region_.origin_.step(steps, [answer, reply](auto totals) {
          answer([reply, value = *totals] { reply(value); });
        });
      });
    }
    void decide(std::vector<ExactCall> calls, ExactReply reply) override {
      region_.send(node_, [this, calls, reply](auto answer) {
        region_.origin_.decide(calls, [this, answer, reply](auto answers) {
          answer([this, reply, value = *answers, decided = region_.clock_.now().mono] {
            region_.decided_ = decided;
            reply(value);
            region_.decided_.reset();
          });
        });
      });
    }
    [[nodiscard]] StepStore* step_store() override { return this; }
    [[nodiscard]] ExactStore* exact_store() override { return this; }
    [[nodiscard]] uint32_t live_nodes() const override {
      return membership_ ? membership_->nodes : 1;
    }
    [[nodiscard]] std::optional<Membership> membership() const override { return membership_; }
    void hear(MonoTime now, uint32_t nodes) {
      const bool paused = !membership_ || now - membership_->heard_at > Millis(2000);
      membership_ = {.nodes = nodes, .since = paused ? now : membership_->since, .heard_at = now};
    }

   private:
    BurstRegion& region_;
    const size_t node_;
    std::optional<Membership> membership_;
  };

  // Tells what a reply of the origin posts when the origin decided it: a process that was paused
  // since then answers later.
  class Home final : public Executor {
   public:
    Home(BurstRegion& region, Executor& executor) : region_(region), executor_(executor) {}
    void post(Task task) override {
      executor_.post([this, task = std::move(task), decided = region_.decided_] {
        const auto before = std::exchange(region_.decided_, decided);
        task();
        region_.decided_ = before;
      });
    }
    void post_at(MonoTime when, Task task) override { executor_.post_at(when, std::move(task)); }

   private:
    BurstRegion& region_;
    Executor& executor_;
  };

  struct Node {
    explicit Node(BurstRegion& region) : executor(region.clock_), home(region, executor) {}
    doubles::ManualExecutor executor;
    Home home;
    std::shared_ptr<Link> link;
    std::shared_ptr<decide::Engine> engine;
    MonoTime heartbeat_sent{};
    std::optional<MonoTime> registered;  // the last heartbeat that the origin has
    MonoTime paused_until{};
  };
  using Answer = std::function<void(std::function<void()>)>;
  struct Message {
    size_t node = 0;
    MonoTime sent{};
    bool reply = false;
    std::function<void()> arrive;
  };

  // A large limit is used up by large costs.
  [[nodiscard]] Count unit() const { return std::max<Count>(1, options_.limit / 200); }
  // So many requests use up the limit, if each of `processes` gets them.
  [[nodiscard]] uint64_t enough(size_t processes) const {
    return 4 + 2 * options_.limit / (unit() * options_.most_cost * processes);
  }
  [[nodiscard]] uint64_t below(uint64_t bound) { return base::split_mix(random_) % bound; }
  [[nodiscard]] bool happens(uint32_t permille) { return below(1000) < permille; }
  [[nodiscard]] WallTime window_end() const {
    return WallTime((clock_.now().wall.time_since_epoch() / options_.duration + 1) *
                    options_.duration);
  }

  void send(size_t node, std::function<void(Answer)> apply) {
    if (happens(options_.lost_permille)) return;
    const int copies = happens(options_.repeated_permille) ? 2 : 1;
    auto answered = std::make_shared<bool>(false);
    for (int copy = 0; copy < copies; ++copy) {
      network_.push_back(
          {node, clock_.now().mono, false, [this, node, apply, answered] {
             apply([this, node, answered](std::function<void()> deliver_reply) {
               if (std::exchange(*answered, true)) return;
               if (happens(options_.lost_permille)) return;
               network_.push_back({node, clock_.now().mono, true, std::move(deliver_reply)});
             });
           }});
    }
  }

  void deliver(size_t index) {
    Message message = std::move(network_[index]);
    network_.erase(network_.begin() + static_cast<std::ptrdiff_t>(index));
    if (message.reply && nodes_[message.node]->paused_until > clock_.now().mono) {
      // Received when the process runs again.
      return nodes_[message.node]->executor.post(std::move(message.arrive));
    }
    message.arrive();
  }

  void send_heartbeat(size_t index) {
    Node& node = *nodes_[index];
    node.heartbeat_sent = clock_.now().mono;
    if (happens(options_.lost_permille)) return;
    node.registered = clock_.now().mono;
    uint32_t alive = 0;
    for (const auto& other : nodes_) {
      if (other->registered && clock_.now().mono - *other->registered <= Millis(3000)) ++alive;
    }
    if (!happens(options_.lost_permille)) node.link->hear(clock_.now().mono, alive);
  }

  void act() {
    const uint64_t choice = below(100);
    if (choice < 10) {
      burst(static_cast<int>(1 + below(enough(nodes_.size()))));
    } else if (choice < 40) {
      const size_t node = below(nodes_.size());
      const uint64_t count = 1 + below(enough(4));
      for (uint64_t i = 0; i < count; ++i) send_request(node);
    } else if (choice < 75) {
      for (uint64_t i = 0, most = 1 + below(4); i < most && !network_.empty(); ++i) {
        deliver(below(network_.size()));
      }
    } else if (choice < 80) {
      const size_t node = below(nodes_.size());
      if (happens(options_.paused_permille)) pause(node, Millis(1 + below(8000)));
    } else if (choice < 82) {
      if (happens(options_.joined_permille) && nodes_.size() < 30) join();
    } else if (choice < 85 && !options_.late) {
      // Everybody is idle for long enough to forget.
      pass(Millis(1 + below(static_cast<uint64_t>(options_.duration.count()) / 4)));
    } else {
      pass(Millis(1 + below(40)));
    }
    // A message arrives before the requests that wait for it give up, unless it is lost.
    const Millis most_delay = options_.late ? Millis(250) : Millis(100);
    for (size_t i = 0; i < network_.size();) {
      if (clock_.now().mono - network_[i].sent < most_delay) {
        ++i;
      } else {
        deliver(i);
      }
    }
    for (auto& node : nodes_) {
      if (node->paused_until <= clock_.now().mono) node->executor.run();
    }
  }

  void note_admitted(WallTime end, Count cost) {
    admitted_ += cost;
    if (memory::class_of(options_.algorithm) != memory::CellClass::kWindow) {
      return note_unmerged(cost);
    }
    windows_[end] += cost;
    Count used = windows_[end];
    if (options_.algorithm == Algorithm::kSlidingWindow) {
      const auto last = windows_.find(end - options_.duration);
      const Millis rest = std::clamp(end - clock_.now().wall, Millis(0), options_.duration);
      if (last != windows_.end()) {
        used += last->second * static_cast<Count>(rest.count()) /
                static_cast<Count>(options_.duration.count());
      }
    }
    worst_permille_ = std::max(worst_permille_, used * 1000 / options_.limit);
  }

  void note_unmerged(Count cost) {
    windows_[window_end()] += cost;
    accepts_.emplace(decided_.value_or(clock_.now().mono), cost);
  }

  // The same of all admissions, each at the time of its decision.
  [[nodiscard]] uint64_t worst_unmerged_permille() const {
    if (memory::class_of(options_.algorithm) == memory::CellClass::kBacklog) {
      return worst_backlog_permille();
    }
    Count used = 0;
    Count worst = 0;
    auto oldest = accepts_.begin();
    for (const auto& [when, cost] : accepts_) {
      used += cost;
      for (; oldest->first <= when - options_.duration; ++oldest) used -= oldest->second;
      worst = std::max(worst, used);
    }
    return worst * 1000 / options_.limit;
  }
  [[nodiscard]] uint64_t worst_backlog_permille() const {
    const auto drained_in = [this](Nanos time) {
      return static_cast<double>(options_.limit) * static_cast<double>(time.count()) /
             static_cast<double>(Nanos(options_.duration).count());
    };
    double waiting = 0;
    double worst = 0;
    MonoTime at{};
    for (const auto& [when, cost] : accepts_) {
      waiting = std::max(0.0, waiting - drained_in(when - at)) + static_cast<double>(cost);
      at = when;
      worst = std::max(worst, waiting);
    }
    return static_cast<uint64_t>(worst * 1000) / options_.limit;
  }

  const BurstOptions options_;
  uint64_t random_;
  doubles::ManualClock clock_;
  origins::InProcessOrigin origin_{clock_};
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Message> network_;
  std::map<WallTime, Count> windows_;       // admitted, by the end of the window
  std::multimap<MonoTime, Count> accepts_;  // of the other algorithms
  std::optional<MonoTime> decided_;         // of the reply that arrives
  Count admitted_ = 0;
  uint64_t worst_permille_ = 0;
};

}  // namespace weir::regional
