// The scenes: each runs production code on a small state that takes few operations, and knows
// what must hold afterwards whatever the order of those operations was.

#pragma once

#include "tests/schedule/scene.h"
#include "weir/request.h"

namespace weir::schedule {

// --- counting: counting_scenes.cc ---

// Two threads ask at the two sides of a window boundary for more than the limit together. What was
// charged to the tuple before they come:
enum class Before : uint8_t { kNothing, kOlderWindow, kOldWindow };
[[nodiscard]] Scene both_sides_of_a_boundary(Before before);

// Several threads ask one tuple for more than the limit.
[[nodiscard]] Scene one_tuple_asked_by_many(Algorithm algorithm);

// A tuple that has expired is asked again while the sweep comes by.
[[nodiscard]] Scene charge_beside_a_sweep(Algorithm algorithm);

// A tuple is asked with two limits, so that its state has to be rebuilt while others charge it.
[[nodiscard]] Scene charge_beside_a_rebuild(Algorithm algorithm);

// Batches over the same two tuples, and a single request.
[[nodiscard]] Scene batches_beside_each_other(Algorithm algorithm);

// News of siblings and of other regions arrive at once, for this window and for the next.
[[nodiscard]] Scene news_of_both_kinds();

// --- telling: telling_scenes.cc ---

// A batch that is refused in the end, beside a replay of what its first tuple had accepted before:
// in the window of the batch, or in the one before it.
enum class Accepted : uint8_t { kInThisWindow, kInTheLastWindow };
[[nodiscard]] Scene refused_batch_beside_a_replay(Accepted accepted);

// Requests beside replays, by the slow path or by the fast one.
enum class Path : uint8_t { kSlow, kFast };
[[nodiscard]] Scene charges_beside_replays(Path path);

// Requests that wait for one read of the origin, beside its reply and its deadline.
[[nodiscard]] Scene waiters_of_one_read();

// Requests beside the thread that holds counts against the publish rule.
[[nodiscard]] Scene charges_beside_sharing();

// --- the table: table_scenes.cc ---

// New tuples push a tuple out of a full table, while a replay of it lands.
[[nodiscard]] Scene flood_beside_a_replay();

// The same, while a reader who is refused looks at the tuple.
[[nodiscard]] Scene flood_beside_a_reader();

// Two threads ask for a tuple that does not exist yet.
[[nodiscard]] Scene creation_of_one_tuple();

}  // namespace weir::schedule
