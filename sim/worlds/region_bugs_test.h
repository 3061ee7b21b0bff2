// Bugs planted in what processes of one region know of each other. Each function sets up the one
// situation in which such a bug has an effect, and returns whether it had.

#pragma once

namespace weir::sim {

// While the origin is lost, a backlog and a ring take over the usage of a window, and the ring that
// of the backlog. Returns whether the backlog is then charged for its own usage by way of the ring.
bool a_conversion_tells_its_own_usage();

// An algorithm is changed while the origin is lost. Returns whether what the process has admitted
// by its allowance since the last answer is forgotten.
bool a_conversion_forgets_the_allowance();

// The answer to a call comes when the tuple was reset and created again. Returns whether the origin
// is not told of what the new one has admitted.
bool an_answer_reaches_a_tuple_created_since();

// The origin has lost the last window, which a process knows. Returns whether it grants all the
// same what the last window holds back.
bool a_step_ignores_what_others_used_last();

// The bridge publishes what a step was granted before the process has the answer. Returns whether
// the process takes that for counts of siblings.
bool an_own_grant_counts_as_that_of_siblings();

// A process replays a count after a grant that came too late for the request. Returns whether it
// writes less than was granted.
bool a_replay_takes_back_a_grant();

// Requests find no answer in a window that begins with most of the limit held back by the own last
// window. Returns whether they are admitted as if nothing were.
bool a_late_answer_forgets_the_own_last_window();

}  // namespace weir::sim
