// Everything an embedder may use.

#pragma once

#include "weir/clock.h"
#include "weir/error.h"
#include "weir/executor.h"
#include "weir/ledger.h"
#include "weir/limiter.h"
#include "weir/options.h"
#include "weir/origin.h"
#include "weir/request.h"
#include "weir/time.h"
#include "weir/verdict.h"
#include "weir/version.h"
