// Repairs that Redis still needs: expiries that it did not confirm, and counts of departed nodes
// that it lost.
//
// Each live node sends its own component again after Redis lost its data. A departed node cannot,
// so each node that reads the departed component remembers it and restores it.
//
// Bounded: entries beyond the limit are dropped. One thread at a time.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weir/request.h"
#include "weir/time.h"

namespace weir::origins {

class RedisRepairs {
 public:
  struct Repair {
    std::string key;
    WallTime expires_at{};
    Count departed = 0;  // raise the departed component to this; 0: set the expiry only
  };

  explicit RedisRepairs(size_t max_cells = size_t{1} << 18) : max_cells_(max_cells) {}

  // A write to this cell may have left it without an expiry.
  void add_expiry(const std::string& key, WallTime expires_at);
  // Adds a repair again after it failed.
  void add(const Repair& repair);

  // Records the departed component that a read returned. A smaller value than before means that
  // Redis lost data, and adds a repair.
  void observe_departed(const std::string& key, Count departed, WallTime expires_at);

  // Removes and returns up to `most` repairs.
  [[nodiscard]] std::vector<Repair> take(size_t most);
  [[nodiscard]] bool empty() const { return pending_.empty(); }

  // Drops the departed counts of cells that have expired.
  void drop_expired(WallTime now);

 private:
  struct Cell {
    WallTime expires_at{};
    Count departed = 0;
  };

  const size_t max_cells_;
  std::unordered_map<std::string, Cell> pending_;   // by key
  std::unordered_map<std::string, Cell> departed_;  // by key: the largest value that was read
};

}  // namespace weir::origins
