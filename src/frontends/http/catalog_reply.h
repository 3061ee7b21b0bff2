// What the calls of the catalog share: refusals, look-ups that may refuse, and pages.

#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/changes.h"
#include "frontends/http/catalog_api.h"
#include "frontends/http/json_object.h"
#include "frontends/range.h"

namespace weir::frontends {

inline constexpr Range kPageRange{1, 100};
inline constexpr int64_t kDefaultPage = 50;
inline constexpr Range kLimitRange{1, kMaxLimit};

[[nodiscard]] CatalogReply failed(HttpError error, std::string detail);
[[nodiscard]] CatalogReply invalid(BodyProblems problems);
// The key lacks the permission for a verb; on all targets if none is given.
[[nodiscard]] CatalogReply forbidden(catalog::Verb verb, std::string_view target = {});

[[nodiscard]] catalog::Author author_of(const CatalogCall& call);

// A namespace on which the key has a right, or the reply that refuses it.
struct FoundNamespace {
  const catalog::NamespaceView* view = nullptr;
  std::optional<CatalogReply> refusal{};
};
[[nodiscard]] FoundNamespace find_namespace(const CatalogCall& call, catalog::Verb verb,
                                            std::string_view name);

// The reply to a change that the catalog refuses (catalog/checks.h).
[[nodiscard]] CatalogReply refused(const Error& error);

// The workspace of a call that names one, which only the root key may.
struct FoundWorkspace {
  std::string id;
  std::optional<CatalogReply> refusal{};
};
[[nodiscard]] FoundWorkspace find_workspace(const CatalogCall& call,
                                            const std::optional<std::string>& id);

// The page of `all` behind the cursor, which is the id of an item that may have been deleted
// meanwhile: the items are in the order of their ids.
template <typename Item, typename IdOf, typename ToJson>
void set_page(std::span<const Item> all, const std::optional<std::string>& cursor, int64_t most,
              const IdOf& id_of, const ToJson& to_json, CatalogReply& reply) {
  auto at = all.begin();
  if (cursor) at = std::ranges::upper_bound(all, std::string_view(*cursor), {}, id_of);
  std::vector<std::string> items;
  std::string last;
  for (; at != all.end() && std::cmp_less(items.size(), most); ++at) {
    items.push_back(to_json(*at));
    last = id_of(*at);
  }
  reply.data = json_array(items);
  JsonObject pagination;
  if (at != all.end()) pagination.add("cursor", last);
  reply.pagination = pagination.add_flag("hasMore", at != all.end()).text();
}

}  // namespace weir::frontends
