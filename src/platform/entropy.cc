#include "platform/entropy.h"

#include <sys/random.h>

#include "base/check.h"

namespace weir::platform {

uint64_t entropy() {
  uint64_t value = 0;
  WEIR_CHECK(getrandom(&value, sizeof value, 0) == sizeof value);
  return value;
}

}  // namespace weir::platform
