#include "origins/redis/redis_origin.h"

#include <boost/asio/post.hpp>

#include "origins/redis/redis_worker.h"
#include "platform/entropy.h"

namespace weir::origins {

namespace asio = boost::asio;

RedisOrigin::RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed,
                         RedisTimeouts timeouts, std::string region)
    : worker_(
          std::make_unique<Worker>(clock, std::move(address), seed, timeouts, std::move(region))) {}

RedisOrigin::~RedisOrigin() {
  stop();
}

void RedisOrigin::start() {
  asio::post(worker_->io, [worker = worker_.get()] { worker->start(); });
  worker_->thread.start([worker = worker_.get()] { worker->io.run(); });
}

void RedisOrigin::stop() {
  asio::post(worker_->io, [worker = worker_.get()] { worker->shut_down(); });
  worker_->thread.join();
}

// Runs a call with a reply on the thread of the origin, or rejects it.
template <typename Reply, typename Call>
void RedisOrigin::post(Reply reply, Call call) {
  asio::post(worker_->io, [worker = worker_.get(), reply = std::move(reply),
                           call = std::move(call)]() mutable {
    worker->run_when_started([worker, reply = std::move(reply), call = std::move(call)]() mutable {
      if (worker->check_reachable(reply)) call(*worker, std::move(reply));
    });
  });
}

// The same without a reply. Nobody waits for it, so a call that is not sent does not count as
// failed.
template <typename Call>
void RedisOrigin::post(Call call) {
  asio::post(worker_->io, [worker = worker_.get(), call = std::move(call)] {
    if (worker->reachable()) call(*worker);
  });
}

void RedisOrigin::read(std::vector<CellRead> cells, OriginReply reply) {
  post(std::move(reply), [cells = std::move(cells)](Worker& worker, OriginReply answer) {
    worker.read(cells, std::move(answer));
  });
}

void RedisOrigin::replay(std::vector<CellReplay> cells, OriginReply reply) {
  post(std::move(reply), [cells = std::move(cells)](Worker& worker, OriginReply answer) {
    worker.replay(cells, std::move(answer));
  });
}

void RedisOrigin::step(std::vector<CellStep> steps, StepReply reply) {
  post(std::move(reply), [steps = std::move(steps)](Worker& worker, StepReply answer) mutable {
    worker.step(std::move(steps), std::move(answer));
  });
}

void RedisOrigin::decide(std::vector<ExactCall> calls, ExactReply reply) {
  post(std::move(reply), [calls = std::move(calls)](Worker& worker, ExactReply answer) mutable {
    worker.decide(std::move(calls), std::move(answer));
  });
}

void RedisOrigin::retire(std::vector<CellRetirement> cells, RetirementReply reply) {
  post(std::move(reply), [cells = std::move(cells)](Worker& worker, RetirementReply answer) {
    worker.retire(cells, std::move(answer));
  });
}

void RedisOrigin::acquire(std::string holder, Millis lease, GrantReply reply) {
  post(std::move(reply), [holder = std::move(holder), lease](Worker& worker, GrantReply answer) {
    worker.acquire(holder, lease, std::move(answer));
  });
}

void RedisOrigin::release(std::string holder) {
  post([holder = std::move(holder)](Worker& worker) { worker.release(holder); });
}

void RedisOrigin::save(std::string holder, std::string before, std::string state,
                       SavedReply reply) {
  post(std::move(reply), [holder = std::move(holder), before = std::move(before),
                          state = std::move(state)](Worker& worker, SavedReply answer) {
    worker.save(holder, before, state, std::move(answer));
  });
}

void RedisOrigin::read_due(WallTime from, WallTime by, size_t most, DueReply reply) {
  post(std::move(reply), [from, by, most](Worker& worker, DueReply answer) {
    worker.read_due(from, by, most, std::move(answer));
  });
}

void RedisOrigin::add_due(std::vector<DueTuple> entries) {
  post([entries = std::move(entries)](Worker& worker) { worker.add_due(entries); });
}

void RedisOrigin::remove_due(std::vector<DueTuple> entries) {
  post([entries = std::move(entries)](Worker& worker) { worker.remove_due(entries); });
}

void RedisOrigin::read_tuples(std::vector<TupleRead> tuples, TupleReply reply) {
  post(std::move(reply), [tuples = std::move(tuples)](Worker& worker, TupleReply answer) mutable {
    worker.read_tuples(std::move(tuples), std::move(answer));
  });
}

void RedisOrigin::update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) {
  post(std::move(reply), [updates = std::move(updates)](Worker& worker, TupleReply answer) mutable {
    worker.update_tuples(std::move(updates), std::move(answer));
  });
}

void RedisOrigin::keep_record(std::string record, KeptReply reply) {
  post(std::move(reply), [record = std::move(record)](Worker& worker, KeptReply answer) {
    worker.keep_record(record, std::move(answer));
  });
}

void RedisOrigin::read_records(RecordsReply reply) {
  post(std::move(reply),
       [](Worker& worker, RecordsReply answer) { worker.read_records(std::move(answer)); });
}

void RedisOrigin::notify(std::string body) {
  post([body = std::move(body)](Worker& worker) { worker.notify(body); });
}

Subscription RedisOrigin::subscribe(BridgeMessageHandler handler) {
  Subscription subscription = worker_->subscription.add(std::move(handler));
  asio::post(worker_->io, [worker = worker_.get()] { worker->subscription.update(); });
  return subscription;
}

Reach RedisOrigin::reach() const {
  return worker_->reach.load(std::memory_order_relaxed);
}

uint32_t RedisOrigin::live_nodes() const {
  return worker_->metrics.nodes.load(std::memory_order_relaxed);
}

uint32_t RedisOrigin::rank() const {
  return worker_->rank.load(std::memory_order_relaxed);
}

std::optional<Membership> RedisOrigin::membership() const {
  // Acquire: `since` is not newer than what it belongs to.
  const int64_t heard_at = worker_->heard_at.load(std::memory_order_acquire);
  if (heard_at == 0) return std::nullopt;
  return Membership{.nodes = live_nodes(),
                    .since = MonoTime(Nanos(worker_->heard_since.load(std::memory_order_acquire))),
                    .heard_at = MonoTime(Nanos(heard_at))};
}

uint64_t RedisOrigin::epoch() const {
  return worker_->epoch.load(std::memory_order_relaxed);
}

const telemetry::OriginMetrics& RedisOrigin::metrics() const {
  return worker_->metrics;
}

std::string RedisOrigin::last_error() const {
  const base::MutexLock lock(worker_->mutex);
  return worker_->shown_error;
}

std::string RedisOrigin::write_refusal() const {
  const base::MutexLock lock(worker_->mutex);
  return worker_->shown_refusal;
}

std::shared_ptr<RedisOrigin> make_redis_origin(const Clock& clock, RedisOriginOptions options) {
  const uint64_t seed = options.seed == 0 ? platform::entropy() : options.seed;
  return std::make_shared<RedisOrigin>(clock, std::move(options.address), seed, options.timeouts,
                                       std::move(options.region));
}

}  // namespace weir::origins
