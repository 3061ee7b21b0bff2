#include "frontends/admission.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <list>

namespace weir::frontends {
namespace {

struct TestEntry final : AdmissionEntry {
  explicit TestEntry(uint64_t from) : peer(from) {}
  uint64_t peer;
};

constexpr AdmissionLimits kFew{
    .connections = 10, .unauthenticated = 8, .per_address = 5, .bytes = 1000};

TEST(Admission, ReservesConnectionsForServedClients) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (uint64_t i = 1; i <= 8; ++i) admission.add(entries.emplace_back(i), i);
  EXPECT_EQ(admission.refusal(9), Refusal::kConnections);
  admission.promote(entries.back(), Trust::kServed);
  EXPECT_EQ(admission.refusal(9), std::nullopt);
  admission.add(entries.emplace_back(9), 9);
  admission.promote(entries.back(), Trust::kAuthenticated);
  admission.add(entries.emplace_back(10), 10);
  EXPECT_EQ(admission.connections(), 10u);
  EXPECT_EQ(admission.unauthenticated(), 8u);
  EXPECT_EQ(admission.refusal(11), Refusal::kConnections);
  for (TestEntry& entry : entries) admission.remove(entry);
  EXPECT_EQ(admission.connections(), 0u);
}

TEST(Admission, CountsWhatUnauthenticatedClientsHold) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (uint64_t i = 1; i <= 3; ++i) {
    admission.add(entries.emplace_back(i), i);
    admission.set_bytes(entries.back(), 100 * i);
  }
  EXPECT_EQ(admission.unauthenticated_bytes(), 3 * kConnectionBytes + 600);
  admission.set_bytes(entries.back(), 50);
  EXPECT_EQ(admission.unauthenticated_bytes(), 3 * kConnectionBytes + 350);
  admission.promote(entries.back(), Trust::kServed);
  admission.set_bytes(entries.back(), 500);
  EXPECT_EQ(admission.unauthenticated_bytes(), 2 * kConnectionBytes + 300);
  EXPECT_EQ(admission.bytes(), 800u);
  for (TestEntry& entry : entries) admission.remove(entry);
  EXPECT_EQ(admission.unauthenticated_bytes(), 0u);
}

TEST(Admission, EvictsTheUnauthenticatedClientThatWasIdleLongest) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (uint64_t i = 1; i <= 8; ++i) admission.add(entries.emplace_back(i), i);
  TestEntry& first = entries.front();
  TestEntry& second = *std::next(entries.begin());
  EXPECT_EQ(admission.oldest_unauthenticated(Refusal::kConnections, 9), &first);
  admission.touch(first);
  EXPECT_EQ(admission.oldest_unauthenticated(Refusal::kConnections, 9), &second);
  admission.promote(second, Trust::kServed);
  EXPECT_EQ(admission.oldest_unauthenticated(Refusal::kConnections, 9),
            &*std::next(entries.begin(), 2));
  for (TestEntry& entry : entries) admission.promote(entry, Trust::kAuthenticated);
  EXPECT_EQ(admission.oldest_unauthenticated(Refusal::kConnections, 9), nullptr);
  for (TestEntry& entry : entries) admission.remove(entry);
}

TEST(Admission, KnowsTheOldestUnauthenticatedClientThatHoldsBytes) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (uint64_t i = 1; i <= 4; ++i) admission.add(entries.emplace_back(i), i);
  EXPECT_EQ(admission.oldest_with_bytes(), nullptr);
  TestEntry& second = *std::next(entries.begin());
  admission.set_bytes(entries.back(), 10);
  admission.set_bytes(second, 10);
  EXPECT_EQ(admission.oldest_with_bytes(), &second);
  admission.promote(second, Trust::kServed);
  EXPECT_EQ(admission.oldest_with_bytes(), &entries.back());
  for (TestEntry& entry : entries) admission.remove(entry);
}

