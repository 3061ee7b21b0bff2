// The response to a client that the admission refuses.

#pragma once

#include <string_view>

#include "frontends/admission.h"

namespace weir::frontends {

[[nodiscard]] std::string_view http_refusal(Refusal reason);

}  // namespace weir::frontends
