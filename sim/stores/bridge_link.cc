#include "sim/stores/bridge_link.h"

namespace weir::sim {

void BridgeLink::note_applied(BridgeStep step) const {
  if (transport_.watcher != nullptr) transport_.watcher->bridge_applied(step);
}

template <typename Answer, typename Apply>
void BridgeLink::call(BridgeStep step, size_t entries, Traffic kind, Apply apply,
                      Reply<Answer> reply) {
  if (transport_.watcher != nullptr) transport_.watcher->bridge_sent(step, entries);
  // The transport copies the call, which may hold thousands of tuples.
  transport_.send<Answer>(
      [this, step,
       shared = std::make_shared<const Apply>(std::move(apply))](const Reply<Answer>& answer) {
        (*shared)(far_end_, answer);
        note_applied(step);
      },
      std::move(reply), kind);
}

template <typename Apply>
void BridgeLink::tell(BridgeStep step, size_t entries, Apply apply) {
  call<bool>(
      step, entries, Traffic::kBridgeWrite,
      [apply = std::move(apply)](BridgeStore& far_end, const Reply<bool>&) { apply(far_end); },
      [](const Result<bool>&) {});
}

void BridgeLink::acquire(std::string holder, Millis lease, GrantReply reply) {
  call<BridgeGrant>(
      BridgeStep::kAcquire, 1, Traffic::kBridgeWrite,
      [holder = std::move(holder), lease](BridgeStore& far_end, const GrantReply& answer) {
        far_end.acquire(holder, lease, answer);
      },
      [this, reply = std::move(reply)](Result<BridgeGrant> grant) {
        if (transport_.watcher != nullptr && grant) transport_.watcher->granted(grant->ours);
        reply(std::move(grant));
      });
}

void BridgeLink::release(std::string holder) {
  tell(BridgeStep::kRelease, 1,
       [holder = std::move(holder)](BridgeStore& far_end) { far_end.release(holder); });
}

void BridgeLink::save(std::string holder, std::string before, std::string state, SavedReply reply) {
  call<bool>(
      BridgeStep::kSave, 1, Traffic::kBridgeWrite,
      [holder = std::move(holder), before = std::move(before), state = std::move(state)](
          BridgeStore& far_end, const SavedReply& answer) {
        far_end.save(holder, before, state, answer);
      },
      std::move(reply));
}

void BridgeLink::read_due(WallTime from, WallTime by, size_t most, DueReply reply) {
  call<std::vector<DueTuple>>(
      BridgeStep::kReadDue, 1, Traffic::kBridgeRead,
      [from, by, most](BridgeStore& far_end, const DueReply& answer) {
        far_end.read_due(from, by, most, answer);
      },
      std::move(reply));
}

void BridgeLink::add_due(std::vector<DueTuple> entries) {
  const size_t count = entries.size();
  tell(BridgeStep::kAddDue, count,
       [entries = std::move(entries)](BridgeStore& far_end) { far_end.add_due(entries); });
}

void BridgeLink::remove_due(std::vector<DueTuple> entries) {
  const size_t count = entries.size();
  tell(BridgeStep::kRemoveDue, count,
       [entries = std::move(entries)](BridgeStore& far_end) { far_end.remove_due(entries); });
}

void BridgeLink::read_tuples(std::vector<TupleRead> tuples, TupleReply reply) {
  const size_t count = tuples.size();
  call<std::vector<TupleCounts>>(
      BridgeStep::kReadTuples, count, Traffic::kBridgeRead,
      [tuples = std::move(tuples)](BridgeStore& far_end, const TupleReply& answer) {
        far_end.read_tuples(tuples, answer);
      },
      std::move(reply));
}

void BridgeLink::update_tuples(std::vector<TupleUpdate> updates, TupleReply reply) {
  const size_t count = updates.size();
  call<std::vector<TupleCounts>>(
      BridgeStep::kUpdateTuples, count, Traffic::kBridgeWrite,
      [updates = std::move(updates)](BridgeStore& far_end, const TupleReply& answer) {
        far_end.update_tuples(updates, answer);
      },
      std::move(reply));
}

void BridgeLink::keep_record(std::string record, KeptReply reply) {
  call<bool>(
      BridgeStep::kKeepRecord, 1, Traffic::kBridgeWrite,
      [record = std::move(record)](BridgeStore& far_end, const KeptReply& answer) {
        far_end.keep_record(record, answer);
      },
      std::move(reply));
}

void BridgeLink::read_records(RecordsReply reply) {
  call<std::vector<std::string>>(
      BridgeStep::kReadRecords, 1, Traffic::kBridgeRead,
      [](BridgeStore& far_end, const RecordsReply& answer) { far_end.read_records(answer); },
      std::move(reply));
}

void BridgeLink::notify(std::string body) {
  tell(BridgeStep::kNotify, 1,
       [body = std::move(body)](BridgeStore& far_end) { far_end.notify(body); });
}

Subscription BridgeLink::subscribe(BridgeMessageHandler handler) {
  struct Near {
    BridgeMessageHandler handler;
    Subscription far = nullptr;
  };
  const auto near = std::make_shared<Near>(Near{.handler = std::move(handler)});
  near->far = far_end_.subscribe([this, weak = std::weak_ptr(near)](BridgeMessage message) {
    transport_.push([this, weak, message = std::move(message)]() mutable {
      if (transport_.watcher != nullptr) transport_.watcher->notified(message);
      if (const auto subscribed = weak.lock()) subscribed->handler(std::move(message));
    });
  });
  return near;
}

}  // namespace weir::sim
