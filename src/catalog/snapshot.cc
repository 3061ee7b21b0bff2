#include "catalog/snapshot.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace weir::catalog {

namespace {

// Until when something counts by a deleted override, or by what it was before.
WallTime ended_counts_until(const Override& override) {
  Millis longest = override.duration;
  for (const PastDuration& each : override.past) longest = std::max(longest, each.duration);
  return counts_until(override.since, counts_for(longest, override.limit, override.burst));
}

template <typename Overrides>
std::shared_ptr<const OverrideIndex> index_of(const Overrides& known) {
  if (known.empty()) return nullptr;
  std::vector<std::shared_ptr<const Override>> overrides;
  overrides.reserve(known.size());
  for (const auto& each : known) overrides.push_back(each.values);
  return std::make_shared<OverrideIndex>(std::move(overrides));
}

// The latest of both.
void merge_past(std::vector<PastDuration>& past, const std::vector<PastDuration>& more) {
  past.insert(past.end(), more.begin(), more.end());
  std::ranges::sort(past, std::greater(), &PastDuration::until);
  past.resize(std::min(past.size(), kMostPast));
}

}  // namespace

PriorOverride NamespaceView::before_override(std::string_view identifier) const {
  PriorOverride prior;
  if (overrides) prior.same = overrides->find_exact(identifier);
  if (prior.same == nullptr && overrides) prior.weaker = overrides->find(identifier);
  if (prior.same == nullptr && ended) prior.same = ended->find_exact(identifier);
  return prior;
}

const NamespaceView* WorkspaceView::find(std::string_view name_or_id) const {
  if (name_or_id.starts_with(kNamespaceIds)) {
    if (const auto found = by_id.find(name_or_id); found != by_id.end()) return found->second.get();
  }
  const auto found = by_name.find(name_or_id);
  return found == by_name.end() ? nullptr : found->second.get();
}

size_t KeyTable::HashOfKey::operator()(const rules::KeyHash& hash) const {
  size_t word = 0;
  std::memcpy(&word, hash.data(), sizeof word);
  return word;
}

// The look-up compares in variable time, but only bytes of a hash: they tell nothing of a key.
const KeyView* KeyTable::find(const rules::KeyHash& hash) const {
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? nullptr : found->second;
}

const KeyView* KeyTable::find_by_id(std::string_view id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

std::span<const KeyView* const> KeyTable::of(std::string_view workspace) const {
  const auto found = by_workspace_.find(workspace);
  if (found == by_workspace_.end()) return {};
  return found->second;
}

// In the order of the ids.
void KeyTable::add(const std::shared_ptr<const KeyView>& key) {
  by_hash_[key->record.hash] = key.get();
  by_workspace_[key->record.workspace].push_back(key.get());
  by_id_[key->record.id] = key;
}

const WorkspaceView* Snapshot::find_workspace(std::string_view id) const {
  const auto found = workspaces_.find(id);
  return found == workspaces_.end() ? nullptr : found->second.get();
}

SnapshotBuilder::SnapshotBuilder() {
  clear();
}

void SnapshotBuilder::clear() {
  revision_ = 0;
  revisions_.clear();
  deleted_.clear();
  revoked_.clear();
  override_count_ = 0;
  newest_ = {};
  workspaces_.clear();
  keys_.clear();
  namespaces_.clear();
  changed_.clear();
  last_marked_ = nullptr;
  keys_changed_ = true;
  last_ = nullptr;
  const std::string id(kDefaultWorkspace);
  workspaces_[id] = {.id = id, .name = "default"};
  workspaces_changed_ = {id};
  configure(std::move(configured_));
}

void SnapshotBuilder::take_configuration(SnapshotBuilder& other) {
  file_changes_ = std::move(other.file_changes_);
  configure(std::move(other.configured_));
}

void SnapshotBuilder::configure(ConfiguredNamespaces configured, WallTime now) {
  const std::string workspace(kDefaultWorkspace);
  if (now != WallTime{}) {
    const auto duration_in = [](const ConfiguredNamespaces& all, const std::string& name) {
      const auto found = all.find(name);
      return found == all.end() ? std::nullopt : found->second.duration;
    };
    for (const auto& all : {configured_, configured}) {
      for (const auto& [name, values] : all) {
        const auto before = duration_in(configured_, name);
        const auto after = duration_in(configured, name);
        if (before != after) replace_values(file_changes_[name], before, {.duration = after}, now);
      }
    }
  }
  // Those that were configured before, too: they may not be any more.
  for (const auto& all : {configured_, configured}) {
    for (const auto& [name, values] : all) mark(workspace, namespace_id(workspace, name));
  }
  configured_ = std::move(configured);
  for (const auto& [name, values] : configured_) {
    NamespaceState& state = namespaces_[workspace][namespace_id(workspace, name)];
    if (state.exists) continue;
    state.record.id = namespace_id(workspace, name);
    state.record.workspace = workspace;
    state.record.name = name;
  }
}

void SnapshotBuilder::mark(const std::string& workspace, const std::string& namespace_id) {
  changed_.emplace(workspace, namespace_id);
  workspaces_changed_.insert(workspace);
}

void SnapshotBuilder::apply(const CatalogRow& row) {
  revision_ = std::max(revision_, row.revision);
  if (row.kind == 'o') {
    auto record = record_of(row);
    if (record) apply(std::get<OverrideRecord>(std::move(*record)), row.revision);
    return;
  }
  uint64_t& known = revisions_[row.id];
  if (row.revision < known) return;
  known = row.revision;
  const std::optional<Record> record = record_of(row);
  if (!record) return;
  std::visit(
      [this](const auto& each) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(each)>, OverrideRecord>) {
          apply(each);
        }
      },
      *record);
}

