#include "frontends/http/catalog_api.h"

#include "frontends/http/catalog_calls.h"

namespace weir::frontends {

std::span<const CatalogOperation> catalog_operations() {
  static const std::vector<CatalogOperation> all = [] {
    std::vector<CatalogOperation> operations;
    for (const auto calls :
         {override_calls(), namespace_calls(), key_calls(), workspace_calls(), audit_calls()}) {
      operations.insert(operations.end(), calls.begin(), calls.end());
    }
    return operations;
  }();
  return all;
}

}  // namespace weir::frontends
