// The due tuples that the bridge has read and not published yet.
//
// Every tenant gets the same number of turns: first the workspaces take turns, then the namespaces
// of each workspace, then the tuples of each namespace, the oldest first. So no tenant delays the
// rows of another.
//
// One thread at a time.

#pragma once

#include <list>
#include <map>
#include <string>
#include <utility>

#include "base/mutation.h"
#include "global/ledger_key.h"
#include "global/regions.h"
#include "weir/origin.h"

namespace weir::global {

class DueBacklog {
 public:
  struct Entry {
    DueTuple due;
    MonoTime since{};  // when the bridge read it first
    MonoTime not_before{};
    bool taken = false;  // is being published
  };

  // An entry that is known gets the new time and revision.
  void add(const DueTuple& due, MonoTime now) {
    const auto [found, is_new] = index_.try_emplace({due.tuple, due.kind});
    if (!is_new) {
      found->second.entry->due = due;
      return;
    }
    const LedgerKey key = ledger_key_of(due.tuple);
    found->second.tenant = {.workspace = key.workspace, .ns = key.ns};
    std::list<Entry>& list = waiting_[key.workspace][key.ns];
    found->second.entry =
        list.insert(list.end(), Entry{.due = due, .since = now, .not_before = {}, .taken = false});
  }

  // The next entry whose turn it is; null if none can be taken now.
  [[nodiscard]] Entry* take(MonoTime now) {
    if (base::mutated(base::Mutation::kContendedFirst)) {
      for (auto& [key, place] : index_) {
        if (key.second == Due::kNow && !place.entry->taken) return take(*place.entry);
      }
    }
    for (size_t tried = 0; tried < waiting_.size(); ++tried) {
      auto workspace = after(waiting_, last_workspace_);
      last_workspace_ = workspace->first;
      auto& namespaces = workspace->second;
      std::string& last_ns = last_ns_[workspace->first];
      for (size_t i = 0; i < namespaces.size(); ++i) {
        const auto ns = after(namespaces, last_ns);
        last_ns = ns->first;
        for (Entry& entry : ns->second) {
          if (!entry.taken && now >= entry.not_before) return take(entry);
        }
      }
    }
    return nullptr;
  }

  // The entry was published, or there was nothing to publish.
  void remove(const DueTuple& due) {
    const auto found = index_.find({due.tuple, due.kind});
    if (found == index_.end()) return;
    const Tenant tenant = found->second.tenant;
    const auto workspace = waiting_.find(tenant.workspace);
    const auto ns = workspace->second.find(tenant.ns);
    ns->second.erase(found->second.entry);
    index_.erase(found);
    if (!ns->second.empty()) return;
    workspace->second.erase(ns);
    if (!workspace->second.empty()) return;
    last_ns_.erase(workspace->first);
    waiting_.erase(workspace);
  }

  // The entry waits again, until then at least.
  void put_back(const DueTuple& due, MonoTime not_before) {
    const auto found = index_.find({due.tuple, due.kind});
    if (found == index_.end()) return;
    found->second.entry->taken = false;
    found->second.entry->not_before = not_before;
  }

  void clear() {
    waiting_.clear();
    index_.clear();
    last_ns_.clear();
  }

  [[nodiscard]] size_t size() const { return index_.size(); }
  // Visits each tenant with the time since which its oldest entry has waited.
  template <typename Visit>
  void each_tenant(const Visit& visit) const {
    for (const auto& [workspace, namespaces] : waiting_) {
      for (const auto& [ns, list] : namespaces) {
        visit(Tenant{.workspace = workspace, .ns = ns}, list.front().since);
      }
    }
  }

 private:
  struct Place {
    Tenant tenant;
    std::list<Entry>::iterator entry;
  };

  static Entry* take(Entry& entry) {
    entry.taken = true;
    return &entry;
  }

  // The element after the one with this key, in a circle.
  template <typename Map>
  [[nodiscard]] static typename Map::iterator after(Map& map, const std::string& key) {
    const auto next = map.upper_bound(key);
    return next == map.end() ? map.begin() : next;
  }

  std::map<std::string, std::map<std::string, std::list<Entry>>> waiting_;
  std::map<std::pair<std::string, Due>, Place> index_;
  std::string last_workspace_;
  std::map<std::string, std::string> last_ns_;  // by workspace
};

}  // namespace weir::global
