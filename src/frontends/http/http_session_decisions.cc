#include "frontends/http/http_session.h"

#include <memory>
#include <utility>

namespace weir::frontends {

bool HttpSession::decide_one() {
  if (pending_ != nullptr) {
    recall(*pending_, scratch_.one);
    scratch_.verdict[0] = std::move(std::exchange(pending_, nullptr)->verdicts[0]);
    return true;
  }
  service_.namespaces.apply(scratch_.one);
  if (!may_wait()) {
    service_.backend.check_each(now_, scratch_.one, scratch_.verdict);
    return true;
  }
  auto pending = std::make_shared<Pending>();
  pending->verdicts.resize(1);
  const bool decided = service_.backend.check_each_async(now_, scratch_.one, pending->verdicts,
                                                         *executor_, [pending, wake = wake_] {
                                                           pending->ready = true;
                                                           if (pending->detached) (*wake)();
                                                         });
  if (decided) {
    scratch_.verdict[0] = std::move(pending->verdicts[0]);
  } else {
    pending->detached = true;
    remember(*pending, scratch_.one);
    pending_ = std::move(pending);
    waiting_ = true;
  }
  return decided;
}

bool HttpSession::decide_many() {
  if (pending_ == nullptr) {
    service_.namespaces.apply(scratch_.many);
    if (!may_wait()) {
      scratch_.batch = service_.backend.check_all(now_, scratch_.many);
      return true;
    }
    pending_ = std::make_shared<Pending>();
    remember(*pending_, scratch_.many);
    service_.backend.check_all_async(
        now_, scratch_.many, *executor_,
        [pending = pending_, wake = wake_](Result<BatchVerdict> verdict) {
          pending->batch = std::move(verdict);
          pending->ready = true;
          if (pending->detached) (*wake)();
        });
  }
  if (!pending_->ready) {
    pending_->detached = true;
    waiting_ = true;
    return false;
  }
  recall(*pending_, scratch_.many);
  scratch_.batch = std::move(std::exchange(pending_, nullptr)->batch);
  return true;
}

// What a decision depends on may have changed when it is ready.
void HttpSession::remember(Pending& pending, std::span<const Request> requests) {
  pending.resolved = scratch_.resolved;
  pending.snapshot = scratch_.catalog.pin();
  pending.durations.clear();
  for (const Request& request : requests) pending.durations.push_back(request.duration);
}

void HttpSession::recall(Pending& pending, std::span<Request> requests) {
  scratch_.resolved = std::move(pending.resolved);
  scratch_.pinned = std::move(pending.snapshot);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].duration = pending.durations[i];
}

}  // namespace weir::frontends
