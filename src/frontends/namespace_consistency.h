// The namespaces with a consistency of their own.
//
// Safe from any thread; replace() from one at a time. It is replaced seldom, so earlier maps are
// kept: a session may still read them.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "weir/request.h"

namespace weir::frontends {

class NamespaceConsistency {
 public:
  using Map = std::map<std::string, Consistency, std::less<>>;

  void replace(Map map) {
    maps_.push_back(std::make_unique<const Map>(std::move(map)));
    current_.store(maps_.back()->empty() ? nullptr : maps_.back().get(), std::memory_order_release);
  }

  // For the requests that name none.
  void apply(std::span<Request> requests) const {
    const Map* const map = current_.load(std::memory_order_acquire);
    if (map == nullptr) return;
    for (Request& request : requests) {
      if (request.consistency) continue;
      const auto found = map->find(request.ns);
      if (found != map->end()) request.consistency = found->second;
    }
  }

 private:
  base::Atomic<const Map*> current_{nullptr};
  std::vector<std::unique_ptr<const Map>> maps_;
};

}  // namespace weir::frontends
