// The fixture of the contract of BridgeStore; see bridge_contract.h.

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/doubles/manual_clock.h"
#include "weir/origin.h"

namespace weir {

inline void PrintTo(const RegionCount& count, std::ostream* out) {
  *out << count.region << "/" << count.sequence << " count " << count.count << " limit "
       << count.limit_seen << " until " << count.leased_until.time_since_epoch().count();
}
inline void PrintTo(const DueTuple& entry, std::ostream* out) {
  *out << testing::PrintToString(entry.tuple) << " kind " << static_cast<int>(entry.kind) << " at "
       << entry.at.time_since_epoch().count() << " revision " << entry.revision;
}

}  // namespace weir

namespace weir::contracts {

// Collects messages. Safe from any thread; a handler may outlive it.
class Inbox {
 public:
  [[nodiscard]] BridgeMessageHandler handler() const {
    return [received = received_](BridgeMessage message) {
      const std::lock_guard lock(received->mutex);
      received->messages.push_back(std::move(message));
    };
  }
  [[nodiscard]] std::vector<BridgeMessage> messages() const {
    const std::lock_guard lock(received_->mutex);
    return received_->messages;
  }
  [[nodiscard]] size_t size() const { return messages().size(); }

 private:
  struct Received {
    std::mutex mutex;
    std::vector<BridgeMessage> messages;
  };
  std::shared_ptr<Received> received_ = std::make_shared<Received>();
};

// Bytes that a text protocol or a C string would break.
inline std::string binary(std::string_view name) {
  return std::string(name) + std::string("\0\r\n$3 \xff\x01", 8);
}

template <typename Maker>
class BridgeContract : public ::testing::Test {
 protected:
  static constexpr Component kNode{.incarnation = 1, .generation = 1};
  static constexpr Component kSibling{.incarnation = 2, .generation = 1};
  static constexpr Millis kLease{60'000};

  [[nodiscard]] BridgeStore& store() { return *origin_->bridge_store(); }
  [[nodiscard]] WallTime in(int64_t ms) const { return clock_.now().wall + Millis(ms); }
  [[nodiscard]] static WallTime at(int64_t ms) { return WallTime(Millis(ms)); }
  // In the far future: entries of the past are due by the clock of the store.
  [[nodiscard]] static WallTime far(int64_t ms) { return WallTime(Millis(4'000'000'000'000 + ms)); }

  BridgeGrant acquire(const std::string& holder, Millis lease = kLease) {
    return wait<BridgeGrant>([&](GrantReply reply) { store().acquire(holder, lease, reply); });
  }
  bool save(const std::string& holder, const std::string& state, const std::string& before = {}) {
    return wait<bool>([&](SavedReply reply) { store().save(holder, before, state, reply); });
  }
  std::vector<DueTuple> read_due(WallTime by, size_t most = 1000, WallTime from = {}) {
    return wait<std::vector<DueTuple>>(
        [&](DueReply reply) { store().read_due(from, by, most, reply); });
  }
  std::vector<TupleCounts> read_tuples(const std::vector<TupleRead>& tuples) {
    return wait<std::vector<TupleCounts>>(
        [&](TupleReply reply) { store().read_tuples(tuples, reply); });
  }
  TupleCounts read_tuple(const std::string& tuple, const std::vector<int64_t>& sequences = {}) {
    return read_tuples({{.tuple = tuple, .sequences = sequences}}).at(0);
  }
  std::vector<TupleCounts> update_tuples(const std::vector<TupleUpdate>& updates) {
    return wait<std::vector<TupleCounts>>(
        [&](TupleReply reply) { store().update_tuples(updates, reply); });
  }
  std::vector<RegionCount> update(const std::string& tuple, const std::vector<RegionCount>& counts,
                                  Millis kept = Millis(60'000)) {
    return update_tuples({{.tuple = tuple,
                           .counts = counts,
                           .kept_until = clock_.now().wall + kept,
                           .sequences = {}}})
        .at(0)
        .regions;
  }
  CellTotals replay(const CellReplay& cell) {
    return wait<std::vector<CellTotals>>([&](OriginReply reply) { origin_->replay({cell}, reply); })
        .at(0);
  }
  std::vector<CellTotals> read(const std::vector<CellRead>& cells) {
    return wait<std::vector<CellTotals>>([&](OriginReply reply) { origin_->read(cells, reply); });
  }
  void retire(const CellId& cell, Component writer) {
    (void)wait<size_t>(
        [&](RetirementReply reply) { origin_->retire({{.cell = cell, .writer = writer}}, reply); });
  }

  typename Maker::Clock clock_;
  Maker maker_{clock_};
  std::shared_ptr<RegionalOrigin> origin_ = maker_.make();

 private:
  template <typename Answer, typename Call>
  Answer wait(const Call& call) {
    std::optional<Result<Answer>> received;
    call([&](Result<Answer> answer) { received = std::move(answer); });
    maker_.settle();
    return std::move(received).value().value();
  }
};

}  // namespace weir::contracts
