// The representation of region counts in Redis: what the ledger has of a tuple.
//
// One hash per tuple, in the slot of its cells. Each region is a field. The value is the lease of
// the region in ms of Unix time (0: none), then its windows, the newest first:
//
//   1700000600000;28333334,1,100;-1,7;-2,3,90      lease;sequence,count,limit;...
//
// The sequence of an older window is relative to the newest one, and its limit is left out if it is
// the same: Redis stores values of up to 64 bytes in half the memory. The script kUpdateTuple
// merges. Values that are not of this form are ignored.
//
// Pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "origins/redis/redis_reply.h"
#include "weir/origin.h"

namespace weir::origins {

// The key of the region counts of a tuple.
[[nodiscard]] std::string tuple_key(std::string_view prefix);

struct TupleHash {
  std::vector<RegionCount> regions;  // sorted by region and window
  uint64_t invalid = 0;              // fields that are not of the form
};

// Reads the reply to HGETALL.
[[nodiscard]] TupleHash read_tuple_hash(const RedisReply& hash);

// The member of the sorted set of due tuples: a digit for the kind, and the tuple.
[[nodiscard]] std::string due_member(const DueTuple& entry);
// Its score: the time in ms, and the revision in units of 1/kRevisions. A double holds it exactly
// until the year 2248.
[[nodiscard]] std::string due_score(const DueTuple& entry);
// Reads the reply to ZRANGEBYSCORE with scores; false: it is not one. Leaves out foreign members.
[[nodiscard]] bool read_due_members(const RedisReply& reply, std::vector<DueTuple>& entries,
                                    uint64_t& invalid);

}  // namespace weir::origins
