#include "frontends/resp/cluster_commands.h"

#include "rules/root_keys.h"

namespace weir::frontends {
namespace {

constexpr int kSlots = 16'384;

uint16_t crc16(std::string_view bytes) {
  constexpr uint16_t kPolynomial = 0x1021;
  uint16_t crc = 0;
  for (const char byte : bytes) {
    crc = static_cast<uint16_t>(crc ^ static_cast<uint8_t>(byte) << 8);
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = (crc & 0x8000) != 0;
      crc = static_cast<uint16_t>(crc << 1 ^ (carry ? kPolynomial : 0));
    }
  }
  return crc;
}

void write_slots(const Address& local, const std::string& id, RespWriter& writer) {
  writer.array(1);
  writer.array(3);
  writer.integer(0);
  writer.integer(kSlots - 1);
  writer.array(4);
  writer.bulk(local.host);
  writer.integer(local.port);
  writer.bulk(id);
  writer.array(0);
}

void write_shards(const Address& local, const std::string& id, RespWriter& writer) {
  writer.array(1);
  writer.map(2);
  writer.bulk("slots");
  writer.array(2);
  writer.integer(0);
  writer.integer(kSlots - 1);
  writer.bulk("nodes");
  writer.array(1);
  writer.map(7);
  const auto field = [&](std::string_view name, std::string_view value) {
    writer.bulk(name);
    writer.bulk(value);
  };
  field("id", id);
  writer.bulk("port");
  writer.integer(local.port);
  field("ip", local.host);
  field("endpoint", local.host);
  field("role", "master");
  writer.bulk("replication-offset");
  writer.integer(0);
  field("health", "online");
}

std::string info_text() {
  const std::string slots = std::to_string(kSlots);
  return "cluster_state:ok\r\ncluster_slots_assigned:" + slots + "\r\ncluster_slots_ok:" + slots +
         "\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\n"
         "cluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n";
}

}  // namespace

uint16_t slot_of(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return crc16(key) % kSlots;
}

std::string cluster_id(std::string_view node) {
  return rules::to_hex(rules::hash_of(node)).substr(0, 40);
}

RespError answer_cluster(Arguments arguments, const Address& local, std::string_view node,
                         RespWriter& writer) {
  if (local.port == 0) return "ERR This instance has cluster support disabled";
  if (arguments.size() < 2) return wrong_number_of_arguments("cluster");
  const auto is = [&](std::string_view name, size_t count) {
    return arguments.size() == count && is_word(arguments[1], name);
  };
  const std::string id = cluster_id(node);
  if (is("SLOTS", 2)) {
    write_slots(local, id, writer);
  } else if (is("SHARDS", 2)) {
    write_shards(local, id, writer);
  } else if (is("NODES", 2)) {
    writer.bulk(id + " " + local.host + ":" + std::to_string(local.port) +
                "@0 myself,master - 0 0 1 connected 0-" + std::to_string(kSlots - 1) + "\n");
  } else if (is("KEYSLOT", 3)) {
    writer.integer(slot_of(arguments[2]));
  } else if (is("INFO", 2)) {
    writer.bulk(info_text());
  } else if (is("MYID", 2)) {
    writer.bulk(id);
  } else {
    return "ERR unknown subcommand of CLUSTER: Weir supports SLOTS, SHARDS, NODES, KEYSLOT key, "
           "INFO "
           "and MYID";
  }
  return {};
}

}  // namespace weir::frontends
