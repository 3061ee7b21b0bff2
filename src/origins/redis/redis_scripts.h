// The Lua scripts of the Redis origin. Each is atomic, uses the keys of one slot, and is safe to
// repeat, except kNotify.
//
// Pure.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::origins {

enum class Script : uint8_t {
  // Adds the component ARGV[1] of the cell KEYS[1] to the departed component and removes it, and
  // the same with its limit. Returns 1 if the component existed. No reader counts it twice or
  // misses it.
  kRetire,
  // Raises the departed component of the cell KEYS[1] to at least ARGV[1], and keeps the cell for
  // at least ARGV[2] ms. Returns 0 if there is no cell to keep.
  kRestore,
  // Raises the departed component of the cell KEYS[1] to at least ARGV[1] less the components of
  // the incarnations ARGV[3..], and then keeps the cell for at least ARGV[2] ms.
  kRaiseDeparted,
  // Grants requests on the cell KEYS[1], whose last window is KEYS[2]; step_rule.h has the rule.
  // ARGV: the component of the writer, then numbers: its own count, how many ms the cell must be
  // kept, the smallest limit seen (0: unknown), the siblings' counts of this window and the last,
  // the same of the other regions, the own count of the last window, and the duration of a window;
  // then of each request its cost, its limit, and the part of the duration for which the last
  // window counts.
  // Returns a digit for each request, 1 if it is granted; what the component was raised to; the
  // cell and the last one as they were before; and the hash KEYS[3], if there is one.
  kStep,
  // Decides requests of gcra and token_bucket on the state KEYS[1]. ARGV: the writer, then numbers:
  // that of the call, the duration, what the writer has admitted by itself and was acknowledged of
  // that, what it has admitted in all, for how many ms a refusal matters, the width of a window of
  // other regions, its sequence, what they admitted in it and in the one before, what to charge of
  // that if neither is known, the most to charge of it, the capacity, the pace of the call as
  // num and den, and 1 if a backlog of
  // another pace keeps its time to drain, 0 if it keeps its units; then of each request its cost
  // and its burst, each as ms and pulses of 1/den ms in which it drains.
  // Returns 1, the time in ms, the state before, a digit for each request, 1 if it is granted, what
  // was charged of the writer's own admissions, and the time of the last marked refusal, or 0; for
  // a
  // repeated call what was returned first. Only 2: the writer has made a later call.
  kBacklog,
  // Decides requests of sliding_window_strict on the state KEYS[1]. ARGV: the writer, then numbers:
  // the same as of kBacklog up to the pace, the width of a sub-cell; then of each request its cost
  // and its
  // limit. Returns the same as kBacklog.
  kRing,
  // Decides requests of sliding_log on the state KEYS[1] and the log KEYS[2]. ARGV: the writer,
  // then
  // numbers: the same as of kBacklog up to the pace; then of each request its cost and its limit.
  // Returns
  // the same as kBacklog, but of the state its version, its time, the units in the window, and the
  // newest stamp, or `-`. Each request is followed by a comma, and a refused one by a colon and the
  // stamp of the unit that must leave first.
  kLog,
  // Raises the region counts KEYS[1] of a tuple to those in ARGV[2..], five values each: region,
  // sequence, count, limit, lease. Keeps the tuple for at least ARGV[1] ms; 0: no change. Returns
  // the region counts, then the cells KEYS[2..]. redis_tuples.h describes the format.
  kUpdateTuple,
  // Takes the lease KEYS[1] for the holder ARGV[1] and ARGV[2] ms, if it is free or the holder's.
  // Returns 1 or 0, and the state KEYS[2] of the bridge.
  kAcquire,
  // Ends the lease KEYS[1] if the holder ARGV[1] has it.
  kRelease,
  // Sets the state KEYS[2] to ARGV[3] if it is ARGV[2] (empty: none) and the holder ARGV[1] has the
  // lease KEYS[1]. Returns 1 or 0.
  kSave,
  // Adds members to the sorted set KEYS[1]. ARGV: time in ms and member of each. The fraction of
  // the score of a member that exists changes; see due_score().
  kAddDue,
  // Removes members of the sorted set KEYS[1] whose score has not changed. ARGV: member and score
  // of each.
  kRemoveDue,
  // Sends ARGV[2] with the next number, which KEYS[1] counts, on the channel ARGV[1]. Numbers and
  // messages have one order.
  kNotify,
  kCount,
};

[[nodiscard]] std::string_view text_of(Script script);
// The commands that it calls: "HGET HSET".
[[nodiscard]] std::string commands_of(std::span<const Script> scripts);
// The SHA-1 digest in hexadecimal, for EVALSHA.
[[nodiscard]] const std::string& sha_of(Script script);

}  // namespace weir::origins
