// A connection that speaks the Redis protocol.
//
// Requests that arrived together are decided together: decisions are gathered until a
// request of another kind, or the end of what arrived, needs their answers written.

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/admission.h"
#include "frontends/resp/limit_commands.h"
#include "frontends/resp/resp_parser.h"
#include "frontends/resp/script_commands.h"
#include "frontends/resp/transaction.h"
#include "frontends/service.h"
#include "frontends/session.h"

namespace weir::frontends {

// What the sessions of a loop use in turn: nothing in it outlives a take().
struct RespDesk {
  enum class Kind : uint8_t { kThrottle, kLimit };
  static constexpr size_t kGroup = 64;

  RespParser parser;
  size_t gathered = 0;
  std::array<Request, kGroup> requests{};
  std::array<HashedKey, kGroup> hashed{};  // keys of requests
  std::array<Kind, kGroup> kinds{};
  std::array<Result<Verdict>, kGroup> verdicts{};
  std::vector<Request> batch{};
  ScriptStore::View scripts{};
};

// What a client hears that is sent away.
[[nodiscard]] std::string_view resp_refusal(Refusal why);

class RespSession final : public Session {
 public:
  RespSession(Service& service, RespDesk& desk, uint64_t id)
      : service_(service), desk_(desk), id_(id) {
    know(false);
  }

  [[nodiscard]] size_t kept_bytes() const override { return transaction_.kept_bytes(); }
  [[nodiscard]] Next take(Instant now, Bytes& in, Bytes& out) override;

 private:
  using Kind = RespDesk::Kind;
  enum class Gathered : uint8_t { kYes, kNo, kWrong };
  // Decisions that wait for a store.
  struct Held {
    Instant asked{};
    std::vector<Kind> kinds{};
    std::vector<Result<Verdict>> verdicts{};
    std::optional<Result<BatchVerdict>> batch{};
    bool ready = false;
    bool left = false;  // nobody waits on the spot: wake
  };

  // Answers what is complete in `in`, until EXEC.
  [[nodiscard]] Next answer_all(Instant now, Bytes& in, Bytes& out);
  [[nodiscard]] Next serve(Arguments arguments, Instant now, Bytes& out);
  [[nodiscard]] Gathered gather(Arguments arguments);
  [[nodiscard]] Gathered gather_script(Arguments arguments);
  [[nodiscard]] bool waits() const { return home_ != nullptr && service_.decider.may_wait(); }
  // False: the answers come later.
  [[nodiscard]] bool decide(Instant now, Bytes& out);
  [[nodiscard]] bool answer_held(Bytes& out);
  void answer(Instant asked, std::span<const Kind> kinds, std::span<const Result<Verdict>> verdicts,
              Bytes& out);
  void answer(Instant asked, const Result<BatchVerdict>& verdict, Bytes& out);
  void complain(const Complaint& complaint, Bytes& out);
  // Nothing to complain of: it is answered.
  void answered(const Complaint& complaint, Bytes& out);
  [[nodiscard]] Next multi(Arguments arguments, Instant now, Bytes& out);
  // Whether it has shown a key; what it may hold follows from that.
  void know(bool known);
  [[nodiscard]] Next refuse_key(Bytes& out);
  [[nodiscard]] Next auth(Arguments arguments, Bytes& out);
  [[nodiscard]] Next hello(Arguments arguments, Bytes& out);
  void client(Arguments arguments, Bytes& out);
  void queue(Arguments arguments, std::string_view bytes, Bytes& out);
  void transact(Arguments arguments, Bytes& out);
  void select(Arguments arguments, Bytes& out);
  void config(Arguments arguments, Bytes& out);
  void info(Instant now, Bytes& out);
  [[nodiscard]] RespWriter writer(Bytes& out) const { return RespWriter(out, protocol_); }

  Service& service_;
  RespDesk& desk_;
  const uint64_t id_;
  int protocol_ = 2;
  bool known_ = false;   // has shown a key
  std::string name_;     // as the client calls itself
  Complaint complaint_;  // about the request that was gathered wrongly
  std::shared_ptr<Held> held_;
  Transaction transaction_;
};

}  // namespace weir::frontends
