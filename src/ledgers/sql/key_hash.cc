#include "ledgers/sql/key_hash.h"

#include <openssl/evp.h>

#include "base/check.h"
#include "ledgers/rows.h"

namespace weir::ledgers {

KeyHasher::KeyHasher()
    : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
  WEIR_CHECK(algorithm_ != nullptr && context_ != nullptr);
}

KeyHasher::~KeyHasher() {
  EVP_MD_CTX_free(context_);
  EVP_MD_free(algorithm_);
}

std::string KeyHasher::operator()(const LedgerKey& key) const {
  const std::string identity = identity_of(key);
  std::string hash(32, '\0');
  unsigned size = 0;
  WEIR_CHECK(EVP_DigestInit_ex(context_, algorithm_, nullptr) == 1 &&
             EVP_DigestUpdate(context_, identity.data(), identity.size()) == 1 &&
             EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(hash.data()), &size) ==
                 1 &&
             size == hash.size());
  return hash;
}

}  // namespace weir::ledgers
