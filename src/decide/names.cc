// The names of public enumerators, the same in code, configuration, metrics and logs.

#include <array>

#include "weir/request.h"
#include "weir/verdict.h"

namespace weir {
namespace {

constexpr std::array<std::string_view, kAlgorithmCount> kAlgorithms = {
    "sliding_window", "sliding_window_strict", "fixed_window", "sliding_log",
    "gcra",           "token_bucket"};
constexpr std::array<std::string_view, 3> kOutcomes = {"admitted", "denied", "never"};
constexpr std::array<std::string_view, 3> kBases = {"local", "refreshed", "degraded"};
constexpr std::array<std::string_view, 3> kPolicies = {"local", "deny", "share"};
constexpr std::array<std::string_view, 3> kConsistencies = {"converge", "exact", "relaxed"};

template <typename Enum, size_t kCount>
std::optional<Enum> find(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Algorithm algorithm) {
  const auto i = static_cast<size_t>(algorithm);
  return i < kAlgorithms.size() ? kAlgorithms[i] : "unknown";
}

std::optional<Algorithm> algorithm_from(std::string_view name) {
  return find<Algorithm>(kAlgorithms, name);
}

std::string_view to_string(OnOriginLoss policy) {
  return kPolicies[static_cast<size_t>(policy)];
}

std::optional<OnOriginLoss> on_origin_loss_from(std::string_view name) {
  return find<OnOriginLoss>(kPolicies, name);
}

std::string_view to_string(Consistency consistency) {
  return kConsistencies[static_cast<size_t>(consistency)];
}

std::optional<Consistency> consistency_from(std::string_view name) {
  return find<Consistency>(kConsistencies, name);
}

std::string_view to_string(Outcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}
std::string_view to_string(Basis basis) {
  return kBases[static_cast<size_t>(basis)];
}

}  // namespace weir
