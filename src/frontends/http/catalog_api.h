// The calls of the HTTP API that read and change the catalog: overrides, namespaces, keys,
// workspaces, resets, and the audit log.
//
// A call is a pure function of the snapshot and the body. It returns the response, and what has to
// be written before the response is sent.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "frontends/access.h"
#include "frontends/http/http_errors.h"
#include "frontends/http/limit_body.h"
#include "weir/time.h"

namespace weir::frontends {

struct CatalogCall {
  const Access& access;
  const catalog::Snapshot& snapshot;
  std::string_view body;  // Bytes::kPadding bytes behind it must be readable
  WallTime now{};
  std::function<uint64_t()> random = {};
};

struct CatalogReply {
  HttpError error = HttpError::kNone;
  std::string detail = {};      // of an error
  BodyProblems problems = {};   // of the body
  std::string data = "{}";      // JSON
  std::string pagination = {};  // JSON; empty: none

  // Set if the reply depends on the store.
  std::vector<catalog::CatalogWrite> writes = {};
  struct AuditPage {
    std::string workspace;
    catalog::AuditPosition before = {};
    size_t most = 0;  // one more is read, to know whether there are more
  };
  std::optional<AuditPage> audit = {};
};

struct CatalogOperation {
  std::string_view path;
  std::optional<catalog::Verb> verb;  // nullopt: only the root key may call it
  CatalogReply (*run)(const CatalogCall& call);
};
[[nodiscard]] std::span<const CatalogOperation> catalog_operations();

// The refusal of a key that may not call the operation on any target. Before the body is read, so
// that nobody without a right can make the server read it.
[[nodiscard]] std::optional<CatalogReply> refusal_of(const CatalogOperation& operation,
                                                     const Access& access);

// Completes the reply to a call that read the audit log.
void complete(const std::vector<catalog::AuditEntry>& entries, CatalogReply& reply);

}  // namespace weir::frontends
