#include "origins/in_process_origin.h"

#include "tests/contracts/origin_contract.h"

namespace weir::contracts {

struct InProcess {
  using Clock = doubles::HandClock;
  static constexpr bool kTimeIsReal = false;
  explicit InProcess(const Clock& at) : clock(at) {}
  [[nodiscard]] std::shared_ptr<RegionalOrigin> make() const {
    return make_in_process_origin(clock);
  }
  void settle() const {}
  const Clock& clock;
};

INSTANTIATE_TYPED_TEST_SUITE_P(InProcessOrigin, OriginContract, InProcess);

}  // namespace weir::contracts
