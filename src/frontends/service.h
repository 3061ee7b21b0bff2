// The state that all sessions of a server share: the backend, the keys, the metrics.

#pragma once

#include <atomic>
#include <string>

#include "catalog/catalog.h"
#include "frontends/backend.h"
#include "frontends/http/check_rules.h"
#include "frontends/namespace_consistency.h"
#include "frontends/resp/script_commands.h"
#include "rules/root_keys.h"
#include "telemetry/frontend_metrics.h"
#include "telemetry/ledger_metrics.h"
#include "telemetry/origin_metrics.h"
#include "weir/clock.h"

namespace weir::frontends {

// Whether a client must send a valid key first.
enum class KeyPolicy : uint8_t { kRequired, kNotRequired };

struct Service {
  const Clock& clock;
  Backend& backend;
  const Limiter& limiter;  // for its statistics
  const rules::RootKeys& keys;
  catalog::Catalog& catalog;
  uint64_t (*random)() = nullptr;  // for keys: nobody can predict it
  std::string region;
  std::string node;
  KeyPolicy resp_key_policy = KeyPolicy::kNotRequired;
  KeyPolicy metrics_key_policy = KeyPolicy::kNotRequired;
  uint64_t seed = 0;  // for request ids
  MonoTime started{};
  const telemetry::OriginMetrics* origin = nullptr;  // null: no origin
  const telemetry::LedgerMetrics* ledger = nullptr;  // null: no ledger

  telemetry::FrontendMetrics http{};
  telemetry::FrontendMetrics resp{};
  std::atomic<bool> draining{false};
  NamespaceConsistency namespaces{};
  LiveCheckRules check_rules{};
  ScriptStore scripts{};
};

}  // namespace weir::frontends
