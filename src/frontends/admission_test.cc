#include "frontends/admission.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <list>

namespace weir::frontends {
namespace {

struct Visitor final : Guest {
  explicit Visitor(uint64_t from) : peer(from) {}
  uint64_t peer;
};

constexpr AdmissionLimits kFew{.connections = 10, .strangers = 8, .per_address = 5, .bytes = 1000};

TEST(Admission, KeepsPlacesForThoseThatWereServed) {
  Admission admission(kFew);
  std::list<Visitor> guests;
  for (uint64_t i = 1; i <= 8; ++i) admission.enter(guests.emplace_back(i), i);
  EXPECT_EQ(admission.refusal(9), Refusal::kConnections);
  admission.promote(guests.back(), Standing::kServed);
  EXPECT_EQ(admission.refusal(9), std::nullopt);
  admission.enter(guests.emplace_back(9), 9);
  admission.promote(guests.back(), Standing::kKeyed);
  admission.enter(guests.emplace_back(10), 10);
  EXPECT_EQ(admission.guests(), 10u);
  EXPECT_EQ(admission.strangers(), 8u);
  EXPECT_EQ(admission.refusal(11), Refusal::kConnections);
  for (Visitor& guest : guests) admission.leave(guest);
  EXPECT_EQ(admission.guests(), 0u);
}

TEST(Admission, HasTheStrangerMakeRoomThatWasIdleForLongest) {
  Admission admission(kFew);
  std::list<Visitor> guests;
  for (uint64_t i = 1; i <= 8; ++i) admission.enter(guests.emplace_back(i), i);
  Visitor& first = guests.front();
  Visitor& second = *std::next(guests.begin());
  EXPECT_EQ(admission.oldest_stranger(Refusal::kConnections, 9), &first);
  admission.touch(first);
  EXPECT_EQ(admission.oldest_stranger(Refusal::kConnections, 9), &second);
  admission.promote(second, Standing::kServed);
  EXPECT_EQ(admission.oldest_stranger(Refusal::kConnections, 9), &*std::next(guests.begin(), 2));
  for (Visitor& guest : guests) admission.promote(guest, Standing::kKeyed);
  EXPECT_EQ(admission.oldest_stranger(Refusal::kConnections, 9), nullptr);
  for (Visitor& guest : guests) admission.leave(guest);
}

TEST(Admission, CountsThoseWithoutAKeyByAddress) {
  Admission admission(kFew);
  std::list<Visitor> guests;
  admission.enter(guests.emplace_back(2), 2);
  for (int i = 0; i < 5; ++i) admission.enter(guests.emplace_back(1), 1);
  EXPECT_EQ(admission.refusal(1), Refusal::kAddress);
  EXPECT_EQ(admission.refusal(2), std::nullopt);
  // The first of that address, not the first of all.
  Visitor& first = *std::next(guests.begin());
  EXPECT_EQ(admission.oldest_stranger(Refusal::kAddress, 1), &first);
  admission.promote(first, Standing::kServed);
  EXPECT_EQ(admission.refusal(1), Refusal::kAddress);
  admission.promote(first, Standing::kKeyed);
  EXPECT_EQ(admission.refusal(1), std::nullopt);
  for (Visitor& guest : guests) admission.leave(guest);
  EXPECT_EQ(admission.refusal(1), std::nullopt);
}

TEST(Admission, DoesNotCountByAddressWhereThereIsNone) {
  Admission admission(kFew);
  std::list<Visitor> guests;
  for (int i = 0; i < 7; ++i) admission.enter(guests.emplace_back(0), 0);
  EXPECT_EQ(admission.refusal(0), std::nullopt);
  for (Visitor& guest : guests) admission.leave(guest);
}

TEST(Admission, LetsStrangersUseTheFirstHalfOfTheMemory) {
  Admission admission(kFew);
  Visitor stranger(1);
  Visitor client(2);
  admission.enter(stranger, 1);
  admission.enter(client, 2);
  admission.promote(client, Standing::kKeyed);
  EXPECT_TRUE(admission.may_hold(stranger, 500));
  EXPECT_FALSE(admission.may_hold(stranger, 501));
  admission.hold(stranger, 500);
  EXPECT_TRUE(admission.may_hold(client, 500));
  EXPECT_FALSE(admission.may_hold(client, 501));
  EXPECT_FALSE(admission.is_short());
  admission.hold(client, 100);
  EXPECT_TRUE(admission.is_short());
  EXPECT_TRUE(admission.may_hold(stranger, 500));  // what it has it may keep
  EXPECT_FALSE(admission.may_hold(stranger, 600));
  admission.leave(stranger);
  EXPECT_EQ(admission.bytes(), 100u);
  admission.leave(client);
  EXPECT_EQ(admission.bytes(), 0u);
}

RC_GTEST_PROP(Admission, CountsWhatIsThereWhateverTheOrderOfComingAndGoing, ()) {
  Admission admission(kFew);
  std::list<Visitor> guests;
  const auto steps = *rc::gen::container<std::vector<std::tuple<uint8_t, uint8_t>>>(
      rc::gen::tuple(rc::gen::inRange<uint8_t>(0, 5), rc::gen::arbitrary<uint8_t>()));
  for (const auto& [what, which] : steps) {
    const uint64_t peer = which % 3;
    if (what == 0 && !admission.refusal(peer)) {
      admission.enter(guests.emplace_back(peer), peer);
    }
    if (guests.empty()) continue;
    const auto guest = std::next(guests.begin(), which % guests.size());
    if (what == 1) admission.promote(*guest, Standing::kServed);
    if (what == 2) admission.promote(*guest, Standing::kKeyed);
    if (what == 3) admission.hold(*guest, which);
    if (what == 4) {
      admission.leave(*guest);
      guests.erase(guest);
    }
    const auto count = [&](auto fits) {
      return static_cast<size_t>(std::count_if(guests.begin(), guests.end(), fits));
    };
    const size_t strangers =
        count([](const Visitor& each) { return each.standing() == Standing::kStranger; });
    size_t bytes = 0;
    for (const Visitor& each : guests) bytes += each.bytes();
    RC_ASSERT(admission.guests() == guests.size());
    RC_ASSERT(admission.strangers() == strangers);
    RC_ASSERT(admission.bytes() == bytes);
    RC_ASSERT(admission.guests() <= kFew.connections);
    for (const uint64_t from : {1, 2}) {
      RC_ASSERT(count([&](const Visitor& each) {
                  return each.peer == from && each.standing() != Standing::kKeyed;
                }) <= kFew.per_address);
    }
  }
  for (Visitor& guest : guests) admission.leave(guest);
}

}  // namespace
}  // namespace weir::frontends
