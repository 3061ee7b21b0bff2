// The whole library without its optional components: weir/redis.h, weir/mysql.h, weir/sqlite.h and
// weir/testing.h are separate.

#pragma once

#include "weir/awaitable.h"
#include "weir/clock.h"
#include "weir/error.h"
#include "weir/executor.h"
#include "weir/export.h"
#include "weir/ledger.h"
#include "weir/limiter.h"
#include "weir/options.h"
#include "weir/origin.h"
#include "weir/request.h"
#include "weir/runner.h"
#include "weir/stats.h"
#include "weir/time.h"
#include "weir/unique_function.h"
#include "weir/validate.h"
#include "weir/verdict.h"
#include "weir/version.h"
