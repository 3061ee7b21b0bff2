// Limits the connections of one front end and the bytes of their buffers.
//
// Unauthenticated clients may use only a part of the connections; the rest is reserved for clients
// that were served. When no connection is left, the unauthenticated client that has been idle for
// longest is evicted. So idle connections cannot lock other clients out.
//
// One thread at a time: every loop has one instance for each of its front ends.

#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "frontends/session.h"

namespace weir::frontends {

// Memory of a connection besides its buffers and TLS, measured.
inline constexpr size_t kConnectionBytes = size_t{4} << 10;

struct AdmissionLimits {
  size_t connections = 10'000;
  // Of these, connections of clients that were not served yet.
  size_t unauthenticated = 8'000;
  // Connections of one address without a valid key. Too few: clients behind one address lock each
  // other out. Too many: one address can use all connections for unauthenticated clients.
  size_t per_address = 5'000;
  // Buffers of all connections. Unauthenticated clients may use the first half.
  size_t bytes = size_t{256} << 20;
};

// Why a client is refused.
enum class Refusal : uint8_t { kConnections, kAddress, kMemory };

// The state of one connection in the admission.
class AdmissionEntry {
 public:
  AdmissionEntry() = default;
  AdmissionEntry(const AdmissionEntry&) = delete;
  AdmissionEntry& operator=(const AdmissionEntry&) = delete;

  [[nodiscard]] Trust trust() const { return trust_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 protected:
  ~AdmissionEntry() = default;

 private:
  friend class Admission;
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

  Hook unauthenticated_hook_;  // linked while unauthenticated
  Hook address_hook_;
  uint64_t peer_ = 0;
  Trust trust_ = Trust::kUnauthenticated;
  size_t bytes_ = 0;
};

class Admission {
 public:
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // Why a new connection is refused now; nullopt: it is not.
  [[nodiscard]] std::optional<Refusal> refusal(uint64_t peer) const;
  // The connection to evict for a new one; null: none may be evicted.
  [[nodiscard]] AdmissionEntry* oldest_unauthenticated(Refusal reason, uint64_t peer);
  // The oldest of all unauthenticated connections; null: there is none.
  [[nodiscard]] AdmissionEntry* oldest_unauthenticated();
  // The oldest of those that hold bytes; null: there is none. Passes over all that hold none.
  [[nodiscard]] AdmissionEntry* oldest_with_bytes();

  void add(AdmissionEntry& entry, uint64_t peer);
  void remove(AdmissionEntry& entry);
  void promote(AdmissionEntry& entry, Trust trust);
  // A request was answered: the connection becomes the last to be evicted.
  void touch(AdmissionEntry& entry);

  // Whether the connection may hold this many bytes.
  [[nodiscard]] bool may_hold(const AdmissionEntry& entry, size_t bytes) const;
  void set_bytes(AdmissionEntry& entry, size_t bytes);
  // Empty buffers should be freed now.
  [[nodiscard]] bool is_memory_low() const { return bytes_ > limits_.bytes / 2; }

  [[nodiscard]] size_t connections() const { return connections_; }
  [[nodiscard]] size_t unauthenticated() const { return unauthenticated_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  // What unauthenticated connections hold, with the memory of the connections.
  [[nodiscard]] size_t unauthenticated_bytes() const {
    return bytes_unauthenticated_ + unauthenticated_ * kConnectionBytes;
  }

 private:
  using Oldest =
      boost::intrusive::list<AdmissionEntry,
                             boost::intrusive::member_hook<AdmissionEntry, AdmissionEntry::Hook,
                                                           &AdmissionEntry::unauthenticated_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  using OldestOfAddress =
      boost::intrusive::list<AdmissionEntry,
                             boost::intrusive::member_hook<AdmissionEntry, AdmissionEntry::Hook,
                                                           &AdmissionEntry::address_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  struct Peer {
    size_t without_key = 0;
    OldestOfAddress unauthenticated{};
  };
  // Authenticated clients, and clients without an address, are not counted by address.
  void count_by_address(const AdmissionEntry& entry, int change);
  void unlink_unauthenticated(AdmissionEntry& entry);

  const AdmissionLimits limits_;
  Oldest oldest_;
  std::unordered_map<uint64_t, Peer> peers_;
  size_t connections_ = 0;
  size_t unauthenticated_ = 0;
  size_t bytes_ = 0;
  size_t bytes_unauthenticated_ = 0;
};

}  // namespace weir::frontends
