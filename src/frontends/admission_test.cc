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

constexpr Client kServed{.trust = Trust::kServed};
constexpr Client kKeyed = {.trust = Trust::kAuthenticated, .key = 1, .workspace = 100};
constexpr Client kRoot{.trust = Trust::kRoot};

Client keyed(uint64_t key, uint64_t workspace) {
  return {.trust = Trust::kAuthenticated, .key = key, .workspace = workspace};
}

TEST(Admission, ReservesConnectionsForServedClients) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (uint64_t i = 1; i <= 8; ++i) admission.add(entries.emplace_back(i), i);
  EXPECT_EQ(admission.refusal(9), Refusal::kConnections);
  admission.promote(entries.back(), kServed);
  EXPECT_EQ(admission.refusal(9), std::nullopt);
  admission.add(entries.emplace_back(9), 9);
  admission.promote(entries.back(), kKeyed);
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
  admission.promote(entries.back(), kServed);
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
  EXPECT_EQ(admission.to_evict(Refusal::kConnections, 9), &first);
  admission.touch(first);
  EXPECT_EQ(admission.to_evict(Refusal::kConnections, 9), &second);
  admission.promote(second, kServed);
  EXPECT_EQ(admission.to_evict(Refusal::kConnections, 9), &*std::next(entries.begin(), 2));
  for (TestEntry& entry : entries) admission.promote(entry, kRoot);
  EXPECT_EQ(admission.to_evict(Refusal::kConnections, 9), nullptr);
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
  EXPECT_EQ(admission.oldest_with_bytes(), &entries.back());
  admission.touch(entries.back());
  EXPECT_EQ(admission.oldest_with_bytes(), &second);
  admission.promote(second, kServed);
  EXPECT_EQ(admission.oldest_with_bytes(), &entries.back());
  admission.set_bytes(entries.back(), 0);
  EXPECT_EQ(admission.oldest_with_bytes(), nullptr);
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
  EXPECT_EQ(admission.to_evict(Refusal::kAddress, 1), &first);
  admission.promote(first, kServed);
  EXPECT_EQ(admission.refusal(1), Refusal::kAddress);
  admission.promote(first, kKeyed);
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

// One key held all places with idle connections, and everybody else was refused.
TEST(Admission, ProtectsNoMoreConnectionsOfAKeyAndAWorkspaceThanTheirShare) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  const auto open = [&](const Client& client) -> TestEntry& {
    TestEntry& entry = entries.emplace_back(0);
    admission.add(entry, 0);
    admission.promote(entry, client);
    return entry;
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(open(keyed(1, 100)).is_protected());
  TestEntry& sixth = open(keyed(1, 100));
  EXPECT_FALSE(sixth.is_protected()) << "half of the places for one key";
  EXPECT_TRUE(open(keyed(2, 100)).is_protected());
  EXPECT_FALSE(open(keyed(2, 100)).is_protected()) << "13 of 20 for one workspace";
  EXPECT_TRUE(open(keyed(3, 200)).is_protected());
  EXPECT_TRUE(open(kServed).is_protected());
  EXPECT_EQ(admission.refusal(0), Refusal::kConnections);
  EXPECT_EQ(admission.to_evict(Refusal::kConnections, 0), &sixth);
  admission.touch(sixth);
  EXPECT_NE(admission.to_evict(Refusal::kConnections, 0), &sixth) << "another is idle for longer";
  admission.remove(sixth);
  EXPECT_FALSE(open(keyed(4, 300)).is_protected()) << "a fifth of the places is nobody's";
  for (TestEntry& entry : entries) {
    if (&entry != &sixth) admission.remove(entry);
  }
  EXPECT_EQ(admission.protected_places(), 0u);
}

TEST(Admission, EvictsAnIdleConnectionOfAKeyUntilItIsUsedAgain) {
  Admission admission(kFew);
  TestEntry client(0);
  admission.add(client, 0);
  admission.promote(client, kKeyed);
  EXPECT_EQ(admission.to_evict(), nullptr);
  admission.set_idle(client);
  EXPECT_EQ(admission.to_evict(), &client);
  admission.touch(client);
  EXPECT_EQ(admission.to_evict(), nullptr);
  admission.promote(client, kRoot);
  admission.set_idle(client);
  EXPECT_EQ(admission.to_evict(), nullptr) << "the root key keeps its connections";
  admission.remove(client);
}

TEST(Admission, EvictsIdleConnectionsFirstWhileThereAreFewStrangers) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (int i = 0; i < 4; ++i) admission.add(entries.emplace_back(0), 0);
  TestEntry& idle = entries.back();
  admission.promote(idle, kKeyed);
  admission.set_idle(idle);
  EXPECT_EQ(admission.to_evict(), &entries.front()) << "three strangers, and two places for them";
  admission.remove(entries.front());
  entries.pop_front();
  admission.remove(entries.front());
  entries.pop_front();
  EXPECT_EQ(admission.to_evict(), &idle);
  for (TestEntry& entry : entries) admission.remove(entry);
}

