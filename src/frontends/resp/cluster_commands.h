// CLUSTER: a cluster of one node that owns all slots, so that clients for clusters connect.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontends/address.h"
#include "frontends/resp/limit_commands.h"
#include "frontends/resp/resp_writer.h"

namespace weir::frontends {

// The slot of a key among 16,384: CRC-16 (XMODEM) of what stands in its first {...}, if that is
// something, else of all of it.
[[nodiscard]] uint16_t slot_of(std::string_view key);

// The node as a cluster knows it: 40 hexadecimal digits that follow from its name.
[[nodiscard]] std::string cluster_id(std::string_view node);

// CLUSTER SLOTS | SHARDS | NODES | KEYSLOT key | INFO | MYID. `here` is where the client reached
// this process.
[[nodiscard]] Complaint answer_cluster(Arguments arguments, const Address& here,
                                       std::string_view node, RespWriter& writer);

}  // namespace weir::frontends
