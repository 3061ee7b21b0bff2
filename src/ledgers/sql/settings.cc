#include "ledgers/sql/settings.h"

#include <charconv>

#include "ledgers/rows.h"

namespace weir::ledgers {
namespace {

struct Rule {
  std::string_view name;
  std::string (*text)(const SyncRules&);
  bool (*read)(std::string_view, SyncRules&);
};

std::optional<uint32_t> small_number_in(std::string_view text) {
  const auto value = number_in(text);
  if (!value || *value > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

template <auto kMember>
constexpr Rule number_rule(std::string_view name) {
  return {name, [](const SyncRules& rules) { return std::to_string(rules.*kMember); },
          [](std::string_view text, SyncRules& rules) {
            const auto value = small_number_in(text);
            if (value) rules.*kMember = *value;
            return value.has_value();
          }};
}

template <auto kMember>
constexpr Rule millis_rule(std::string_view name) {
  return {name, [](const SyncRules& rules) { return std::to_string((rules.*kMember).count()); },
          [](std::string_view text, SyncRules& rules) {
            const auto value = small_number_in(text);
            if (value) rules.*kMember = Millis(*value);
            return value.has_value();
          }};
}

constexpr Rule kRules[] = {
    {"policy", [](const SyncRules& rules) { return std::string(to_string(rules.policy)); },
     [](std::string_view text, SyncRules& rules) {
       for (const PublishPolicy policy : {PublishPolicy::kBounded, PublishPolicy::kFloor}) {
         if (text != to_string(policy)) continue;
         rules.policy = policy;
         return true;
       }
       return false;
     }},
    number_rule<&SyncRules::unpublished_permille>("unpublished_permille"),
    number_rule<&SyncRules::slack_permille>("slack_permille"),
    millis_rule<&SyncRules::lease>("lease_ms"),
    millis_rule<&SyncRules::publish_every>("publish_every_ms"),
    millis_rule<&SyncRules::import_every>("import_every_ms"),
    number_rule<&SyncRules::rows_per_second>("rows_per_second"),
    number_rule<&SyncRules::floor_permille>("floor_permille"),
};

}  // namespace

std::vector<Setting> settings_of(const SyncRules& rules) {
  std::vector<Setting> settings;
  for (const Rule& rule : kRules) settings.push_back({rule.name, rule.text(rules)});
  return settings;
}

void read_setting(std::string_view name, std::string_view value, SyncRules& rules) {
  for (const Rule& rule : kRules) {
    if (rule.name != name) continue;
    SyncRules changed = rules;
    if (rule.read(value, changed) && is_valid(changed)) rules = changed;
  }
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace weir::ledgers
