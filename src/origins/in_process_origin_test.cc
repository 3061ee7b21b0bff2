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

namespace weir::origins {
namespace {

TEST(InProcessOrigin, KeepsTheLargestPublishedCount) {
  const doubles::HandClock clock;
  InProcessOrigin origin(clock);
  const CellId cell{"tuple", 5};
  for (const Count total : {Count{8}, Count{3}}) {
    origin.note_published(
        {{.cell = cell, .total = total, .expires_at = clock.now().wall + Millis(1000)}});
  }
  origin.read({{.cell = cell, .reader = {}}},
              [](const auto& totals) { EXPECT_EQ(totals->at(0).published, 8u); });
  EXPECT_TRUE(origin.components(cell).empty());
}

}  // namespace
}  // namespace weir::origins
