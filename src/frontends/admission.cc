#include "frontends/admission.h"

namespace weir::frontends {

std::optional<Refusal> Admission::refusal(uint64_t peer) const {
  if (connections_ >= limits_.connections || unauthenticated_ >= limits_.unauthenticated) {
    return Refusal::kConnections;
  }
  if (const auto found = peers_.find(peer);
      found != peers_.end() && found->second.without_key >= limits_.per_address) {
    return Refusal::kAddress;
  }
  return std::nullopt;
}

AdmissionEntry* Admission::to_evict(Refusal reason, uint64_t peer) {
  if (reason != Refusal::kAddress) return to_evict();
  OldestOfAddress& unauthenticated = peers_.find(peer)->second.unauthenticated;
  return unauthenticated.empty() ? nullptr : &unauthenticated.front();
}

// Unauthenticated clients keep the reserve: a new client of them, which may be a health check, must
// not be closed at once for another one.
AdmissionEntry* Admission::to_evict() {
  const bool few = unauthenticated_ < limits_.reserve() && !unprotected_.empty();
  Oldest& list = few || oldest_.empty() ? unprotected_ : oldest_;
  return list.empty() ? nullptr : &list.front();
}

AdmissionEntry* Admission::oldest_with_bytes() {
  return with_bytes_.empty() ? nullptr : &with_bytes_.front();
}

void Admission::count_by_address(const AdmissionEntry& entry, int change) {
  if (entry.peer_ == 0 || entry.trust() >= Trust::kAuthenticated) return;
  const auto found = peers_.find(entry.peer_);
  found->second.without_key += change;
  if (found->second.without_key == 0) peers_.erase(found);
}

void Admission::add(AdmissionEntry& entry, uint64_t peer) {
  ++connections_;
  ++unauthenticated_;
  entry.peer_ = peer;
  oldest_.push_back(entry);
  if (peer == 0) return;
  peers_[peer].unauthenticated.push_back(entry);
  count_by_address(entry, 1);
}

void Admission::unlink_unauthenticated(AdmissionEntry& entry) {
  if (entry.trust() != Trust::kUnauthenticated) return;
  --unauthenticated_;
  entry.hook_.unlink();
  entry.address_hook_.unlink();
  entry.bytes_hook_.unlink();
}

void Admission::remove(AdmissionEntry& entry) {
  --connections_;
  set_bytes(entry, 0);
  if (entry.protected_) unprotect(entry);
  leave_shares(entry);
  unlink_unauthenticated(entry);
  entry.hook_.unlink();
  count_by_address(entry, -1);
}

void Admission::promote(AdmissionEntry& entry, const Client& client) {
  if (client.trust <= entry.trust() && client.trust < Trust::kAuthenticated) return;
  const size_t bytes = entry.bytes_;
  set_bytes(entry, 0);
  unlink_unauthenticated(entry);
  if (client.trust >= Trust::kAuthenticated) count_by_address(entry, -1);
  if (entry.protected_) unprotect(entry);
  leave_shares(entry);
  entry.client_ = client;
  join_shares(entry);
  if (!entry.hook_.is_linked()) unprotected_.push_back(entry);
  (void)protect(entry);
  set_bytes(entry, bytes);
}

void Admission::join_shares(AdmissionEntry& entry) {
  if (entry.trust() != Trust::kAuthenticated) return;
  entry.key_ = &shares_[entry.client_.key];
  entry.workspace_ = &shares_[entry.client_.workspace];
  ++entry.key_->entries;
  ++entry.workspace_->entries;
}

void Admission::leave_shares(AdmissionEntry& entry) {
  if (entry.key_ == nullptr) return;
  if (--entry.key_->entries == 0) shares_.erase(entry.client_.key);
  if (--entry.workspace_->entries == 0) shares_.erase(entry.client_.workspace);
  entry.key_ = entry.workspace_ = nullptr;
}

bool Admission::protect(AdmissionEntry& entry) {
  if (entry.trust() != Trust::kRoot) {
    if (protected_ >= limits_.protected_places()) return false;
    if (entry.key_ != nullptr) {
      if (entry.key_->places >= limits_.places_per_key()) return false;
      if (entry.workspace_->places >= limits_.places_per_workspace()) return false;
      ++entry.key_->places;
      ++entry.workspace_->places;
    }
    ++protected_;
  }
  entry.hook_.unlink();
  return entry.protected_ = true;
}

void Admission::unprotect(AdmissionEntry& entry) {
  if (entry.trust() != Trust::kRoot) {
    --protected_;
    if (entry.key_ != nullptr) {
      --entry.key_->places;
      --entry.workspace_->places;
    }
  }
  entry.protected_ = false;
  unprotected_.push_back(entry);
}

void Admission::touch(AdmissionEntry& entry) {
  if (entry.protected_) [[likely]]
    return;
  if (entry.trust() != Trust::kUnauthenticated) {
    if (!protect(entry)) {
      unprotected_.splice(unprotected_.end(), unprotected_, unprotected_.iterator_to(entry));
    }
    return;
  }
  oldest_.splice(oldest_.end(), oldest_, oldest_.iterator_to(entry));
  if (entry.bytes_ > 0) {
    with_bytes_.splice(with_bytes_.end(), with_bytes_, with_bytes_.iterator_to(entry));
  }
  if (entry.peer_ == 0) return;
  OldestOfAddress& unauthenticated = peers_.find(entry.peer_)->second.unauthenticated;
  unauthenticated.splice(unauthenticated.end(), unauthenticated,
                         unauthenticated.iterator_to(entry));
}

void Admission::set_idle(AdmissionEntry& entry) {
  if (entry.protected_ && entry.trust() != Trust::kRoot) unprotect(entry);
}

bool Admission::may_hold(const AdmissionEntry& entry, size_t bytes) const {
  if (bytes <= entry.bytes_) return true;
  const size_t more = bytes - entry.bytes_;
  const auto fits = [more](size_t held, size_t limit) { return held + more <= limit; };
  if (!fits(bytes_, limits_.bytes)) return false;
  if (entry.trust() == Trust::kRoot) return true;
  if (entry.trust() == Trust::kUnauthenticated) {
    return fits(bytes_unauthenticated_, limits_.bytes_unauthenticated());
  }
  return fits(bytes_served_, limits_.bytes_served()) &&
         (entry.key_ == nullptr || (fits(entry.key_->bytes, limits_.bytes_per_key()) &&
                                    fits(entry.workspace_->bytes, limits_.bytes_per_workspace())));
}

void Admission::set_bytes(AdmissionEntry& entry, size_t bytes) {
  const size_t change = bytes - entry.bytes_;  // modulo 2^64
  entry.bytes_ = bytes;
  bytes_ += change;
  if (entry.trust() == Trust::kRoot) return;
  bytes_of(entry.trust()) += change;
  if (entry.trust() == Trust::kUnauthenticated) {
    if (bytes == 0) {
      entry.bytes_hook_.unlink();
    } else if (!entry.bytes_hook_.is_linked()) {
      with_bytes_.push_back(entry);
    }
  }
  if (entry.key_ == nullptr) return;
  entry.key_->bytes += change;
  entry.workspace_->bytes += change;
}

}  // namespace weir::frontends
