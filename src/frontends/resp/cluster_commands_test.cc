#include "frontends/resp/cluster_commands.h"

#include <gtest/gtest.h>

#include <string>

#include "frontends/fixture_test.h"
#include "frontends/resp/encoded_test.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

struct ClusterClient {
  Fixture fixture;
  RespScratch scratch;
  RespSession session{fixture.service, scratch, 7};
  TestConnection line{fixture, session};
  std::string id = cluster_id("node-1");

  ClusterClient() {
    session.set_local_address([] { return Address{.host = "10.0.0.7", .port = 7071}; });
  }
  std::string send(const Words& words) { return line.send(encoded(words)); }
};

std::string cluster_bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

TEST(SlotOf, IsTheChecksumOfTheKeyOrOfItsHashTag) {
  // The published check value of CRC-16/XMODEM is 0x31C3.
  EXPECT_EQ(slot_of("123456789"), 0x31C3 % 16384);
  EXPECT_EQ(slot_of(""), 0);
  // As redis-server 7.0 answers CLUSTER KEYSLOT.
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of("somekey"), 11058);
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("user1000"));
  EXPECT_EQ(slot_of("{user1000}.followers"), slot_of("user1000"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));  // the first {} is empty: the whole key
  EXPECT_NE(slot_of("foo{bar"), slot_of("bar"));
}

TEST(Cluster, IsOneNodeWithAllSlotsAtTheLocalAddress) {
  ClusterClient client;
  EXPECT_EQ(client.send({"CLUSTER", "SLOTS"}), "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n" +
                                                   cluster_bulk("10.0.0.7") + ":7071\r\n" +
                                                   cluster_bulk(client.id) + "*0\r\n");
  EXPECT_EQ(client.send({"cluster", "nodes"}),
            cluster_bulk(client.id + " 10.0.0.7:7071@0 myself,master - 0 0 1 connected 0-16383\n"));
  EXPECT_EQ(client.send({"CLUSTER", "MYID"}), cluster_bulk(client.id));
  EXPECT_EQ(client.id.size(), 40u);
  EXPECT_EQ(client.send({"CLUSTER", "KEYSLOT", "foo"}), ":12182\r\n");
  EXPECT_EQ(client.send({"CLUSTER", "INFO"}).substr(6, 18), "cluster_state:ok\r\n");
  EXPECT_NE(client.send({"INFO"}).find("cluster_enabled:1\r\n"), std::string::npos);
  EXPECT_EQ(client.send({"READONLY"}) + client.send({"READWRITE"}), "+OK\r\n+OK\r\n");
}

TEST(Cluster, ReportsItsShardAsAMapInResp3AndAsAnArrayInResp2) {
  ClusterClient client;
  const auto shards = [&](bool third) {
    const auto map = [&](int pairs) {
      return third ? "%" + std::to_string(pairs) + "\r\n"
                   : "*" + std::to_string(2 * pairs) + "\r\n";
    };
    return "*1\r\n" + map(2) + cluster_bulk("slots") + "*2\r\n:0\r\n:16383\r\n" +
           cluster_bulk("nodes") + "*1\r\n" + map(7) + cluster_bulk("id") +
           cluster_bulk(client.id) + cluster_bulk("port") + ":7071\r\n" + cluster_bulk("ip") +
           cluster_bulk("10.0.0.7") + cluster_bulk("endpoint") + cluster_bulk("10.0.0.7") +
           cluster_bulk("role") + cluster_bulk("master") + cluster_bulk("replication-offset") +
           ":0\r\n" + cluster_bulk("health") + cluster_bulk("online");
  };
  EXPECT_EQ(client.send({"CLUSTER", "SHARDS"}), shards(false));
  client.send({"HELLO", "3"});
  EXPECT_EQ(client.send({"CLUSTER", "SHARDS"}), shards(true));
}

TEST(Cluster, RefusesOtherSubcommandsAndListsItsOwn) {
  ClusterClient client;
  for (const Words& words : {Words{"CLUSTER", "MEET", "127.0.0.1", "1"}, Words{"CLUSTER", "RESET"},
                             Words{"CLUSTER", "KEYSLOT"}, Words{"CLUSTER", "SLOTS", "x"}}) {
    EXPECT_EQ(
        client.send(words),
        "-ERR unknown subcommand of CLUSTER: Weir supports SLOTS, SHARDS, NODES, KEYSLOT key, "
        "INFO and MYID\r\n");
  }
  EXPECT_EQ(client.send({"CLUSTER"}), "-ERR wrong number of arguments for 'cluster' command\r\n");
}

TEST(Cluster, IsDisabledWithoutAnIpAddress) {
  ClusterClient client;
  client.session.set_local_address({});
  EXPECT_EQ(client.send({"CLUSTER", "SLOTS"}),
            "-ERR This instance has cluster support disabled\r\n");
  EXPECT_NE(client.send({"INFO"}).find("cluster_enabled:0\r\n"), std::string::npos);
}

}  // namespace
}  // namespace weir::frontends
