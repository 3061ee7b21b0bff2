// The planted bugs that only threads show: schedules must find them. sim/mutation_test.cc looks for
// the others.

#pragma once

#include "memory/mutation.h"

namespace weir::schedule {

inline constexpr memory::Mutation kThreadMutations[] = {memory::Mutation::kCreatedTwice,
                                                        memory::Mutation::kMarkedCleanLast};

}  // namespace weir::schedule
