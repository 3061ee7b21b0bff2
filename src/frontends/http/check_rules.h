// The rules by which /v1/check turns a request of a gateway into requests to the limiter.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "frontends/client_address.h"
#include "weir/request.h"

namespace weir::frontends {

// A part of the text that identifies a client: a literal, or a value of the original request.
struct IdentifierPart {
  enum class Kind : uint8_t { kText, kAddress, kMethod, kPath, kHost, kHeader };
  Kind kind = Kind::kText;
  std::string text{};  // of a literal, or the name of a header in lower case

  friend bool operator==(const IdentifierPart&, const IdentifierPart&) = default;
};

// Several values need a text between them. In each value the first characters of these texts, and
// %, are percent-encoded, so that different values never result in the same identifier.
struct Identifier {
  std::vector<IdentifierPart> parts{};
  std::string encoded{};  // the characters that are encoded in values; empty: a single value

  friend bool operator==(const Identifier&, const Identifier&) = default;
};

// Parses a text like "{address} {header:x-api-key}". Returns the error, or an empty text.
[[nodiscard]] std::string parse_identifier(std::string_view text, Identifier& identifier);

// A request matches if it has all of it.
struct CheckMatch {
  std::vector<std::string> methods{};  // one of them; empty: any
  std::string path{};                  // in normal form; empty: any
  bool path_is_prefix = false;
  std::string host{};                                          // in lower case; empty: any
  std::vector<std::pair<std::string, std::string>> headers{};  // names and values

  friend bool operator==(const CheckMatch&, const CheckMatch&) = default;
};

struct CheckRule {
  std::string name{};
  CheckMatch match{};
  std::string ns{};
  Identifier identifier{};
  Count limit = 0;
  Millis duration{0};
  Count cost = 1;
  Algorithm algorithm = Algorithm::kSlidingWindow;
  std::optional<Count> burst{};
  std::optional<Consistency> consistency{};
  std::optional<OnOriginLoss> on_origin_loss{};

  // The views point into the rule and the argument.
  [[nodiscard]] Request request(std::string_view client) const {
    return {.ns = ns,
            .identifier = client,
            .limit = limit,
            .duration = duration,
            .cost = cost,
            .algorithm = algorithm,
            .on_origin_loss = on_origin_loss,
            .consistency = consistency,
            .burst = burst};
  }
  friend bool operator==(const CheckRule&, const CheckRule&) = default;
};

// All rules that match are charged in one batch.
inline constexpr size_t kMaxCheckRules = kMaxBatch;

struct CheckRules {
  int denied_status = 429;  // or 403
  ClientAddressRules address{};
  std::vector<CheckRule> rules{};

  friend bool operator==(const CheckRules&, const CheckRules&) = default;
};

// The rules of a running server.
//
// Safe from any thread; replace() from one at a time. They are replaced seldom, so earlier rules
// are kept: a session may still read them.
class LiveCheckRules {
 public:
  LiveCheckRules() { replace({}); }
  void replace(CheckRules rules) {
    if (!all_.empty() && *all_.back() == rules) return;
    all_.push_back(std::make_unique<const CheckRules>(std::move(rules)));
    current_.store(all_.back().get(), std::memory_order_release);
  }
  // Stays valid as long as this object.
  [[nodiscard]] const CheckRules& current() const {
    return *current_.load(std::memory_order_acquire);
  }

 private:
  base::Atomic<const CheckRules*> current_{nullptr};
  std::vector<std::unique_ptr<const CheckRules>> all_;
};

}  // namespace weir::frontends
