#include "catalog/catalog_row.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace weir::catalog {
namespace {

// The fields of a body: one line each, "name value".
class Lines {
 public:
  void add(std::string_view name, std::string_view value) {
    text_ += name;
    text_ += ' ';
    text_ += value;
    text_ += '\n';
  }
  void add(std::string_view name, uint64_t value) { add(name, std::to_string(value)); }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Removes the part before the separator, and the separator, from the text.
std::string_view cut(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return part;
}

class Fields {
 public:
  explicit Fields(std::string_view text) {
    while (!text.empty()) {
      std::string_view value = cut(text, '\n');
      const std::string_view name = cut(value, ' ');
      fields_.emplace_back(name, value);
    }
  }
  [[nodiscard]] std::optional<std::string_view> text(std::string_view name) const {
    for (const auto& [field, value] : fields_) {
      if (field == name) return value;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<uint64_t> number(std::string_view name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (error != std::errc() || end != value->data() + value->size()) return std::nullopt;
    return number;
  }
  [[nodiscard]] std::optional<Count> count(std::string_view name, uint64_t least) const {
    const auto value = number(name);
    return value && *value >= least && *value <= kMaxLimit ? value : std::nullopt;
  }
  [[nodiscard]] std::optional<Millis> duration(std::string_view name) const {
    const auto value = number(name);
    if (!value || *value > static_cast<uint64_t>(kMaxDuration.count())) return std::nullopt;
    const Millis duration(static_cast<int64_t>(*value));
    return duration >= kMinDuration ? std::optional(duration) : std::nullopt;
  }
  [[nodiscard]] std::optional<WallTime> time(std::string_view name) const {
    const auto value = number(name);
    if (!value || *value >> 62 != 0) return std::nullopt;
    return WallTime(Millis(static_cast<int64_t>(*value)));
  }

 private:
  std::vector<std::pair<std::string_view, std::string_view>> fields_;  // few
};

uint64_t millis(WallTime time) {
  return static_cast<uint64_t>(std::max<int64_t>(time.time_since_epoch().count(), 0));
}

CatalogRow to_row(const Workspace& workspace) {
  return {.kind = 'w',
          .id = workspace.id,
          .workspace = workspace.id,
          .name = workspace.name,
          .deleted = workspace.deleted};
}

CatalogRow to_row(const Key& key) {
  Lines body;
  body.add("hash", rules::to_hex(key.hash));
  body.add("start", key.start);
  body.add("created", millis(key.created));
  if (key.expires) body.add("expires", millis(*key.expires));
  if (key.per_second) body.add("per_second", *key.per_second);
  std::string permissions;
  for (const std::string& each : key.permissions) {
    permissions += (permissions.empty() ? "" : " ") + each;
  }
  body.add("permissions", permissions);
  return {.kind = 'k',
          .id = key.id,
          .workspace = key.workspace,
          .name = key.name,
          .body = body.take(),
          .deleted = key.revoked};
}

void write_past(WallTime since, const std::vector<PastDuration>& past, Lines& body) {
  if (since != WallTime{}) body.add("since", millis(since));
  if (past.empty()) return;
  std::string text;
  for (const PastDuration& each : past) {
    if (!text.empty()) text += ' ';
    text += std::to_string(each.duration.count());
    text += '@';
    text += std::to_string(millis(each.until));
  }
  body.add("past", text);
}

// Each as "duration@until". What cannot be read is left out.
std::vector<PastDuration> to_past(std::string_view text) {
  std::vector<PastDuration> past;
  while (!text.empty() && past.size() < kMostPast) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view each = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t at = each.find('@');
    if (at == std::string_view::npos) continue;
    std::string one("duration ");
    one += each.substr(0, at);
    one += "\nuntil ";
    one += each.substr(at + 1);
    const Fields fields(one);
    const auto duration = fields.duration("duration");
    const auto until = fields.time("until");
    if (duration && until) past.push_back({.duration = *duration, .until = *until});
  }
  return past;
}

CatalogRow to_row(const Namespace& ns) {
  Lines body;
  body.add("created", millis(ns.created));
  if (ns.values.limit) body.add("limit", *ns.values.limit);
  if (ns.values.duration) {
    body.add("duration", static_cast<uint64_t>(ns.values.duration->count()));
  }
  if (ns.values.algorithm) body.add("algorithm", to_string(*ns.values.algorithm));
  if (ns.values.burst) body.add("burst", *ns.values.burst);
  if (ns.values.consistency) body.add("consistency", to_string(*ns.values.consistency));
  write_past(ns.since, ns.past, body);
  return {.kind = 'n',
          .id = ns.id,
          .workspace = ns.workspace,
          .name = ns.name,
          .body = body.take(),
          .deleted = ns.deleted};
}

CatalogRow to_row(const OverrideRecord& record) {
  const Override& override = record.values;
  Lines body;
  body.add("limit", override.limit);
  body.add("duration", static_cast<uint64_t>(override.duration.count()));
  if (override.burst) body.add("burst", *override.burst);
  write_past(override.since, override.past, body);
  return {.kind = 'o',
          .id = std::string(override.id.text()),
          .workspace = record.workspace,
          .parent = record.namespace_id,
          .name = override.identifier,
          .body = body.take(),
          .deleted = override.deleted};
}

CatalogRow to_row(const Reset& reset) {
  Lines body;
  body.add("epoch", reset.epoch);
  body.add("kept_until", millis(reset.kept_until));
  return {.kind = 'r',
          .id = reset.id,
          .workspace = reset.workspace,
          .parent = reset.namespace_id,
          .name = reset.identifier,
          .body = body.take()};
}

std::optional<Record> to_key(const CatalogRow& row, const Fields& fields) {
  const auto hash = rules::from_hex(fields.text("hash").value_or(""));
  if (!hash) return std::nullopt;
  Key key{.id = row.id,
          .workspace = row.workspace,
          .name = row.name,
          .hash = *hash,
          .start = std::string(fields.text("start").value_or("")),
          .permissions = {},
          .created = fields.time("created").value_or(WallTime{}),
          .expires = fields.time("expires"),
          .per_second = fields.count("per_second", 1),
          .revoked = row.deleted};
  // A key must not outlive an expiry that cannot be read.
  if (fields.text("expires") && !key.expires) return std::nullopt;
  std::string_view left = fields.text("permissions").value_or("");
  while (!left.empty()) {
    const size_t end = std::min(left.find(' '), left.size());
    key.permissions.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return key;
}

std::optional<Record> to_namespace(const CatalogRow& row, const Fields& fields) {
  Namespace ns{.id = row.id,
               .workspace = row.workspace,
               .name = row.name,
               .values = {},
               .created = fields.time("created").value_or(WallTime{}),
               .deleted = row.deleted,
               .since = fields.time("since").value_or(WallTime{}),
               .past = to_past(fields.text("past").value_or(""))};
  ns.values.limit = fields.count("limit", 1);
  ns.values.duration = fields.duration("duration");
  if (const auto name = fields.text("algorithm")) ns.values.algorithm = algorithm_from(*name);
  ns.values.burst = fields.count("burst", 1);
  if (const auto name = fields.text("consistency")) ns.values.consistency = consistency_from(*name);
  return ns;
}

std::optional<Record> to_override(const CatalogRow& row, const Fields& fields) {
  const auto limit = fields.count("limit", 0);
  const auto duration = fields.duration("duration");
  if (!limit || !duration || row.id.size() > OverrideId::kMaxBytes) return std::nullopt;
  return OverrideRecord{.workspace = row.workspace,
                        .namespace_id = row.parent,
                        .values = {.identifier = row.name,
                                   .limit = *limit,
                                   .duration = *duration,
                                   .burst = fields.count("burst", 1),
                                   .id = row.id,
                                   .deleted = row.deleted,
                                   .since = fields.time("since").value_or(WallTime{}),
                                   .past = to_past(fields.text("past").value_or(""))}};
}

std::optional<Record> to_reset(const CatalogRow& row, const Fields& fields) {
  const auto epoch = fields.number("epoch");
  const auto kept_until = fields.time("kept_until");
  if (!epoch || !kept_until) return std::nullopt;
  return Reset{.id = row.id,
               .workspace = row.workspace,
               .namespace_id = row.parent,
               .identifier = row.name,
               .epoch = *epoch,
               .kept_until = *kept_until};
}

// 24 letters and digits from a hash: 120 bits.
std::string short_name(const rules::KeyHash& hash) {
  constexpr std::string_view kLetters = "0123456789abcdefghjkmnpqrstvwxyz";
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; text.size() < 24; ++i) {
    bits = bits << 8 | hash[i];
    for (count += 8; count >= 5 && text.size() < 24; count -= 5) {
      text += kLetters[bits >> (count - 5) & 31];
    }
  }
  return text;
}

std::string derived_id(std::string_view prefix, std::string_view owner, std::string_view name) {
  std::string named(prefix);
  named += std::to_string(owner.size());
  named += ':';
  named += owner;
  named += name;
  return std::string(prefix) + short_name(rules::hash_of(named));
}

}  // namespace

CatalogRow row_of(const Record& record) {
  return std::visit([](const auto& each) { return to_row(each); }, record);
}

std::optional<Record> record_of(const CatalogRow& row) {
  const Fields fields(row.body);
  switch (row.kind) {
    case 'w': return Workspace{.id = row.id, .name = row.name, .deleted = row.deleted};
    case 'k': return to_key(row, fields);
    case 'n': return to_namespace(row, fields);
    case 'o': return to_override(row, fields);
    case 'r': return to_reset(row, fields);
    default: return std::nullopt;
  }
}

std::string namespace_id(std::string_view workspace, std::string_view name) {
  return derived_id("rlns_", workspace, name);
}

std::string override_id(std::string_view namespace_id, std::string_view identifier) {
  return derived_id("rlor_", namespace_id, identifier);
}

std::string reset_id(std::string_view namespace_id, std::string_view identifier) {
  return derived_id("rlrs_", namespace_id, identifier);
}

std::string key_id(const rules::KeyHash& hash) {
  // Not the start of the hash itself, which is what a look-up compares.
  return derived_id("key_", {}, rules::to_hex(hash));
}

std::string workspace_id(uint64_t random) {
  return derived_id("ws_", {}, std::to_string(random));
}

}  // namespace weir::catalog
