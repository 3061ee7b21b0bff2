#include "frontends/admission.h"

namespace weir::frontends {

std::optional<Refusal> Admission::refusal(uint64_t peer) const {
  if (guests_ >= limits_.connections || strangers_ >= limits_.strangers) {
    return Refusal::kConnections;
  }
  if (const auto found = peers_.find(peer);
      found != peers_.end() && found->second.without_key >= limits_.per_address) {
    return Refusal::kAddress;
  }
  return std::nullopt;
}

Guest* Admission::oldest_stranger(Refusal why, uint64_t peer) {
  if (why != Refusal::kAddress) return oldest_stranger();
  OldestOfAddress& strangers = peers_.find(peer)->second.strangers;
  return strangers.empty() ? nullptr : &strangers.front();
}

Guest* Admission::oldest_stranger() {
  return oldest_.empty() ? nullptr : &oldest_.front();
}

void Admission::count_by_address(const Guest& guest, int change) {
  if (guest.peer_ == 0 || guest.standing_ == Standing::kKeyed) return;
  const auto found = peers_.find(guest.peer_);
  found->second.without_key += change;
  if (found->second.without_key == 0) peers_.erase(found);
}

void Admission::enter(Guest& guest, uint64_t peer) {
  ++guests_;
  ++strangers_;
  guest.peer_ = peer;
  oldest_.push_back(guest);
  if (peer == 0) return;
  peers_[peer].strangers.push_back(guest);
  count_by_address(guest, 1);
}

void Admission::forget_stranger(Guest& guest) {
  if (guest.standing_ != Standing::kStranger) return;
  --strangers_;
  guest.among_strangers_.unlink();
  guest.of_its_address_.unlink();
}

void Admission::leave(Guest& guest) {
  --guests_;
  bytes_ -= guest.bytes_;
  guest.bytes_ = 0;
  forget_stranger(guest);
  count_by_address(guest, -1);
}

void Admission::promote(Guest& guest, Standing standing) {
  if (standing <= guest.standing_) return;
  forget_stranger(guest);
  if (standing == Standing::kKeyed) count_by_address(guest, -1);
  guest.standing_ = standing;
}

void Admission::touch(Guest& guest) {
  if (guest.standing_ != Standing::kStranger) return;
  oldest_.splice(oldest_.end(), oldest_, oldest_.iterator_to(guest));
  if (guest.peer_ == 0) return;
  OldestOfAddress& strangers = peers_.find(guest.peer_)->second.strangers;
  strangers.splice(strangers.end(), strangers, strangers.iterator_to(guest));
}

bool Admission::may_hold(const Guest& guest, size_t bytes) const {
  const size_t most = guest.standing_ == Standing::kStranger ? limits_.bytes / 2 : limits_.bytes;
  return bytes <= guest.bytes_ || bytes_ - guest.bytes_ + bytes <= most;
}

void Admission::hold(Guest& guest, size_t bytes) {
  bytes_ += bytes - guest.bytes_;
  guest.bytes_ = bytes;
}

}  // namespace weir::frontends
