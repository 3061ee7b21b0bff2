// The planted bugs that only threads can show: schedules must find them.
// sim/worlds/mutation_test.cc tests for the others.

#pragma once

#include "base/mutation.h"

namespace weir::schedule {

inline constexpr base::Mutation kThreadMutations[] = {base::Mutation::kCreatedTwice,
                                                      base::Mutation::kMarkedCleanLast};

}  // namespace weir::schedule
