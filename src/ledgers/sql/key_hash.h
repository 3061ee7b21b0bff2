// The key of a tuple in a store: the SHA-256 of its identity.

#pragma once

#include <string>

#include "weir/ledger.h"

using EVP_MD_CTX = struct evp_md_ctx_st;
using EVP_MD = struct evp_md_st;

namespace weir::ledgers {

// Fetches the algorithm once, since that takes longer than a hash. One thread at a time.
class KeyHasher {
 public:
  KeyHasher();
  ~KeyHasher();
  KeyHasher(const KeyHasher&) = delete;
  KeyHasher& operator=(const KeyHasher&) = delete;

  // 32 bytes.
  [[nodiscard]] std::string operator()(const LedgerKey& key) const;

 private:
  EVP_MD* const algorithm_;
  EVP_MD_CTX* const context_;
};

}  // namespace weir::ledgers
