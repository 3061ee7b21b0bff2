// The session of an HTTP/1.1 connection: its routes and their responses.
//
// One class in several files, because all of them work on one request and one response: each group
// of functions names its file.

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/access.h"
#include "frontends/http/catalog_api.h"
#include "frontends/http/check_request.h"
#include "frontends/http/http_errors.h"
#include "frontends/http/http_parser.h"
#include "frontends/http/limit_body.h"
#include "frontends/resolve.h"
#include "frontends/service.h"
#include "frontends/session.h"
#include "frontends/wrong_keys.h"

namespace weir::frontends {

// Buffers that all HTTP sessions of a loop share. Only the date, the state of the request ids
// and the wrong keys outlive a call of process().
struct HttpScratch {
  explicit HttpScratch(uint64_t seed) : id_state(seed) {}

  LimitBodyReader reader;
  BodyProblems problems;
  std::array<Request, 1> one{};
  std::array<Result<Verdict>, 1> verdict{};
  std::vector<Request> many;
  std::vector<Resolved> resolved;                   // of the requests
  std::vector<std::string_view> identifiers;        // of the requests, as they were sent
  std::shared_ptr<const catalog::Snapshot> pinned;  // which `resolved` points into after a wait
  Identifiers after_reset;
  CatalogReader catalog;
  WrongKeys wrong_keys;
  CheckRequest check;
  std::optional<Result<BatchVerdict>> batch{};
  Bytes body;                // of the response
  Bytes fields;              // headers beyond those of every response
  uint64_t id_state;         // of the generator of request ids
  int64_t date_second = -1;  // the Unix second of `date`
  std::string date;
};

// The key is checked when the head has arrived. If the response does not depend on the body, the
// body is skipped and not buffered.
class HttpSession final : public Session {
 public:
  HttpSession(Service& service, HttpScratch& scratch) : service_(service), scratch_(scratch) {
    set_buffers(Buffers::kUnauthenticated);
  }

  [[nodiscard]] Next process(Instant now, Bytes& in, Bytes& out) override;
  void drain() override { draining_ = true; }

 private:
  enum class Needs : uint8_t;
  struct Route;
  static const Route kCatalogRoute;
  static const std::array<Route, 7> kRoutes;

  // Requests and routes (http_session.cc): finds the next request, its route and its body; skips
  // bodies that do not matter; ends the connection in a drain. Answers /healthz, /readyz, /metrics
  // and /openapi.json.

  // Processes the first request. False: the request is incomplete, or its decision is pending.
  [[nodiscard]] bool process_one(Bytes& in, Bytes& out);
  // Responds to an invalid request and discards the rest of the input.
  void reject(const HttpFault& fault, Bytes& in, Bytes& out);
  // Responds if the head alone decides; otherwise returns the route that needs the body.
  [[nodiscard]] const Route* serve_head(const HttpHead& head);
  // Responds to a path that is none of Weir's.
  void refuse_path(const HttpHead& head);
  // Whether the response is the last of a drain; `behind`: bytes received behind the request.
  [[nodiscard]] bool is_last(size_t behind);
  // Sends a response that does not depend on the body, and skips the body.
  void send_without_body(const HttpHead& head, Bytes& in, Bytes& out);
  [[nodiscard]] bool requires_key(const Route& route) const;
  void healthz(std::string_view body);
  void readyz(std::string_view body);
  void metrics(std::string_view body);
  void openapi(std::string_view body);

  // Keys (http_session_access.cc): who the client is, and how many requests its key may send.

  // Sets access_. False: the key was refused, and the response is set.
  [[nodiscard]] bool authenticate(const HttpHead& head);
  // Whether the key may send another request in this second. False: the response is set.
  [[nodiscard]] bool is_within_rate();
  void refuse_wrong_key();
  void refuse_key(telemetry::FrontendStat stat, HttpError error, std::string_view detail);

  // Limits (http_session_limits.cc): /v2/ratelimit.limit, peek, multiLimit and /v1/check. Each
  // reads its requests, finds their limits in the catalog, decides, and writes the verdicts.

