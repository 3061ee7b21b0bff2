// The planted bugs that burst_bug_test.cc finds.

#pragma once

#include <array>

#include "base/mutation.h"

namespace weir::sim {

inline constexpr std::array kBurstMutations{base::Mutation::kAllowanceWithoutExpiry,
                                            base::Mutation::kAloneBeforeHeartbeat,
                                            base::Mutation::kRefusalsPrivate,
                                            base::Mutation::kAllowanceOfAnotherLimit,
                                            base::Mutation::kAllowanceOfWholeRemainder,
                                            base::Mutation::kStepAdds,
                                            base::Mutation::kStepIgnoresForeign,
                                            base::Mutation::kStepIgnoresLast,
                                            base::Mutation::kLateAsLocal};

}  // namespace weir::sim