TEST(Admission, CountsClientsWithoutAKeyByAddress) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  admission.add(entries.emplace_back(2), 2);
  for (int i = 0; i < 5; ++i) admission.add(entries.emplace_back(1), 1);
  EXPECT_EQ(admission.refusal(1), Refusal::kAddress);
  EXPECT_EQ(admission.refusal(2), std::nullopt);
  // The oldest of that address, not of all.
  TestEntry& first = *std::next(entries.begin());
  EXPECT_EQ(admission.oldest_unauthenticated(Refusal::kAddress, 1), &first);
  admission.promote(first, Trust::kServed);
  EXPECT_EQ(admission.refusal(1), Refusal::kAddress);
  admission.promote(first, Trust::kAuthenticated);
  EXPECT_EQ(admission.refusal(1), std::nullopt);
  for (TestEntry& entry : entries) admission.remove(entry);
  EXPECT_EQ(admission.refusal(1), std::nullopt);
}

TEST(Admission, DoesNotCountClientsWithoutAnAddress) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (int i = 0; i < 7; ++i) admission.add(entries.emplace_back(0), 0);
  EXPECT_EQ(admission.refusal(0), std::nullopt);
  for (TestEntry& entry : entries) admission.remove(entry);
}

TEST(Admission, LimitsUnauthenticatedClientsToHalfOfTheMemory) {
  Admission admission(kFew);
  TestEntry unauthenticated(1);
  TestEntry client(2);
  admission.add(unauthenticated, 1);
  admission.add(client, 2);
  admission.promote(client, Trust::kAuthenticated);
  EXPECT_TRUE(admission.may_hold(unauthenticated, 500));
  EXPECT_FALSE(admission.may_hold(unauthenticated, 501));
  admission.set_bytes(unauthenticated, 500);
  EXPECT_TRUE(admission.may_hold(client, 500));
  EXPECT_FALSE(admission.may_hold(client, 501));
  EXPECT_FALSE(admission.is_memory_low());
  admission.set_bytes(client, 100);
  EXPECT_TRUE(admission.is_memory_low());
  EXPECT_TRUE(admission.may_hold(unauthenticated, 500));  // it may keep its bytes
  EXPECT_FALSE(admission.may_hold(unauthenticated, 600));
  admission.remove(unauthenticated);
  EXPECT_EQ(admission.bytes(), 100u);
  admission.remove(client);
  EXPECT_EQ(admission.bytes(), 0u);
}

RC_GTEST_PROP(Admission, CountsConnectionsAndBytesInAnyOrderOfCalls, ()) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  const auto steps = *rc::gen::container<std::vector<std::tuple<uint8_t, uint8_t>>>(
      rc::gen::tuple(rc::gen::inRange<uint8_t>(0, 5), rc::gen::arbitrary<uint8_t>()));
  for (const auto& [action, choice] : steps) {
    const uint64_t peer = choice % 3;
    if (action == 0 && !admission.refusal(peer)) {
      admission.add(entries.emplace_back(peer), peer);
    }
    if (entries.empty()) continue;
    const auto entry = std::next(entries.begin(), choice % entries.size());
    if (action == 1) admission.promote(*entry, Trust::kServed);
    if (action == 2) admission.promote(*entry, Trust::kAuthenticated);
    if (action == 3) admission.set_bytes(*entry, choice);
    if (action == 4) {
      admission.remove(*entry);
      entries.erase(entry);
    }
    const auto count = [&](auto fits) {
      return static_cast<size_t>(std::count_if(entries.begin(), entries.end(), fits));
    };
    const size_t unauthenticated =
        count([](const TestEntry& each) { return each.trust() == Trust::kUnauthenticated; });
    size_t bytes = 0;
    for (const TestEntry& each : entries) bytes += each.bytes();
    RC_ASSERT(admission.connections() == entries.size());
    RC_ASSERT(admission.unauthenticated() == unauthenticated);
    RC_ASSERT(admission.bytes() == bytes);
    RC_ASSERT(admission.connections() <= kFew.connections);
    for (const uint64_t from : {1, 2}) {
      RC_ASSERT(count([&](const TestEntry& each) {
                  return each.peer == from && each.trust() != Trust::kAuthenticated;
                }) <= kFew.per_address);
    }
  }
  for (TestEntry& entry : entries) admission.remove(entry);
}

}  // namespace
}  // namespace weir::frontends
