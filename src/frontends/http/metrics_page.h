// The page /metrics in the text format of Prometheus.

#pragma once

#include "frontends/bytes.h"
#include "frontends/service.h"
#include "weir/stats.h"

namespace weir::frontends {

void write_metrics(const Service& service, Bytes& out);
// The part about the exchange with other regions.
void write_sync_metrics(const SyncStats& stats, Bytes& out);

}  // namespace weir::frontends
