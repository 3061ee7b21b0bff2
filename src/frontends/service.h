// What every session needs: whom to ask, who may ask, and what to count.

#pragma once

#include <atomic>
#include <string>

#include "frontends/decider.h"
#include "frontends/resp/script_commands.h"
#include "rules/root_keys.h"
#include "telemetry/frontend_metrics.h"
#include "telemetry/ledger_metrics.h"
#include "telemetry/origin_metrics.h"
#include "weir/clock.h"

namespace weir::frontends {

// Whether a client must show a key before it may ask.
enum class Keys : uint8_t { kWanted, kNotWanted };

struct Service {
  const Clock& clock;
  Decider& decider;
  const Limiter& limiter;  // for its totals
  const rules::RootKeys& keys;
  std::string region;
  std::string node;
  Keys resp_keys = Keys::kNotWanted;
  Keys metrics_keys = Keys::kNotWanted;
  uint64_t seed = 0;  // for the names of requests
  MonoTime started{};
  const telemetry::OriginMetrics* origin = nullptr;  // none: there is no origin
  const telemetry::LedgerMetrics* ledger = nullptr;  // none: there is no ledger

  telemetry::FrontendMetrics http{};
  telemetry::FrontendMetrics resp{};
  std::atomic<bool> draining{false};
  ScriptStore scripts{};
};

}  // namespace weir::frontends