  void limit(std::string_view body) { limit_or_peek(body, catalog::Verb::kLimit); }
  void peek(std::string_view body) { limit_or_peek(body, catalog::Verb::kPeek); }
  void limit_or_peek(std::string_view body, catalog::Verb verb);
  void multi_limit(std::string_view body);
  // /v1/check: decides by the head alone.
  void check(const HttpHead& head);
  // Finds the limit of each request. False: a request was refused, and the response is set.
  // `forbidden`: the error of a key without the permission.
  [[nodiscard]] bool resolve_all(catalog::Verb verb, std::span<Request> requests,
                                 HttpError forbidden = HttpError::kForbidden);
  void refuse_unresolved(const Resolved& resolved, catalog::Verb verb, const Request& request,
                         std::string_view location, HttpError forbidden);
  // The status of a denial that the client prefers. True: the body is set, too.
  bool apply_preference(Outcome outcome);

  // Decisions (http_session_decisions.cc): asks the backend about scratch_.one or scratch_.many, at
  // once or through a store.

  // A call that waits for a store. The request stays in the buffer and is parsed again when the
  // answer is there.
  struct Pending {
    std::vector<Result<Verdict>> verdicts{};
    std::optional<Result<BatchVerdict>> batch{};
    std::optional<CatalogReply> reply{};
    std::vector<Resolved> resolved{};  // which point into the snapshot
    std::vector<Millis> durations{};   // of the requests that are decided
    std::shared_ptr<const catalog::Snapshot> snapshot{};
    bool ready = false;
    bool detached = false;  // process() has returned: wake
  };
  [[nodiscard]] bool may_wait() const {
    return executor_ != nullptr && service_.backend.may_wait();
  }
  // False: the decision is pending.
  [[nodiscard]] bool decide_one();
  [[nodiscard]] bool decide_many();
  // Keeps what a pending decision depends on, and takes it back.
  void remember(Pending& pending, std::span<const Request> requests);
  void recall(Pending& pending, std::span<Request> requests);

  // Idempotency keys (http_session_idempotency.cc): a request that is repeated under the same key
  // is charged once. A marker, a tuple of its own, is used up by the first admission.

  [[nodiscard]] Request marker(Count cost) const;
  // Sets charged_before_. False: pending. Uses scratch_.one.
  [[nodiscard]] bool read_marker(std::string_view body);
  // After a decision: a repetition is answered as admitted, and the first admission is noted.
  void settle_marker(Outcome& outcome, std::span<Verdict> items);

  // Administration (http_session_catalog.cc): runs an operation of catalog_api.h, and waits until
  // the catalog has written what it changes.

  void catalog_call(std::string_view body);
  void finish(const CatalogReply& reply);

  // Responses (http_session_responses.cc): status, headers and body of successes and errors.

  void begin_response();
  void set_status(HttpError error);
  // An error. The response lists scratch_.problems, if there are any, and clears them.
  void fail(HttpError error, std::string_view detail);
  // The error for the problems of a body.
  void refuse_body();
  // The members that every problem has, by RFC 9457.
  void append_problem(std::string_view space, std::string_view type, std::string_view detail);
  // `head`: of the request; null if it could not be parsed.
  void send(const HttpHead* head, Bytes& out);

  Service& service_;
  HttpScratch& scratch_;
  Instant now_{};
  bool draining_ = false;
  std::optional<MonoTime> drain_began_{};  // first response of the drain
  bool continue_sent_ = false;
  ChunkedBody chunks_;
  std::shared_ptr<Pending> pending_;
  bool waiting_ = false;  // for pending_
  std::string accepted_;  // the last valid Authorization, which is not hashed again
  Access access_;         // of that
  const CatalogOperation* operation_ = nullptr;  // of the current request; null: a route
  size_t to_skip_ = 0;                           // bytes of a body that is ignored
  // Of the current request.
  bool prefers_429_ = false;
  bool accepts_problem_ = false;
  std::optional<std::string_view> idempotency_key_;
  std::string marker_;                       // the identifier of that key
  std::optional<bool> charged_before_;       // under that key; none: not read yet
  const CheckRules* check_rules_ = nullptr;  // of a check that waits

  // The current response.
  int status_ = 200;
  std::string_view reason_;
  std::string_view content_type_;
  bool close_ = false;
  bool delayed_ = false;  // because of a wrong key
};

}  // namespace weir::frontends
