// Clients whose settings change: another algorithm, another duration, or both. Each has a few
// settings, one after another. By each it sends requests to all nodes of a region; then it waits
// until the counts have reached the origin.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "memory/tuple_key.h"
#include "sim/worlds/world.h"

namespace weir::sim {

namespace {

constexpr size_t kStages = 3;
constexpr std::array kAlgorithms{
    Algorithm::kFixedWindow, Algorithm::kSlidingWindow, Algorithm::kSlidingWindowStrict,
    Algorithm::kSlidingLog,  Algorithm::kGcra,          Algorithm::kTokenBucket};
// So long that no window ends while a client is there, with a few exceptions.
constexpr std::array kDurations{Millis(1'800'000), Millis(3'600'000), Millis(7'200'000)};
constexpr Millis kClocksApart{5000};

template <typename T, size_t N>
T pick(Random& random, const std::array<T, N>& choices) {
  return choices[static_cast<size_t>(random.between(0, static_cast<int64_t>(N) - 1))];
}

}  // namespace

// The settings that limit a client.
struct ClientSettings {
  Algorithm algorithm = Algorithm::kSlidingWindow;
  Millis duration{0};
  PastDurations past = {};  // none: the duration was not changed

  void change_duration(WallTime now, Millis to) {
    if (to == duration) return;
    const auto end = past.durations.begin() + static_cast<std::ptrdiff_t>(past.count);
    if (std::find(past.durations.begin(), end, duration) == end) {
      past.durations[past.count++] = duration;
    }
    past.changed = now;
    duration = to;
  }
};

struct World::ChangingClient {
  std::string name;
  int region = 0;
  Count limit = 0;
  Millis pause{0};            // between two settings
  bool side_by_side = false;  // by another algorithm at the same time, from the second settings on
  WallTime came{};
  ClientSettings settings = {};
  std::vector<memory::CellClass> forms = {};  // in which it was counted, in order
  std::vector<std::pair<memory::CellClass, Millis>> counts = {};  // the same with its durations
  std::string all_settings = {};
  Count admitted = 0;
  int waiting = 0;    // requests
  bool exact = true;  // all requests were sent, and answered by what the origin knows

  // A count that exists keeps its own value, so the client uses no form again that it has left.
  void change_algorithm(Random& random) {
    for (;;) {
      settings.algorithm = pick(random, kAlgorithms);
      const memory::CellClass form = memory::class_of(settings.algorithm);
      if (!forms.empty() && forms.back() == form) return;
      if (std::find(forms.begin(), forms.end(), form) != forms.end()) continue;
      return forms.push_back(form);
    }
  }
  [[nodiscard]] Request request() const {
    return {.workspace = "changes",
            .ns = "sim",
            .identifier = name,
            .limit = limit,
            .duration = settings.duration,
            .cost = 1,
            .algorithm = settings.algorithm,
            .past = settings.past.count > 0 ? &settings.past : nullptr};
  }
};

void World::schedule_changing_clients() {
  timeline_.post_in(Millis(random_.between(300, 2500)), [this] {
    if (!active_) return;
    schedule_changing_clients();
    const auto client = std::make_shared<ChangingClient>();
    client->name = "client-" + std::to_string(changing_clients_++);
    client->region = any_region().index;
    client->limit = static_cast<Count>(random_.between(8, 60));
    // Longer than a request waits and a replay takes.
    client->pause = monitor_.guarantees.read_deadline + monitor_.guarantees.acked_within +
                    Millis(random_.between(200, 1500));
    client->side_by_side = random_.one_in(3);
    client->came = timeline_.now().wall;
    client->settings.duration = pick(random_, kDurations);
    use_settings(client, 0);
  });
}

void World::use_settings(const std::shared_ptr<ChangingClient>& client, size_t stage) {
  if (!active_) return;
  if (stage == kStages) return check_changes(*client);
  client->change_algorithm(random_);
  const bool changes_duration = stage > 0 && random_.one_in(2);
  if (changes_duration) {
    client->settings.change_duration(timeline_.now().wall, pick(random_, kDurations));
  }
  const std::pair count(client->forms.back(), client->settings.duration);
  const bool is_new = client->counts.empty() || client->counts.back() != count;
  if (is_new) client->counts.push_back(count);
  // With several regions a window takes over what the region has admitted on the last count only,
  // not what that count had taken over, and of another duration what each process knows of it.
  const bool to_window = client->forms.back() == memory::CellClass::kWindow;
  if (ledger_ && to_window && ((is_new && client->counts.size() > 2) || changes_duration)) {
    client->exact = false;
  }
  client->all_settings += (stage > 0 ? ", " : "") +
                          std::string(to_string(client->settings.algorithm)) + " per " +
                          std::to_string(client->settings.duration.count()) + " ms";
  note(client->name + " uses " + client->all_settings);
  const int64_t requests = random_.between(1, static_cast<int64_t>(client->limit));
  for_each_node([&](Node& node) {
    if (node.region != client->region) return;
    client->exact = client->exact && is_awake(node);
    for (int64_t i = 0; i < requests && is_awake(node); ++i) send_by_settings(node, client, stage);
  });
  timeline_.post_in(client->pause, [this, client, stage] { use_settings(client, stage + 1); });
}

void World::send_by_settings(Node& node, const std::shared_ptr<ChangingClient>& client,
                             size_t stage) {
  ++node.in_flight;
  node.touched = true;
  ++client->waiting;
  const auto answered = [this, &node, client, executor = node.executor,
                         began = node.clock.now().mono](bool admitted, bool degraded) {
    if (!executor->alive()) return;
    monitor_.after_wait(node, began);
    --node.in_flight;
    --client->waiting;
    client->admitted += admitted ? 1 : 0;
    client->exact = client->exact && !degraded;
  };
  const Request request = client->request();
  if (client->side_by_side && stage > 0) {
    // It has two counts from now on.
    client->exact = false;
    Request other = request;
    other.algorithm = pick(random_, kAlgorithms);
    node.engine->check_all_async(
        node.clock.now(), std::vector{request, other}, *node.executor,
        [answered](const Result<BatchVerdict>& verdict) { answered(verdict->admitted(), false); });
    return;
  }
  node.engine->check_async(node.clock.now(), request, *node.executor,
                           [answered](const Result<Verdict>& verdict) {
                             answered(verdict->admitted(), verdict->basis == Basis::kDegraded);
                           });
}

void World::check_changes(const ChangingClient& client) {
  if (options_.faults != FaultMode::kNone || !client.exact || client.waiting > 0) return;
  const WallTime until = timeline_.now().wall + kClocksApart;
  for (const Millis duration : kDurations) {
    const auto window_at = [duration](WallTime time) { return time.time_since_epoch() / duration; };
    if (window_at(client.came - kClocksApart) != window_at(until)) return;
  }
  monitor_.after_changes(client.region, {.client = client.name,
                                         .settings = client.all_settings,
                                         .limit = client.limit,
                                         .admitted = client.admitted});
}

}  // namespace weir::sim
