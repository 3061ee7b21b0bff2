#include "origins/redis/redis_origin.h"

#include <boost/asio/post.hpp>

#include "origins/redis/redis_worker.h"
#include "platform/entropy.h"

namespace weir::origins {

namespace asio = boost::asio;

RedisOrigin::RedisOrigin(const Clock& clock, RedisAddress address, uint64_t seed,
                         RedisTimeouts timeouts)
    : worker_(std::make_unique<Worker>(clock, std::move(address), seed, timeouts)) {}

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

void RedisOrigin::read(std::vector<CellRead> cells, OriginReply reply) {
  asio::post(worker_->io, [worker = worker_.get(), cells = std::move(cells),
                           reply = std::move(reply)]() mutable {
    if (worker->check_reachable(reply)) worker->read(cells, std::move(reply));
  });
}

void RedisOrigin::replay(std::vector<CellReplay> cells, OriginReply reply) {
  asio::post(worker_->io, [worker = worker_.get(), cells = std::move(cells),
                           reply = std::move(reply)]() mutable {
    if (worker->check_reachable(reply)) worker->replay(cells, std::move(reply));
  });
}

void RedisOrigin::retire(std::vector<CellRetirement> cells, RetirementReply reply) {
  asio::post(worker_->io, [worker = worker_.get(), cells = std::move(cells),
                           reply = std::move(reply)]() mutable {
    if (worker->check_reachable(reply)) worker->retire(std::move(cells), std::move(reply));
  });
}

void RedisOrigin::note_published(std::vector<CellPublished> cells) {
  asio::post(worker_->io, [worker = worker_.get(), cells = std::move(cells)] {
    // No caller waits for the result, so a call that is not sent does not count as failed.
    if (worker->reachable()) worker->note_published(cells);
  });
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
  return std::make_shared<RedisOrigin>(clock, std::move(options.address), seed);
}

}  // namespace weir::origins
