// Who may be connected to one front end, and how many bytes all of them may hold.
//
// A stranger, a client that has shown nothing yet, takes a place that is kept for nobody: part
// of the places stay free for clients that were served, and where no place is left the stranger
// that has been idle for longest makes room. So silent connections lock nobody out.
//
// One thread at a time: every loop has one for each of its front ends.

#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "frontends/session.h"

namespace weir::frontends {

struct AdmissionLimits {
  size_t connections = 10'000;
  // Of these, clients that were not served yet.
  size_t strangers = 8'000;
  // Connections of one address that have shown no key. Too few: clients behind one address
  // shut each other out. Too many: one address takes the places of all strangers.
  size_t per_address = 5'000;
  // Buffers of all connections. Strangers may use the first half of it.
  size_t bytes = size_t{256} << 20;
};

// Why a client is sent away.
enum class Refusal : uint8_t { kConnections, kAddress, kMemory };

// What the admission knows of a connection.
class Guest {
 public:
  Guest() = default;
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  [[nodiscard]] Standing standing() const { return standing_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 protected:
  ~Guest() = default;

 private:
  friend class Admission;
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  Hook among_strangers_;  // linked while it is one
  Hook of_its_address_;
  uint64_t peer_ = 0;
  Standing standing_ = Standing::kStranger;
  size_t bytes_ = 0;
};

class Admission {
 public:
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // Why a newcomer may not enter now, if so.
  [[nodiscard]] std::optional<Refusal> refusal(uint64_t peer) const;
  // Whose leaving would help; null: nobody's that may be asked to.
  [[nodiscard]] Guest* oldest_stranger(Refusal why, uint64_t peer);
  // Of all strangers; null: there is none.
  [[nodiscard]] Guest* oldest_stranger();

  void enter(Guest& guest, uint64_t peer);
  void leave(Guest& guest);
  void promote(Guest& guest, Standing standing);
  // A stranger was answered: it is the last to make room.
  void touch(Guest& guest);

  // Whether the guest may hold so many bytes.
  [[nodiscard]] bool may_hold(const Guest& guest, size_t bytes) const;
  void hold(Guest& guest, size_t bytes);
  // Memory is short: what is not needed now should be given back now.
  [[nodiscard]] bool is_short() const { return bytes_ > limits_.bytes / 2; }

  [[nodiscard]] size_t guests() const { return guests_; }
  [[nodiscard]] size_t strangers() const { return strangers_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  using Oldest = boost::intrusive::list<
      Guest, boost::intrusive::member_hook<Guest, Guest::Hook, &Guest::among_strangers_>,
      boost::intrusive::constant_time_size<false>>;
  using OldestOfAddress = boost::intrusive::list<
      Guest, boost::intrusive::member_hook<Guest, Guest::Hook, &Guest::of_its_address_>,
      boost::intrusive::constant_time_size<false>>;
  struct Peer {
    size_t without_key = 0;
    OldestOfAddress strangers{};
  };
  // Those with a key, and those without an address, are not counted by address.
  void count_by_address(const Guest& guest, int change);
  void forget_stranger(Guest& guest);

  const AdmissionLimits limits_;
  Oldest oldest_;
  std::unordered_map<uint64_t, Peer> peers_;
  size_t guests_ = 0;
  size_t strangers_ = 0;
  size_t bytes_ = 0;
};

}  // namespace weir::frontends
