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

AdmissionEntry* Admission::oldest_unauthenticated(Refusal reason, uint64_t peer) {
  if (reason != Refusal::kAddress) return oldest_unauthenticated();
  OldestOfAddress& unauthenticated = peers_.find(peer)->second.unauthenticated;
  return unauthenticated.empty() ? nullptr : &unauthenticated.front();
}

AdmissionEntry* Admission::oldest_unauthenticated() {
  return oldest_.empty() ? nullptr : &oldest_.front();
}

AdmissionEntry* Admission::oldest_with_bytes() {
  for (AdmissionEntry& entry : oldest_) {
    if (entry.bytes_ > 0) return &entry;
  }
  return nullptr;
}

void Admission::count_by_address(const AdmissionEntry& entry, int change) {
  if (entry.peer_ == 0 || entry.trust_ == Trust::kAuthenticated) return;
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
  if (entry.trust_ != Trust::kUnauthenticated) return;
  --unauthenticated_;
  entry.unauthenticated_hook_.unlink();
  entry.address_hook_.unlink();
}

void Admission::remove(AdmissionEntry& entry) {
  --connections_;
  set_bytes(entry, 0);
  unlink_unauthenticated(entry);
  count_by_address(entry, -1);
}

void Admission::promote(AdmissionEntry& entry, Trust trust) {
  if (trust <= entry.trust_) return;
  if (entry.trust_ == Trust::kUnauthenticated) bytes_unauthenticated_ -= entry.bytes_;
  unlink_unauthenticated(entry);
  if (trust == Trust::kAuthenticated) count_by_address(entry, -1);
  entry.trust_ = trust;
}

void Admission::touch(AdmissionEntry& entry) {
  if (entry.trust_ != Trust::kUnauthenticated) return;
  oldest_.splice(oldest_.end(), oldest_, oldest_.iterator_to(entry));
  if (entry.peer_ == 0) return;
  OldestOfAddress& unauthenticated = peers_.find(entry.peer_)->second.unauthenticated;
  unauthenticated.splice(unauthenticated.end(), unauthenticated,
                         unauthenticated.iterator_to(entry));
}

bool Admission::may_hold(const AdmissionEntry& entry, size_t bytes) const {
  const size_t limit = entry.trust_ == Trust::kUnauthenticated ? limits_.bytes / 2 : limits_.bytes;
  return bytes <= entry.bytes_ || bytes_ - entry.bytes_ + bytes <= limit;
}

void Admission::set_bytes(AdmissionEntry& entry, size_t bytes) {
  bytes_ += bytes - entry.bytes_;
  if (entry.trust_ == Trust::kUnauthenticated) bytes_unauthenticated_ += bytes - entry.bytes_;
  entry.bytes_ = bytes;
}

}  // namespace weir::frontends