void SnapshotBuilder::apply(const Workspace& workspace) {
  workspaces_changed_.insert(workspace.id);
  workspaces_[workspace.id] = workspace;
}

void SnapshotBuilder::apply(const Key& key) {
  keys_changed_ = true;
  if (key.revoked) {
    keys_.erase(key.id);
    revoked_.try_emplace(key.id);
    return;
  }
  // A permission of a later version is ignored: it gives no right.
  PermissionSet permissions;
  std::vector<std::string> known;
  for (const std::string& text : key.permissions) {
    if (PermissionSet::parse({&text, 1})) known.push_back(text);
  }
  if (auto parsed = PermissionSet::parse(known)) permissions = *parsed;
  keys_[key.id] =
      std::make_shared<KeyView>(KeyView{.record = key, .permissions = std::move(permissions)});
}

void SnapshotBuilder::apply(const Namespace& ns) {
  mark(ns.workspace, ns.id);
  NamespaceState& state = namespaces_[ns.workspace][ns.id];
  state.record = ns;
  state.exists = true;
}

void SnapshotBuilder::apply(OverrideRecord&& record, uint64_t revision) {
  const std::string_view id = record.values.id;
  NamespaceState& state = namespaces_[record.workspace][record.namespace_id];
  const auto known = state.overrides.find(id);
  const auto deleted = deleted_.find(id);
  if (known != state.overrides.end() && revision < known->revision) return;
  if (deleted != deleted_.end() && revision < deleted->second.revision) return;
  // The rows of a namespace often come one after the other.
  if (last_marked_ != &state) mark(record.workspace, record.namespace_id);
  last_marked_ = &state;
  state.overrides_changed = state.ended_changed = true;
  newest_ = std::max(newest_, record.values.since);
  if (known != state.overrides.end()) {
    state.overrides.erase(known);
    --override_count_;
  }
  if (const auto ended = state.ended.find(id); ended != state.ended.end()) state.ended.erase(ended);
  if (record.values.deleted) {
    deleted_.insert_or_assign(std::string(id),
                              Deletion{.at = record.values.since, .revision = revision});
  } else {
    if (deleted != deleted_.end()) deleted_.erase(deleted);
    ++override_count_;
  }
  auto& overrides = record.values.deleted ? state.ended : state.overrides;
  // Not in one allocation with its counter, which would add a cache line to each.
  overrides.insert(
      {std::shared_ptr<const Override>(new Override(std::move(record.values))), revision});
}

void SnapshotBuilder::apply(const Reset& reset) {
  mark(reset.workspace, reset.namespace_id);
  NamespaceState& state = namespaces_[reset.workspace][reset.namespace_id];
  state.resets_changed = true;
  state.resets[reset.id] = reset;
}

bool SnapshotBuilder::forget_expired(WallTime now) {
  // A row that is older than the deletion does not come later than this.
  constexpr Millis kDeletedKept{86'400'000};
  std::erase_if(deleted_, [&](const auto& each) { return now >= each.second.at + kDeletedKept; });
  for (auto& [id, since] : revoked_) {
    if (since == WallTime{}) since = now;  // when it was revoked is not known
  }
  std::erase_if(revoked_, [&](const auto& each) {
    if (now < each.second + kDeletedKept) return false;
    revisions_.erase(each.first);
    return true;
  });
  bool any = false;
  for (auto& [workspace, namespaces] : namespaces_) {
    for (auto& [id, state] : namespaces) {
      if (drop_ended(state, now)) {
        any = state.ended_changed = true;
        mark(workspace, id);
      }
      const size_t removed = std::erase_if(state.resets, [&](const auto& each) {
        if (each.second.kept_until > now) return false;
        revisions_.erase(each.first);
        return true;
      });
      if (removed == 0) continue;
      any = state.resets_changed = true;
      mark(workspace, id);
    }
  }
  return any;
}

// What the catalog says, and for the rest what the file says.
LimitValues SnapshotBuilder::values_of(const Namespace& record) const {
  LimitValues values = record.values;
  if (record.workspace != kDefaultWorkspace) return values;
  const auto found = configured_.find(record.name);
  if (found == configured_.end()) return values;
  const LimitValues& base = found->second;
  // A limit belongs to its duration, and a burst to its algorithm.
  if (!values.limit) {
    values.limit = base.limit;
    values.duration = base.duration;
  }
  if (!values.algorithm) {
    values.algorithm = base.algorithm;
    if (!values.burst) values.burst = base.burst;
  }
  if (!values.consistency) values.consistency = base.consistency;
  return values;
}

