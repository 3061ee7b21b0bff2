#include <utility>

#include "base/split_mix.h"
#include "weir/testing.h"

namespace weir::test {
namespace {

Error unreachable() {
  return {.code = ErrorCode::kUnavailable,
          .retry = Retry::kMayHelp,
          .detail = "the store cannot be reached"};
}

Error timed_out() {
  return {.code = ErrorCode::kTimeout,
          .retry = Retry::kMayHelp,
          .detail = "the store did not answer in time"};
}

// Passes one call on, or not: `ask` calls the store with the reply that it is given.
template <typename Reply, typename Ask>
void pass(Fault fault, Reply reply, const Ask& ask) {
  switch (fault) {
    case Fault::kFail: return reply(unreachable());
    case Fault::kDrop: return;
    case Fault::kNoReply: return ask([](const auto&) {});
    case Fault::kTimeout:
      return ask([reply = std::move(reply)](const auto&) { reply(timed_out()); });
    case Fault::kNone: return ask(std::move(reply));
  }
}

}  // namespace

Fault FaultPlan::next() {
  Fault fault = Fault::kNone;
  if (!connected_) {
    fault = Fault::kFail;
  } else if (!script_.empty()) {
    fault = script_.front();
    script_.pop_front();
  } else {
    uint64_t draw = base::split_mix(state_) % 1000;
    const std::pair<uint32_t, Fault> rates[] = {{rates_.fail, Fault::kFail},
                                                {rates_.timeout, Fault::kTimeout},
                                                {rates_.no_reply, Fault::kNoReply},
                                                {rates_.drop, Fault::kDrop}};
    for (const auto& [rate, drawn] : rates) {
      if (draw < rate) {
        fault = drawn;
        break;
      }
      draw -= rate;
    }
  }
  faults_ += fault == Fault::kNone ? 0 : 1;
  return fault;
}

void FaultyOrigin::read(std::vector<CellRead> cells, OriginReply reply) {
  pass(plan.next(), std::move(reply),
       [&](OriginReply done) { inner_->read(std::move(cells), std::move(done)); });
}

void FaultyOrigin::replay(std::vector<CellReplay> cells, OriginReply reply) {
  pass(plan.next(), std::move(reply),
       [&](OriginReply done) { inner_->replay(std::move(cells), std::move(done)); });
}

void FaultyOrigin::retire(std::vector<CellRetirement> cells, RetirementReply reply) {
  pass(plan.next(), std::move(reply),
       [&](RetirementReply done) { inner_->retire(std::move(cells), std::move(done)); });
}

void FaultyOrigin::note_published(std::vector<CellPublished> cells) {
  if (plan.connected()) inner_->note_published(std::move(cells));
}

Reach FaultyOrigin::reach() const {
  return plan.connected() ? inner_->reach() : Reach::kNone;
}

void FaultyLedger::publish(LedgerNews news, PublishReply reply) {
  pass(plan.next(), std::move(reply),
       [&](PublishReply done) { inner_->publish(std::move(news), std::move(done)); });
}

void FaultyLedger::changes_since(LedgerCursor cursor, ChangesReply reply) {
  pass(plan.next(), std::move(reply),
       [&](ChangesReply done) { inner_->changes_since(cursor, std::move(done)); });
}

void FaultyLedger::read_page(LedgerPosition position, PageReply reply) {
  pass(plan.next(), std::move(reply),
       [&](PageReply done) { inner_->read_page(std::move(position), std::move(done)); });
}

void FaultyLedger::heartbeat(LedgerRegion self, SyncRules rules, FleetReply reply) {
  pass(plan.next(), std::move(reply),
       [&](FleetReply done) { inner_->heartbeat(std::move(self), rules, std::move(done)); });
}

void FaultyLedger::clean(size_t most, CleaningReply reply) {
  pass(plan.next(), std::move(reply),
       [&](CleaningReply done) { inner_->clean(most, std::move(done)); });
}

}  // namespace weir::test
