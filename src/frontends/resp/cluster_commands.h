// CLUSTER: presents this process as a cluster of one node that owns all slots, for cluster clients.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontends/address.h"
#include "frontends/resp/limit_commands.h"
#include "frontends/resp/resp_writer.h"

namespace weir::frontends {

// The slot of a key among 16,384: CRC-16 (XMODEM) of its first non-empty {...}, or else of the
// whole key.
[[nodiscard]] uint16_t slot_of(std::string_view key);

// The cluster id of the node: 40 hexadecimal digits, derived from its name.
[[nodiscard]] std::string cluster_id(std::string_view node);

// CLUSTER SLOTS | SHARDS | NODES | KEYSLOT key | INFO | MYID. `here` is the local address of the
// connection.
[[nodiscard]] RespError answer_cluster(Arguments arguments, const Address& local,
                                       std::string_view node, RespWriter& writer);

}  // namespace weir::frontends
