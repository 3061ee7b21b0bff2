// The page /metrics in the text format of Prometheus.

#pragma once

#include "frontends/bytes.h"
#include "frontends/service.h"

namespace weir::frontends {

void write_metrics(const Service& service, Bytes& out);

}  // namespace weir::frontends
