// Limits the connections of one front end and the bytes of their buffers.
//
// Connections that are in use by clients with a key, or that were served without one, are
// protected: they are not closed for others. Each key and each workspace has a share of the
// protected places, and a fifth of all places is never protected. All other connections can be
// evicted: those of unauthenticated clients, those above a share, and those that have been idle.
// So neither strangers nor a key can lock other clients out. Bytes have shares in the same way. The
// root key has no share: its connections are protected while they are open, and may use all bytes.
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
  // Buffers of all connections.
  size_t bytes = size_t{256} << 20;

  // Protected places.
  [[nodiscard]] size_t protected_places() const { return connections - reserve(); }
  [[nodiscard]] size_t places_per_key() const { return connections / 2; }
  [[nodiscard]] size_t places_per_workspace() const { return connections * 13 / 20; }
  // Places for new connections, which those of keys do not take.
  [[nodiscard]] size_t reserve() const { return connections / 5; }
  // Bytes. An eighth is left for the root key.
  [[nodiscard]] size_t bytes_unauthenticated() const { return bytes / 4; }
  [[nodiscard]] size_t bytes_served() const { return bytes / 8 * 5; }
  [[nodiscard]] size_t bytes_per_key() const { return bytes / 8 * 3; }
  [[nodiscard]] size_t bytes_per_workspace() const { return bytes / 2; }
};

// Why a client is refused.
enum class Refusal : uint8_t { kConnections, kAddress, kMemory };

// The state of one connection in the admission.
class AdmissionEntry {
 public:
  AdmissionEntry() = default;
  AdmissionEntry(const AdmissionEntry&) = delete;
  AdmissionEntry& operator=(const AdmissionEntry&) = delete;

  [[nodiscard]] Client client() const { return client_; }
  [[nodiscard]] Trust trust() const { return client_.trust; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] bool is_protected() const { return protected_; }

 protected:
  ~AdmissionEntry() = default;

 private:
  friend class Admission;
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  // The use of a key or of a workspace.
  struct Share {
    size_t entries = 0;
    size_t places = 0;  // protected
    size_t bytes = 0;
  };

  Hook hook_;  // linked while it is not protected
  Hook address_hook_;
  Hook bytes_hook_;  // linked while it is unauthenticated and holds bytes
  uint64_t peer_ = 0;
  Client client_{};
  Share* key_ = nullptr;  // null: it has shown no key, or the root key
  Share* workspace_ = nullptr;
  bool protected_ = false;
  size_t bytes_ = 0;
};

class Admission {
 public:
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // Why a new connection is refused now; nullopt: it is not.
  [[nodiscard]] std::optional<Refusal> refusal(uint64_t peer) const;
  // The connection to evict for a new one; null: none may be evicted.
  [[nodiscard]] AdmissionEntry* to_evict(Refusal reason, uint64_t peer);
  // The connection to evict first, whatever the reason; null: none may be evicted.
  [[nodiscard]] AdmissionEntry* to_evict();
  // The unauthenticated one that has been idle for longest; null: there is none.
  [[nodiscard]] AdmissionEntry* oldest_unauthenticated() {
    return oldest_.empty() ? nullptr : &oldest_.front();
  }
  // Of the unauthenticated ones that hold bytes, the one that has had no answer for longest; null:
  // there is none.
  [[nodiscard]] AdmissionEntry* oldest_with_bytes();

  void add(AdmissionEntry& entry, uint64_t peer);
  void remove(AdmissionEntry& entry);
  // The client has shown who it is. Its trust does not become less than that of a key.
  void promote(AdmissionEntry& entry, const Client& client);
  // A request was answered: the connection becomes the last to be evicted, or protected.
  void touch(AdmissionEntry& entry);
  // The connection has been idle: it is protected until now, unless it is of the root key.
  void set_idle(AdmissionEntry& entry);

  // Whether the connection may hold this many bytes.
  [[nodiscard]] bool may_hold(const AdmissionEntry& entry, size_t bytes) const;
  void set_bytes(AdmissionEntry& entry, size_t bytes);
  // Empty buffers should be freed now.
  [[nodiscard]] bool is_memory_low() const { return bytes_ > limits_.bytes / 2; }

  [[nodiscard]] size_t connections() const { return connections_; }
  [[nodiscard]] size_t unauthenticated() const { return unauthenticated_; }
  [[nodiscard]] size_t protected_places() const { return protected_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  // Held by unauthenticated connections, with the memory of the connections.
  [[nodiscard]] size_t unauthenticated_bytes() const {
    return bytes_unauthenticated_ + unauthenticated_ * kConnectionBytes;
  }

 private:
  using Share = AdmissionEntry::Share;
  using Oldest = boost::intrusive::list<
      AdmissionEntry,
      boost::intrusive::member_hook<AdmissionEntry, AdmissionEntry::Hook, &AdmissionEntry::hook_>,
      boost::intrusive::constant_time_size<false>>;
  using OldestOfAddress =
      boost::intrusive::list<AdmissionEntry,
                             boost::intrusive::member_hook<AdmissionEntry, AdmissionEntry::Hook,
                                                           &AdmissionEntry::address_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  using OldestWithBytes =
      boost::intrusive::list<AdmissionEntry,
                             boost::intrusive::member_hook<AdmissionEntry, AdmissionEntry::Hook,
                                                           &AdmissionEntry::bytes_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  struct Peer {
    size_t without_key = 0;
    OldestOfAddress unauthenticated{};
  };
  // Authenticated clients, and clients without an address, are not counted by address.
  void count_by_address(const AdmissionEntry& entry, int change);
  void unlink_unauthenticated(AdmissionEntry& entry);
  // False: there is no place.
  bool protect(AdmissionEntry& entry);
  void unprotect(AdmissionEntry& entry);
  void join_shares(AdmissionEntry& entry);
  void leave_shares(AdmissionEntry& entry);
  // Bytes of clients of this trust.
  [[nodiscard]] size_t& bytes_of(Trust trust) {
    return trust == Trust::kUnauthenticated ? bytes_unauthenticated_ : bytes_served_;
  }

  const AdmissionLimits limits_;
  Oldest oldest_;       // unauthenticated
  Oldest unprotected_;  // others
  OldestWithBytes with_bytes_;
  std::unordered_map<uint64_t, Peer> peers_;
  std::unordered_map<uint64_t, Share> shares_;  // of keys and workspaces
  size_t connections_ = 0;
  size_t unauthenticated_ = 0;
  size_t protected_ = 0;  // without those of the root key
  size_t bytes_ = 0;
  size_t bytes_unauthenticated_ = 0;
  size_t bytes_served_ = 0;  // without those of the root key
};

}  // namespace weir::frontends
