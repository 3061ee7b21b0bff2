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

// One thread comes late with a request of a window while another charges the next one; the window
// before both was charged, too.
[[nodiscard]] Scene late_request_beside_the_next_window();

// Several threads ask one tuple for more than the limit.
[[nodiscard]] Scene one_tuple_asked_by_many(Algorithm algorithm);

// A tuple that has expired is asked again while the sweep comes by.
[[nodiscard]] Scene charge_beside_a_sweep(Algorithm algorithm);

// A tuple is asked with two limits, so that its state has to be rebuilt while others charge it.
[[nodiscard]] Scene charge_beside_a_rebuild(Algorithm algorithm);

// A tuple is reset while others charge it.
[[nodiscard]] Scene charge_beside_a_reset(Algorithm algorithm);

// A tuple is reset while a batch charges it and, refused by its other tuple, takes that back.
[[nodiscard]] Scene refused_batch_beside_a_reset(Algorithm algorithm);

// Batches over the same two tuples, and a single request.
[[nodiscard]] Scene batches_beside_each_other(Algorithm algorithm);

// News of siblings and of other regions arrive at once, for this window and for the next.
[[nodiscard]] Scene news_of_both_kinds();

// Requests and batches, drawn from `recipe`, at both sides of a window boundary.
[[nodiscard]] Scene any_counting(uint64_t recipe);

// --- telling: telling_scenes.cc ---

// A batch that is refused in the end, beside a replay of what its first tuple had accepted before:
// in the window of the batch, or in the one before it.
enum class Accepted : uint8_t { kInThisWindow, kInTheLastWindow };
[[nodiscard]] Scene refused_batch_beside_a_replay(Accepted accepted);

// Requests beside replays, by the slow path or by the fast one.
enum class Path : uint8_t { kSlow, kFast };
[[nodiscard]] Scene charges_beside_replays(Path path);

// Requests beside replays on two threads.
[[nodiscard]] Scene replays_on_two_threads();

// Requests that wait for one read of the origin, beside its reply and its deadline.
[[nodiscard]] Scene waiters_of_one_read();

// Requests beside the thread that holds counts against the publish rule.
[[nodiscard]] Scene charges_beside_sync();

// A tuple is made while the first news of it comes from another region.
[[nodiscard]] Scene creation_beside_news_of_another_region();

// A tuple is made by several threads after another region was heard to have used most of it.
[[nodiscard]] Scene creation_of_a_tuple_known_abroad();

// Requests beside replays whose answers come late, or after their deadline.
[[nodiscard]] Scene replays_that_are_answered_late();

// --- the table: table_scenes.cc ---

// New tuples push a tuple out of a full table, while a replay of it lands.
[[nodiscard]] Scene flood_beside_a_replay();

// A tuple is charged for the first time in a window while a replay tells of the one before it, and
// is then pushed out of the table.
[[nodiscard]] Scene first_charge_of_a_window_beside_a_replay();

// New tuples push a tuple out, while a reader who is refused looks at the tuple.
[[nodiscard]] Scene flood_beside_a_reader();

// Requests that read the origin first, which has no more to give, while new tuples push theirs out.
[[nodiscard]] Scene reads_beside_a_flood();

// Two threads ask for a tuple; the first to come finds no slot for it, the other one does.
[[nodiscard]] Scene sketch_beside_a_slot_that_comes_free();

// Requests, batches, replays and new tuples, drawn from `recipe`, on a table that is nearly full.
[[nodiscard]] Scene any_telling(uint64_t recipe);

// Two threads ask for a tuple that does not exist yet.
[[nodiscard]] Scene creation_of_one_tuple();

}  // namespace weir::schedule