bool SnapshotBuilder::drop_ended(NamespaceState& state, WallTime now) {
  constexpr size_t kMostEnded = 10'000;
  constexpr size_t kMostEndedCostly = 200;
  const size_t before = state.ended.size();
  std::erase_if(state.ended,
                [&](const auto& each) { return ended_counts_until(*each.values) < now; });
  const auto keep_newest = [&](size_t most, const auto& of) {
    std::vector<std::pair<WallTime, std::string>> by_time;
    for (const KnownOverride& each : state.ended) {
      if (of(*each.values)) by_time.emplace_back(each.values->since, each.values->id.text());
    }
    if (by_time.size() <= most) return;
    std::ranges::sort(by_time);
    by_time.resize(by_time.size() - most);
    for (const auto& [since, id] : by_time) state.ended.erase(state.ended.find(id));
  };
  keep_newest(kMostEndedCostly, OverrideIndex::is_costly);
  keep_newest(kMostEnded, [](const Override&) { return true; });
  return state.ended.size() != before;
}

std::shared_ptr<const NamespaceView> SnapshotBuilder::view_of(NamespaceState& state,
                                                              const NamespaceView* before) const {
  auto view = std::make_shared<NamespaceView>();
  view->record = state.record;
  view->values = values_of(state.record);
  if (state.record.workspace == kDefaultWorkspace) {
    const auto changes = file_changes_.find(state.record.name);
    if (changes != file_changes_.end()) {
      view->record.since = std::max(view->record.since, changes->second.since);
      merge_past(view->record.past, changes->second.past);
    }
  }
  if (before != nullptr && !state.overrides_changed) {
    view->overrides = before->overrides;
  } else {
    view->overrides = index_of(state.overrides);
  }
  if (before != nullptr && !state.ended_changed) {
    view->ended = before->ended;
    view->ended_until = before->ended_until;
  } else {
    (void)drop_ended(state, newest_);
    view->ended = index_of(state.ended);
    for (const KnownOverride& each : state.ended) {
      view->ended_until = std::max(view->ended_until, ended_counts_until(*each.values));
    }
  }
  if (before != nullptr && !state.resets_changed) {
    view->resets = before->resets;
  } else if (!state.resets.empty()) {
    auto resets = std::make_shared<TextMap<Reset>>();
    for (const auto& [id, reset] : state.resets) resets->emplace(reset.identifier, reset);
    view->resets = std::move(resets);
  }
  state.overrides_changed = state.ended_changed = state.resets_changed = false;
  view->is_plain = !view->record.deleted && view->record.since == WallTime{} &&
                   view->values.empty() && view->overrides == nullptr && view->resets == nullptr &&
                   view->ended == nullptr;
  return view;
}

std::shared_ptr<const Snapshot> SnapshotBuilder::build() {
  auto next = last_ ? std::make_shared<Snapshot>(*last_) : std::make_shared<Snapshot>();
  next->revision_ = revision_;
  if (keys_changed_) {
    auto keys = std::make_shared<KeyTable>();
    for (const auto& [id, key] : keys_) keys->add(key);
    next->keys_ = std::move(keys);
  }
  for (const std::string& id : workspaces_changed_) {
    const auto record = workspaces_.find(id);
    if (record == workspaces_.end() || record->second.deleted) {
      next->workspaces_.erase(id);
      continue;
    }
    const auto before = next->workspaces_.find(id);
    auto view = before == next->workspaces_.end()
                    ? std::make_shared<WorkspaceView>()
                    : std::make_shared<WorkspaceView>(*before->second);
    view->record = record->second;
    auto& namespaces = namespaces_[id];
    const auto count_in = [](const NamespaceView& ns) {
      return ns.overrides == nullptr ? 0 : ns.overrides->all().size();
    };
    const auto refresh = [&](NamespaceState& state, const std::string& namespace_id) {
      const auto old = view->by_id.find(namespace_id);
      if (old != view->by_id.end()) view->override_count -= count_in(*old->second);
      const bool listed = state.exists || configured_.contains(state.record.name);
      if (old != view->by_id.end() && !listed) {
        view->by_name.erase(old->second->record.name);
        view->by_id.erase(old);
      } else if (listed) {
        const auto made = view_of(state, old == view->by_id.end() ? nullptr : old->second.get());
        view->override_count += count_in(*made);
        view->by_name[state.record.name] = made;
        view->by_id[namespace_id] = made;
      }
    };
    if (before == next->workspaces_.end()) {
      for (auto& [namespace_id, state] : namespaces) refresh(state, namespace_id);
    } else {
      for (auto at = changed_.lower_bound({id, ""}); at != changed_.end() && at->first == id;
           ++at) {
        const auto state = namespaces.find(at->second);
        if (state != namespaces.end()) refresh(state->second, at->second);
      }
    }
    next->workspaces_[id] = std::move(view);
  }
  changed_.clear();
  last_marked_ = nullptr;
  workspaces_changed_.clear();
  keys_changed_ = false;
  last_ = next;
  return next;
}

}  // namespace weir::catalog
