// The workloads: each runs production code on a small state, in few operations, and checks an
// invariant afterwards that must hold for every order of those operations.

#pragma once

#include "tests/schedule/workload.h"
#include "weir/request.h"

namespace weir::schedule {

// --- counting: counting_workloads.cc ---

// Two threads, on the two sides of a window boundary, together request more than the limit. What
// was charged to the tuple before:
enum class Before : uint8_t { kNothing, kOlderWindow, kOldWindow };
[[nodiscard]] Workload both_sides_of_a_boundary(Before before);

// One thread is late with a request of a window while another charges the next window; the window
// before both was charged, too.
[[nodiscard]] Workload late_request_beside_the_next_window();

// Several threads request more than the limit of one tuple.
[[nodiscard]] Workload one_tuple_charged_by_many(Algorithm algorithm);

// An expired tuple is charged again during a sweep.
[[nodiscard]] Workload charge_beside_a_sweep(Algorithm algorithm);

// Requests with two limits, so that the tuple is rebuilt while others charge it.
[[nodiscard]] Workload charge_beside_a_rebuild(Algorithm algorithm);

// A tuple is reset while others charge it.
[[nodiscard]] Workload charge_beside_a_reset(Algorithm algorithm);

// A tuple is reset while a batch charges it, is denied by its other tuple, and takes the charge
// back.
[[nodiscard]] Workload refused_batch_beside_a_reset(Algorithm algorithm);

// Batches over the same two tuples, and a single request.
[[nodiscard]] Workload batches_beside_each_other(Algorithm algorithm);

// Counts of siblings and of other regions arrive concurrently, for this window and the next.
[[nodiscard]] Workload imports_of_both_kinds();

// Requests and batches, drawn from `recipe`, at both sides of a window boundary.
[[nodiscard]] Workload any_counting(uint64_t recipe);

// --- replay and sync: replay_workloads.cc ---

// A batch that is denied in the end, beside a replay of the earlier counts of its first tuple:
// in the window of the batch, or in the one before it.
enum class Accepted : uint8_t { kInThisWindow, kInTheLastWindow };
[[nodiscard]] Workload refused_batch_beside_a_replay(Accepted accepted);

// Requests beside replays, by the slow path or by the fast one.
enum class Path : uint8_t { kSlow, kFast };
[[nodiscard]] Workload charges_beside_replays(Path path);

// Requests beside replays on two threads.
[[nodiscard]] Workload replays_on_two_threads();

// Requests that wait for one read of the origin, beside its reply and its deadline.
[[nodiscard]] Workload waiters_of_one_read();

// Requests beside the thread that evaluates the publish rule.
[[nodiscard]] Workload charges_beside_sync();

// A tuple is created while its first row of another region is imported.
[[nodiscard]] Workload creation_beside_an_import();

// Several threads create a tuple of which another region has used most; its row was imported
// before.
[[nodiscard]] Workload creation_of_a_tuple_with_imported_counts();

// Requests beside replays whose replies come late, or after their deadline.
[[nodiscard]] Workload replays_that_are_answered_late();

// --- the table: table_workloads.cc ---

// New tuples evict a tuple from a full table while the reply to its replay arrives.
[[nodiscard]] Workload flood_beside_a_replay();

// The first charge of a window beside a replay of the window before it; then the tuple is evicted.
[[nodiscard]] Workload first_charge_of_a_window_beside_a_replay();

// New tuples evict a tuple while a denied request reads it.
[[nodiscard]] Workload flood_beside_a_reader();

// Requests that read an exhausted tuple from the origin while new tuples evict it.
[[nodiscard]] Workload reads_beside_a_flood();

// Two threads request a new tuple; the first finds no slot for it, the other one does.
[[nodiscard]] Workload sketch_beside_a_freed_slot();

// Requests, batches, replays and new tuples, drawn from `recipe`, on a table that is nearly full.
[[nodiscard]] Workload any_replaying(uint64_t recipe);

// Several threads request a tuple that does not exist yet.
[[nodiscard]] Workload creation_of_one_tuple();

}  // namespace weir::schedule
