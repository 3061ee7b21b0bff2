// The catalog in the database of the ledger, for either dialect.
//
// A write first raises the revision, which is one row. Its lock makes other writes wait until the
// commit: so revisions grow in the order of the commits, and a reader that has seen a revision has
// missed nothing before it. The entries of a write in the audit log are numbered from a random
// position, by which a reader recognizes the write.

#pragma once

#include <memory>
#include <string>

#include "catalog/catalog_store.h"
#include "ledgers/sql/ledger_address.h"
#include "ledgers/sql/sql_link.h"
#include "weir/clock.h"

namespace weir::catalog {

// `address` names the store in errors; it contains no secrets.
[[nodiscard]] std::unique_ptr<CatalogStore> make_sql_catalog(ledgers::LedgerKind dialect,
                                                             std::unique_ptr<ledgers::SqlLink> link,
                                                             std::string address);

// Connects at the first call.
[[nodiscard]] std::unique_ptr<CatalogStore> make_catalog_store(
    const Clock& clock, const ledgers::LedgerAddress& address);

}  // namespace weir::catalog
