// A connection that speaks HTTP/1.1: which requests there are, and how they are answered.

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/admission.h"
#include "frontends/http/http_parser.h"
#include "frontends/http/limit_body.h"
#include "frontends/service.h"
#include "frontends/session.h"

namespace weir::frontends {

// What the sessions of a loop use in turn: nothing in it but the date and the names of
// requests outlives a take().
struct HttpDesk {
  explicit HttpDesk(uint64_t seed) : names(seed) {}

  LimitBodyReader reader;
  BodyProblems problems;
  std::array<Request, 1> one{};
  std::array<Result<Verdict>, 1> verdict{};
  std::vector<Request> many;
  std::optional<Result<BatchVerdict>> batch{};
  Bytes body;            // of the answer
  Bytes fields;          // of the answer, beyond those every answer has
  uint64_t names;        // state of the generator of request ids
  int64_t date_of = -1;  // the second that `date` is of
  std::string date;
};

// What a client hears that is sent away.
[[nodiscard]] std::string_view http_refusal(Refusal why);

// The key is looked at when the head has arrived. Where the answer does not depend on the body,
// because there is no key, or none is wanted, no byte of the body is kept.
class HttpSession final : public Session {
 public:
  HttpSession(Service& service, HttpDesk& desk) : service_(service), desk_(desk) { allow(false); }

  [[nodiscard]] Next take(Instant now, Bytes& in, Bytes& out) override;
  void drain() override { draining_ = true; }

 private:
  enum class Needs : uint8_t;
  struct Route;
  static const std::array<Route, 5> kRoutes;

  // A decision that waits for a store. The request stays in the buffer meanwhile and is read
  // again when it is there.
  struct Held {
    std::vector<Result<Verdict>> verdicts{};
    std::optional<Result<BatchVerdict>> batch{};
    bool ready = false;
    bool left = false;  // nobody waits on the spot: wake
  };
  [[nodiscard]] bool waits() const { return home_ != nullptr && service_.decider.may_wait(); }
  // False: not decided yet.
  [[nodiscard]] bool decide_one();
  [[nodiscard]] bool decide_many();

  // Whether the request at the front was answered; if not, more of it must arrive, or a
  // decision on it.
  [[nodiscard]] bool take_one(Bytes& in, Bytes& out);
  // The answer to what cannot be read: nothing behind it can be, either.
  void give_up(const HttpFault& fault, Bytes& in, Bytes& out);
  // Answers what the head alone decides; else the route that wants the body.
  [[nodiscard]] const Route* serve_head(const HttpHead& head);
  // Whether its answer is the last: it drains, and so many bytes stand behind the request.
  [[nodiscard]] bool is_last(size_t behind);
  // Sends the answer to a request whose body nobody wants, and leaves that out.
  void send_without_body(const HttpHead& head, Bytes& in, Bytes& out);
  void limit(std::string_view body);
  void multi_limit(std::string_view body);
  void healthz(std::string_view body);
  void readyz(std::string_view body);
  void metrics(std::string_view body);
  [[nodiscard]] bool wants_key(const Route& route) const;
  [[nodiscard]] bool admitted_by_key(const HttpHead& head);
  void refuse_key(telemetry::FrontendStat why, int status, std::string_view detail);
  void refuse_body();
  void fail(int status, std::string_view detail);
  void begin_answer();
  void rate_limit_fields(const Request& request, const Verdict& verdict);
  void send(const HttpHead* head, Bytes& out);

  Service& service_;
  HttpDesk& desk_;
  Instant now_{};
  bool draining_ = false;
  std::optional<MonoTime> drain_began_{};  // the first answer in it
  bool acked_to_continue_ = false;
  ChunkedBody chunks_;
  std::shared_ptr<Held> held_;
  bool waiting_ = false;  // for what is held
  std::string accepted_;  // the Authorization that was right, so that it is hashed once
  size_t skipped_ = 0;    // bytes of a body that nobody wants, still to come

  // The answer under way.
  int status_ = 200;
  std::string_view content_type_;
  bool close_ = false;
  bool wrong_key_ = false;
};

}  // namespace weir::frontends
