// Cells that have an expiry because this connection has written them.
//
// A fixed number of hashes: a new cell takes the place of another. The next write to a forgotten
// cell only sends its expiry again. If two cells have one hash, the reply to the write shows that
// the second one was new.
//
// One thread at a time.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::origins {

class RedisKnownCells {
 public:
  // 2 MiB. A server cannot take more writes in the 250 ms after which a cell is written again.
  static constexpr size_t kPlaces = size_t{1} << 19;

  // Returns false if it was known.
  bool add(std::string_view key) {
    const uint64_t hash = std::hash<std::string_view>()(key);
    const auto high = std::max(uint32_t{1}, static_cast<uint32_t>(hash >> 32));  // 0: no cell
    return std::exchange(places_[hash % kPlaces], high) != high;
  }
  void clear() { std::fill(places_.begin(), places_.end(), 0); }

 private:
  std::vector<uint32_t> places_ = std::vector<uint32_t>(kPlaces);
};

}  // namespace weir::origins
