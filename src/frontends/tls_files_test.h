// Certificates for tests, written as PEM files.

#pragma once

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

namespace weir::frontends {

// A key and a certificate that it has signed itself.
class TestCertificate {
 public:
  enum class Kind : uint8_t { kEc, kRsa };

  explicit TestCertificate(const std::string& name, Kind kind = Kind::kEc)
      : key_(kind == Kind::kEc ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048), EVP_PKEY_free),
        certificate_(X509_new(), X509_free) {
    X509* const made = certificate_.get();
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -60);
    X509_gmtime_adj(X509_getm_notAfter(made), 3600);
    X509_set_pubkey(made, key_.get());
    X509_NAME* const subject = X509_get_subject_name(made);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made, subject);
    if (X509_sign(made, key_.get(), EVP_sha256()) == 0) std::abort();
  }

  [[nodiscard]] std::string certificate() const {
    return text([this](BIO* bio) { return PEM_write_bio_X509(bio, certificate_.get()); });
  }
  [[nodiscard]] std::string key() const {
    return text([this](BIO* bio) {
      return PEM_write_bio_PrivateKey(bio, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  [[nodiscard]] std::string encrypted_key() const {
    return text([this](BIO* bio) {
      const unsigned char password[] = "secret";
      return PEM_write_bio_PrivateKey(bio, key_.get(), EVP_aes_128_cbc(), password, 6, nullptr,
                                      nullptr);
    });
  }

 private:
  template <typename Write>
  static std::string text(const Write& write) {
    const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new(BIO_s_mem()), BIO_free);
    if (write(bio.get()) != 1) std::abort();
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<size_t>(size)};
  }

  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
  std::unique_ptr<X509, void (*)(X509*)> certificate_;
};

// Replaces the file at once, like the tools that renew certificates.
inline void write_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path next = path.string() + ".new";
  std::ofstream(next) << text;
  std::filesystem::rename(next, path);
}

}  // namespace weir::frontends
