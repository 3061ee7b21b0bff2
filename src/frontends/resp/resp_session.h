// A connection that speaks the Redis protocol.
//
// Requests that arrived together are decided together: decisions are gathered until a
// request of another kind, or the end of what arrived, needs their answers written.

#pragma once

#include <array>
#include <string>
#include <vector>

#include "frontends/resp/limit_commands.h"
#include "frontends/resp/resp_parser.h"
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
  std::array<Kind, kGroup> kinds{};
  std::array<Result<Verdict>, kGroup> verdicts{};
  std::vector<Request> batch{};
};

class RespSession final : public Session {
 public:
  RespSession(Service& service, RespDesk& desk, uint64_t id)
      : service_(service), desk_(desk), id_(id) {}

  [[nodiscard]] Next take(Instant now, Bytes& in, Bytes& out) override;

 private:
  [[nodiscard]] Next serve(Arguments arguments, Instant now, Bytes& out);
  [[nodiscard]] bool gather(Arguments arguments, Instant now, Bytes& out);
  void decide(Instant now, Bytes& out);
  void complain(const Complaint& complaint, Bytes& out);
  void multi(Arguments arguments, Instant now, Bytes& out);
  void auth(Arguments arguments, Bytes& out);
  void hello(Arguments arguments, Bytes& out);
  void client(Arguments arguments, Bytes& out);
  void command(Arguments arguments, Bytes& out);
  void config(Arguments arguments, Bytes& out);
  void info(Instant now, Bytes& out);
  [[nodiscard]] RespWriter writer(Bytes& out) const { return RespWriter(out, protocol_); }

  Service& service_;
  RespDesk& desk_;
  const uint64_t id_;
  int protocol_ = 2;
  bool known_ = false;  // has shown a key
  std::string name_;    // as the client calls itself
};

}  // namespace weir::frontends
