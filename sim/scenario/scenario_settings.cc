// Reads the configuration of all nodes.

#include <array>

#include "sim/scenario/scenario_parts.h"

namespace weir::sim {

FleetSettings read_settings(const YamlValue& all) {
  const YamlMap map(all, {"policy", "unpublished", "slack", "floor", "lease", "publish_every",
                          "import_every", "rows_per_second", "ledger", "on_origin_loss",
                          "read_deadline", "max_freshness", "replay_within", "capacity"});
  FleetSettings settings;
  SyncRules& rules = settings.sync;
  const auto read = [&](std::string_view key, auto& target, const auto& how) {
    if (const auto value = map.find(key)) {
      target = static_cast<std::remove_reference_t<decltype(target)>>(how(*value));
    }
  };
  const auto permille = [](const YamlValue& value) { return value.permille(); };
  const auto whole = [](Range<uint64_t> within) {
    return [within](const YamlValue& value) { return value.whole(within); };
  };
  const auto duration = [](Millis least, Millis most) {
    return [=](const YamlValue& value) { return value.duration({least, most}); };
  };
  const auto choice = [](auto... words) {
    return [=](const YamlValue& value) {
      return value.choice(std::array<std::string_view, sizeof...(words)>{words...});
    };
  };
  // Read first, because it sets the defaults of the others.
  if (const auto policy = map.find("policy"); policy && choice("bounded", "floor")(*policy) == 1) {
    rules = floor_rules();
  }
  read("unpublished", rules.unpublished_permille, permille);
  read("slack", rules.slack_permille, permille);
  read("floor", rules.floor_permille, permille);
  read("publish_every", rules.publish_every, duration(Millis(1), kDay));
  read("import_every", rules.import_every, duration(Millis(1), kDay));
  read("lease", rules.lease, duration(kMinLease, kDay));
  read("rows_per_second", rules.rows_per_second, whole({1, 1'000'000'000}));
  read("ledger", settings.ledger, choice("off", "on"));
  read("on_origin_loss", settings.on_origin_loss, choice("local", "deny", "share"));
  read("read_deadline", settings.read_deadline, duration(Millis(1), Millis(10'000)));
  read("max_freshness", settings.max_freshness, duration(Millis(10), Millis(60'000)));
  read("replay_within", settings.replay_within, duration(Millis(0), Millis(10'000)));
  read("capacity", settings.capacity, whole({64, uint64_t{1} << 28}));
  return settings;
}

}  // namespace weir::sim
