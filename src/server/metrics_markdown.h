// docs/metrics.md, generated from the table of metrics.

#pragma once

#include <string>

namespace weir::server {

[[nodiscard]] std::string metrics_markdown();

}  // namespace weir::server
