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

// Whether a call without a reply reaches the store.
bool reaches(Fault fault) {
  return fault != Fault::kFail && fault != Fault::kDrop;
}

class FaultyBridgeStore final : public BridgeStore {
 public:
  FaultyBridgeStore(BridgeStore& inner, FaultPlan& plan) : inner_(inner), plan_(plan) {}

  void acquire(std::string holder, Millis lease, GrantReply reply) override {
    pass(plan_.next(), std::move(reply),
         [&](GrantReply done) { inner_.acquire(std::move(holder), lease, std::move(done)); });
  }
  void release(std::string holder) override {
    if (reaches(plan_.next())) inner_.release(std::move(holder));
  }
  void save(std::string holder, std::string before, std::string state, SavedReply reply) override {
    pass(plan_.next(), std::move(reply), [&](SavedReply done) {
      inner_.save(std::move(holder), std::move(before), std::move(state), std::move(done));
    });
  }
  void read_due(WallTime from, WallTime by, size_t most, DueReply reply) override {
    pass(plan_.next(), std::move(reply),
         [&](DueReply done) { inner_.read_due(from, by, most, std::move(done)); });
  }
  void add_due(std::vector<DueTuple> entries) override {
    if (reaches(plan_.next())) inner_.add_due(std::move(entries));
  }
  void remove_due(std::vector<DueTuple> entries) override {
    if (reaches(plan_.next())) inner_.remove_due(std::move(entries));
  }
  void read_tuples(std::vector<TupleRead> tuples, TupleReply reply) override {
    pass(plan_.next(), std::move(reply),
         [&](TupleReply done) { inner_.read_tuples(std::move(tuples), std::move(done)); });
  }
  void update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) override {
    pass(plan_.next(), std::move(reply),
         [&](TupleReply done) { inner_.update_tuples(std::move(updates), std::move(done)); });
  }
  void keep_record(std::string record, KeptReply reply) override {
    pass(plan_.next(), std::move(reply),
         [&](KeptReply done) { inner_.keep_record(std::move(record), std::move(done)); });
  }
  void read_records(RecordsReply reply) override {
    pass(plan_.next(), std::move(reply),
         [&](RecordsReply done) { inner_.read_records(std::move(done)); });
  }
  void notify(std::string body) override {
    if (reaches(plan_.next())) inner_.notify(std::move(body));
  }
  [[nodiscard]] Subscription subscribe(BridgeMessageHandler handler) override {
    return inner_.subscribe([this, handler = std::move(handler)](BridgeMessage message) {
      if (plan_.connected()) handler(std::move(message));
    });
  }

 private:
  BridgeStore& inner_;
  FaultPlan& plan_;
};

std::unique_ptr<BridgeStore> make_faulty(BridgeStore* inner, FaultPlan& plan) {
  if (inner == nullptr) return nullptr;
  return std::make_unique<FaultyBridgeStore>(*inner, plan);
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

FaultyOrigin::FaultyOrigin(std::shared_ptr<RegionalOrigin> inner, uint64_t seed, FaultRates rates)
    : plan(seed, rates),
      inner_(std::move(inner)),
      bridge_store_(make_faulty(inner_->bridge_store(), plan)) {}

FaultyOrigin::~FaultyOrigin() = default;

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

Reach FaultyOrigin::reach() const {
  return plan.connected() ? inner_->reach() : Reach::kNone;
}

void FaultyLedger::publish(std::string region, FeedPosition known, std::vector<LedgerRow> rows,
                           PublishReply reply) {
  pass(plan.next(), std::move(reply), [&](PublishReply done) {
    inner_->publish(std::move(region), known, std::move(rows), std::move(done));
  });
}

void FaultyLedger::read_feeds(std::vector<RegionFeed> after, FeedReply reply) {
  pass(plan.next(), std::move(reply),
       [&](FeedReply done) { inner_->read_feeds(std::move(after), std::move(done)); });
}

void FaultyLedger::read_page(std::string region, LedgerPosition position, PageReply reply) {
  pass(plan.next(), std::move(reply), [&](PageReply done) {
    inner_->read_page(std::move(region), std::move(position), std::move(done));
  });
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
