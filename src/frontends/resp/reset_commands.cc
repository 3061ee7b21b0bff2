#include "frontends/resp/reset_commands.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "frontends/reset_bound.h"
#include "frontends/resolve.h"
#include "frontends/resp/arguments.h"

namespace weir::frontends {
namespace {

RespError too_long(size_t bytes) {
  return "ERR the identifier has " + std::to_string(bytes) +
         " bytes: a shared count can be reset " + "if it has at most " +
         std::to_string(kMaxResetBytes);
}

RespError too_many_keys() {
  return "ERR more than " + std::to_string(catalog::kMaxResetsAtOnce) +
         " keys with shared counts: send at most " + std::to_string(catalog::kMaxResetsAtOnce) +
         " in a command";
}

}  // namespace

RespError read_reset(Arguments arguments, std::vector<ResetTarget>& targets) {
  if (arguments.size() != 4 && arguments.size() != 6) {
    return wrong_number_of_arguments("weir.reset") +
           ": WEIR.RESET namespace identifier duration_ms [ALGORITHM name]";
  }
  Request& request = targets.emplace_back().request;
  request = {.ns = arguments[1], .identifier = arguments[2], .limit = 1, .cost = 0};
  RespError error = read_name("namespace", request.ns);
  if (error.empty()) error = read_name("identifier", request.identifier);
  int64_t duration = 0;
  if (error.empty()) {
    error = read_number("duration_ms", arguments[3], {kMinDuration.count(), kMaxDuration.count()},
                        duration);
  }
  request.duration = Millis(duration);
  if (!error.empty() || arguments.size() == 4) return error;
  if (!is_word(arguments[4], "ALGORITHM")) {
    return "ERR " + quoted(arguments[4]) + " is not an option: use ALGORITHM";
  }
  return read_algorithm(arguments[5], request);
}

RespError read_del(Arguments arguments, std::vector<ResetTarget>& targets,
                   std::vector<HashedKey>& hashed) {
  if (arguments.size() < 2) {
    return wrong_number_of_arguments(is_word(arguments[0], "DEL") ? "del" : "unlink");
  }
  const Arguments keys = arguments.subspan(1);
  hashed.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    RespError error = read_throttle_key(keys[i], targets.emplace_back().request, hashed[i]);
    if (!error.empty()) return error;
  }
  return {};
}

ResetOutcome reset_counts(Instant now, std::span<const ResetTarget> targets, const Access& access,
                          Service& service) {
  ResetOutcome outcome;
  const catalog::Author author{.actor = access.actor(), .now = now.wall};
  const catalog::WorkspaceView& workspace = access.workspace();
  std::set<std::string> created;  // namespaces that did not exist
  std::map<const catalog::NamespaceView*, size_t> resets;
  size_t shared = 0;
  for (const ResetTarget& target : targets) {
    const Result<bool> reset = service.backend.reset(now, target.request);
    if (reset) {
      outcome.count += *reset ? 1 : 0;
      continue;
    }
    if (reset.error().code != ErrorCode::kShared ||
        service.catalog.state() == catalog::CatalogState::kNone) {
      return {.error = to_resp_error(reset.error())};
    }
    if (service.catalog.state() == catalog::CatalogState::kLoading) {
      return {.error = RespError(kCatalogUnread)};
    }
    if (target.identifier.size() > kMaxResetBytes) {
      return {.error = too_long(target.identifier.size())};
    }
    if (++shared > catalog::kMaxResetsAtOnce) return {.error = too_many_keys()};
    catalog::Namespace ns;
    if (target.ns != nullptr) {
      const std::string refusal = reset_refusal(*target.ns, target.identifier, resets[target.ns]++);
      if (!refusal.empty()) return {.error = "ERR " + refusal};
      ns = target.ns->record;
    } else if (workspace.by_id.size() + created.size() >= catalog::kMaxNamespaces) {
      return {.error = RespError(kTooManyNamespaces)};
    } else {
      // A reset belongs to a namespace that exists.
      ns = catalog::new_namespace(workspace.record.id, target.request.ns, now.wall);
      if (created.insert(ns.id).second) {
        outcome.writes.push_back(catalog::set_namespace(author, ns, "namespace.create"));
        outcome.writes.back().existing = catalog::Existing::kKeep;
      }
    }
    outcome.writes.push_back(
        catalog::reset_identifier(author, ns, target.identifier, service.random()));
    ++outcome.count;
  }
  return outcome;
}

}  // namespace weir::frontends
