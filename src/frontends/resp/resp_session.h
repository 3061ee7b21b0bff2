// The session of a Redis protocol connection.
//
// Requests that arrive together are decided together: decisions are gathered until another command,
// or the end of the input, needs their replies.

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/access.h"
#include "frontends/admission.h"
#include "frontends/resolve.h"
#include "frontends/resp/limit_commands.h"
#include "frontends/resp/reset_commands.h"
#include "frontends/resp/resp_parser.h"
#include "frontends/resp/script_commands.h"
#include "frontends/resp/transaction.h"
#include "frontends/service.h"
#include "frontends/session.h"
#include "frontends/wrong_keys.h"

namespace weir::frontends {

// Buffers that all Redis protocol sessions of a loop share. Only the wrong keys outlive a
// call of process().
struct RespScratch {
  enum class Kind : uint8_t { kThrottle, kLimit };
  static constexpr size_t kGroup = 64;

  RespParser parser;
  size_t gathered = 0;
  std::array<Request, kGroup> requests{};
  std::array<HashedKey, kGroup> hashed{};  // keys of requests
  std::array<Kind, kGroup> kinds{};
  std::array<bool, kGroup> denied{};  // by an override with limit 0
  bool any_denied = false;
  Identifiers after_reset;
  CatalogReader catalog;
  WrongKeys wrong_keys;
  std::array<Result<Verdict>, kGroup> verdicts{};
  std::vector<Request> batch{};
  ScriptStore::View scripts{};
};

// The reply to a refused client.
[[nodiscard]] std::string_view resp_refusal(Refusal reason);

class RespSession final : public Session {
 public:
  RespSession(Service& service, RespScratch& scratch, uint64_t id)
      : service_(service), scratch_(scratch), id_(id) {
    set_authenticated(false);
  }

  [[nodiscard]] size_t buffered_bytes() const override { return transaction_.buffered_bytes(); }
  [[nodiscard]] Next process(Instant now, Bytes& in, Bytes& out) override;

 private:
  using Kind = RespScratch::Kind;
  enum class Gathered : uint8_t { kYes, kNo, kInvalid };
  // Decisions that wait for a store.
  struct Pending {
    Instant received{};
    std::vector<Kind> kinds{};
    std::vector<bool> denied{};
    std::vector<Result<Verdict>> verdicts{};
    std::optional<Result<BatchVerdict>> batch{};
    std::optional<RespError> reset{};  // shared counts are being reset; empty: they were
    int64_t reset_count = 0;
    bool ready = false;
    bool detached = false;  // process() has returned: wake
  };

  // Processes the complete requests in `in`, up to EXEC.
  [[nodiscard]] Next process_all(Instant now, Bytes& in, Bytes& out);
  [[nodiscard]] Next serve(Arguments arguments, Instant now, Bytes& out);
  [[nodiscard]] Gathered gather(Arguments arguments);
  [[nodiscard, gnu::noinline]] Gathered gather_rare(Arguments arguments);
  [[nodiscard]] ScriptOwner script_owner() const;
  // Looks the rights of this client up again.
  void refresh_access(Instant now);
  // Finds the limit of the request. An error, or empty.
  [[nodiscard]] RespError resolve_request(catalog::Verb verb, Request& request, Resolved& resolved);
  // Finds the limit of a request that was read without an error, and keeps it for decide().
  [[nodiscard]] Gathered keep(catalog::Verb verb, Kind kind, RespError& error);
  // Whether the key may send another request in this second.
  [[nodiscard]] bool is_within_rate();
  // Takes the rights of a key if it is valid.
  [[nodiscard]] KeyState accept_key(std::string_view key, Instant now);
  [[nodiscard]] bool may_wait() const {
    return executor_ != nullptr && service_.backend.may_wait();
  }
  // False: the decisions are pending.
  [[nodiscard]] bool decide(Instant now, Bytes& out);
  [[nodiscard]] bool reply_pending(Bytes& out);
  void reply(Instant received, std::span<const Kind> kinds,
             std::span<const Result<Verdict>> verdicts, Bytes& out);
  void reply(Instant received, const Result<BatchVerdict>& verdict, Bytes& out);
  void reply_error(std::string_view error, Bytes& out);
  // Replies with the error unless it is empty; then the reply is already written.
  void reply_if_error(const RespError& error, Bytes& out);
  [[nodiscard]] Next multi(Arguments arguments, Instant now, Bytes& out);
  // WEIR.RESET, DEL and UNLINK.
  [[nodiscard]] Next reset(Arguments arguments, Instant now, Bytes& out);
  // Sets also the limits of the buffers.
  void set_authenticated(bool authenticated);
  [[nodiscard]] Next refuse_key(std::string_view key, KeyState state, Instant now, Bytes& out);
  [[nodiscard]] Next auth(Arguments arguments, Instant now, Bytes& out);
  [[nodiscard]] Next hello(Arguments arguments, Instant now, Bytes& out);
  void client(Arguments arguments, Bytes& out);
  [[nodiscard]] bool is_queued(std::string_view command) const;
  void queue(Arguments arguments, std::string_view bytes, Bytes& out);
  void transact(Arguments arguments, Bytes& out);
  void select(Arguments arguments, Bytes& out);
  void config(Arguments arguments, Bytes& out);
  void info(Instant now, Bytes& out);
  [[nodiscard]] RespWriter writer(Bytes& out) const { return RespWriter(out, protocol_); }

  Service& service_;
  RespScratch& scratch_;
  const uint64_t id_;
  int protocol_ = 2;
  bool authenticated_ = false;  // has sent a valid key
  Access access_;               // of that key; before, those of the root key
  KeyState key_state_ = KeyState::kValid;
  Instant now_{};     // of the current call of process()
  std::string name_;  // from CLIENT SETNAME
  RespError error_;   // of the last gathered request
  std::shared_ptr<Pending> pending_;
  Transaction transaction_;
};

}  // namespace weir::frontends