TEST(Admission, GivesAConnectionToTheKeyThatItShowedLast) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  for (int i = 0; i < 5; ++i) {
    admission.add(entries.emplace_back(0), 0);
    admission.promote(entries.back(), keyed(1, 100));
    admission.set_bytes(entries.back(), 75);
  }
  TestEntry other(0);
  admission.add(other, 0);
  admission.promote(other, keyed(1, 100));
  EXPECT_FALSE(other.is_protected());
  EXPECT_FALSE(admission.may_hold(other, 1));
  admission.promote(entries.front(), keyed(2, 200));
  admission.touch(other);
  EXPECT_TRUE(other.is_protected());
  EXPECT_TRUE(admission.may_hold(other, 75));
  admission.remove(other);
  for (TestEntry& entry : entries) admission.remove(entry);
  EXPECT_EQ(admission.bytes(), 0u);
}

// 130 bodies of one key that never ended took all bytes, and everybody else was refused.
TEST(Admission, LimitsTheBytesOfStrangersOfAKeyAndOfAWorkspace) {
  Admission admission(kFew);
  TestEntry stranger(1);
  TestEntry first(2);
  TestEntry second(3);
  TestEntry third(4);
  TestEntry root(5);
  for (TestEntry* each : {&stranger, &first, &second, &third, &root}) {
    admission.add(*each, each->peer);
  }
  admission.set_bytes(first, 100);
  admission.promote(first, keyed(1, 100));
  admission.promote(second, keyed(2, 100));
  admission.promote(third, keyed(3, 200));
  admission.promote(root, kRoot);
  const auto most = [&](TestEntry& entry) {
    size_t bytes = 0;
    while (admission.may_hold(entry, bytes + 1)) ++bytes;
    admission.set_bytes(entry, bytes);
    return bytes;
  };
  EXPECT_EQ(most(first), 375u);
  EXPECT_TRUE(admission.may_hold(first, 375)) << "it may keep its bytes";
  EXPECT_EQ(most(second), 500u - 375) << "a half for its workspace";
  EXPECT_FALSE(admission.is_memory_low());
  EXPECT_EQ(most(third), 625u - 500);
  EXPECT_TRUE(admission.is_memory_low());
  EXPECT_EQ(most(stranger), 250u);
  EXPECT_EQ(most(root), 1000u - 875);
  for (TestEntry* each : {&stranger, &first, &second, &third}) admission.remove(*each);
  EXPECT_EQ(most(root), 1000u);
  admission.remove(root);
  EXPECT_EQ(admission.bytes(), 0u);
}

RC_GTEST_PROP(Admission, CountsConnectionsAndBytesInAnyOrderOfCalls, ()) {
  Admission admission(kFew);
  std::list<TestEntry> entries;
  const auto steps = *rc::gen::container<std::vector<std::tuple<uint8_t, uint8_t>>>(
      rc::gen::tuple(rc::gen::inRange<uint8_t>(0, 8), rc::gen::arbitrary<uint8_t>()));
  for (const auto& [action, choice] : steps) {
    const uint64_t peer = choice % 3;
    if (action == 0 && !admission.refusal(peer)) {
      admission.add(entries.emplace_back(peer), peer);
    }
    if (entries.empty()) continue;
    const auto entry = std::next(entries.begin(), choice % entries.size());
    if (action == 1) admission.promote(*entry, kServed);
    if (action == 2) admission.promote(*entry, keyed(choice % 2, 100));
    if (action == 5) admission.promote(*entry, kRoot);
    if (action == 6) admission.set_idle(*entry);
    if (action == 7) admission.touch(*entry);
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
    const auto protects = [&](auto is) {
      return count([&](const TestEntry& each) { return each.is_protected() && is(each.client()); });
    };
    const size_t roots =
        protects([](const Client& client) { return client.trust == Trust::kRoot; });
    RC_ASSERT(admission.protected_places() + roots == protects([](const Client&) { return true; }));
    RC_ASSERT(admission.protected_places() <= kFew.protected_places());
    for (const uint64_t key : {0, 1}) {
      RC_ASSERT(protects([&](const Client& client) {
                  return client.trust == Trust::kAuthenticated && client.key == key;
                }) <= kFew.places_per_key());
    }
    RC_ASSERT(admission.connections() <= kFew.connections);
    for (const uint64_t from : {1, 2}) {
      RC_ASSERT(count([&](const TestEntry& each) {
                  return each.peer == from && each.trust() < Trust::kAuthenticated;
                }) <= kFew.per_address);
    }
  }
  for (TestEntry& entry : entries) admission.remove(entry);
}

}  // namespace
}  // namespace weir::frontends
