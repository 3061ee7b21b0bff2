#include "frontends/http/http_session.h"

#include <array>
#include <memory>
#include <string>

namespace weir::frontends {

// The tuple that is used up once a request with this idempotency key was admitted: for a minute, in
// all processes of the region.
Request HttpSession::marker(Count cost) const {
  return {.workspace = kServerWorkspace,
          .ns = kIdempotencyNamespace,
          .identifier = marker_,
          .limit = 1,
          .duration = Millis(60'000),
          .cost = cost,
          .algorithm = Algorithm::kSlidingLog,
          .consistency = Consistency::kExact};
}

bool HttpSession::read_marker(std::string_view body) {
  if (charged_before_) return true;
  if (pending_ == nullptr) {
    std::string named(access_.workspace().record.id);
    for (const std::string_view part : {access_.actor(), *idempotency_key_, body}) {
      named += '\0';
      named += part;
    }
    marker_ = rules::to_hex(rules::hash_of(named));
    scratch_.one[0] = marker(0);
    scratch_.resolved.assign(1, {});
  }
  if (!decide_one()) return false;
  const Result<Verdict>& read = scratch_.verdict[0];
  // A degraded answer may know of no charge, or deny all.
  charged_before_ = read && read->basis != Basis::kDegraded && read->remaining == 0;
  return true;
}

void HttpSession::settle_marker(Outcome& outcome, std::span<Verdict> items) {
  if (*charged_before_) {
    outcome = Outcome::kAdmitted;
    for (Verdict& item : items) {
      item.outcome = Outcome::kAdmitted;
      item.retry_after.reset();
    }
    scratch_.fields.append("Idempotency-Replayed: true\r\n");
    return;
  }
  if (outcome != Outcome::kAdmitted) return;
  // Nobody waits for it: it owns what it points to.
  struct Note {
    std::string identifier;
    std::array<Request, 1> request;
    std::array<Result<Verdict>, 1> verdict;
  };
  const auto note = std::make_shared<Note>();
  note->identifier = marker_;
  note->request[0] = marker(1);
  note->request[0].identifier = note->identifier;
  if (may_wait()) {
    (void)service_.backend.check_each_async(now_, note->request, note->verdict, *executor_,
                                            [note] {});
  } else {
    service_.backend.check_each(now_, note->request, note->verdict);
  }
}

}  // namespace weir::frontends
