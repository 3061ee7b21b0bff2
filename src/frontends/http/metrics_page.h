// What a server tells about itself, as Prometheus reads it.

#pragma once

#include "frontends/bytes.h"
#include "frontends/service.h"

namespace weir::frontends {

void write_metrics(const Service& service, Bytes& out);

}  // namespace weir::frontends
