#include "frontends/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace weir::frontends {
namespace {

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    release(object);
  }
};
using KeyPointer = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using FilePointer = std::unique_ptr<FILE, Release<std::fclose>>;
using BioPointer = std::unique_ptr<BIO, Release<BIO_free>>;

struct NamedFile {
  std::string_view setting;
  const std::string& path;
};

Error error_in(const NamedFile& file, const std::string& problem, const std::string& fix) {
  return {.field = std::string(file.setting),
          .detail = std::string(file.setting) + " is '" + file.path + "': " + problem,
          .fix = fix};
}

// Why the file cannot be read; null: it can.
std::unique_ptr<Error> check_readable(const NamedFile& file) {
  const FilePointer opened(std::fopen(file.path.c_str(), "re"));
  if (opened && std::fgetc(opened.get()) != EOF) return nullptr;
  const bool empty = opened && std::ferror(opened.get()) == 0;
  return std::make_unique<Error>(
      error_in(file, empty ? "it is empty" : std::string("it cannot be read: ") + strerror(errno),
               "name a PEM file that this user may read"));
}

// The first error of OpenSSL since the queue was cleared: its cause. Reasons are constant texts.
std::string openssl_reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_error());
  return reason == nullptr ? "unknown error" : reason;
}

// Without this, OpenSSL would ask for the password at the terminal.
int refuse_password(char* /*buffer*/, int /*size*/, int /*encrypting*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

std::unique_ptr<Error> use_key(SSL_CTX* context, const NamedFile& file,
                               const std::string& certificate) {
  if (auto error = check_readable(file)) return error;
  const FilePointer opened(std::fopen(file.path.c_str(), "re"));
  bool encrypted = false;
  const KeyPointer key(
      opened ? PEM_read_PrivateKey(opened.get(), nullptr, refuse_password, &encrypted) : nullptr);
  if (encrypted) {
    return std::make_unique<Error>(error_in(
        file, "the key is encrypted", "decrypt it: openssl pkey -in " + file.path + " -out FILE"));
  }
  if (!key) {
    return std::make_unique<Error>(
        error_in(file, "it contains no private key in PEM format", "name the file of the key"));
  }
  if (X509_check_private_key(SSL_CTX_get0_certificate(context), key.get()) != 1) {
    return std::make_unique<Error>(error_in(
        file, "the key does not belong to the certificate in tls-cert '" + certificate + "'",
        "name the key that the certificate was made for"));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return std::make_unique<Error>(error_in(file, "the key cannot be used: " + openssl_reason(),
                                            "use an EC key or an RSA key of 2048 bits or more"));
  }
  return nullptr;
}

std::unique_ptr<Error> use_certificate(SSL_CTX* context, const NamedFile& file) {
  if (auto error = check_readable(file)) return error;
  if (SSL_CTX_use_certificate_chain_file(context, file.path.c_str()) == 1) return nullptr;
  const bool none = ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_PEM;
  return std::make_unique<Error>(
      error_in(file,
               none ? "it contains no certificate in PEM format"
                    : "the certificate cannot be used: " + openssl_reason(),
               "name a PEM file with the certificate, followed by the intermediate ones"));
}

std::unique_ptr<Error> use_client_ca(SSL_CTX* context, const NamedFile& file) {
  if (auto error = check_readable(file)) return error;
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(file.path.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(context, file.path.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return std::make_unique<Error>(
        error_in(file, "it contains no certificate in PEM format",
                 "name the certificate of the authority that signs the certificates of clients"));
  }
  SSL_CTX_set_client_CA_list(context, names);  // takes the names
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return nullptr;
}

}  // namespace

Result<TlsContext::Context> TlsContext::load(const TlsSettings& settings) {
  ERR_clear_error();
  const Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) {
    return Error{.code = ErrorCode::kUnavailable,
                 .detail = "TLS cannot be started: " + openssl_reason(),
                 .fix = "check the configuration of OpenSSL on this machine"};
  }
  SSL_CTX* const raw = context.get();
  SSL_CTX_set_min_proto_version(
      raw, settings.min_version == TlsVersion::k13 ? TLS1_3_VERSION : TLS1_2_VERSION);
  // Of TLS 1.2; those of 1.3 are all of this kind. OpenSSL would also offer CBC, SHA-1 and keys
  // that are not forgotten.
  SSL_CTX_set_cipher_list(raw, "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_read_ahead(raw, 1);  // one system call for a record instead of two
  // Clients resume sessions with tickets, which need no memory here. All loops share the keys of
  // the tickets. A reloaded context has other keys, so each client is verified again.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  constexpr unsigned char kSessionId[] = "weir";
  SSL_CTX_set_session_id_context(raw, kSessionId, sizeof kSessionId - 1);
  if (const auto error = use_certificate(raw, {"tls-cert", settings.cert})) return *error;
  if (const auto error = use_key(raw, {"tls-key", settings.key}, settings.cert)) return *error;
  if (!settings.client_ca.empty()) {
    if (const auto error = use_client_ca(raw, {"tls-client-ca", settings.client_ca})) return *error;
  }
  return context;
}

TlsContext::FileStates TlsContext::states_of(const TlsSettings& settings) {
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  const std::string* const paths[] = {&settings.cert, &settings.key, &settings.client_ca};
  FileStates states;
  for (size_t i = 0; i < states.size(); ++i) {
    struct stat found {};
    if (paths[i]->empty() || stat(paths[i]->c_str(), &found) != 0) continue;
    states[i] = {.device = found.st_dev,
                 .inode = found.st_ino,
                 .size = found.st_size,
                 .modified_ns = nanoseconds(found.st_mtim),
                 .changed_ns = nanoseconds(found.st_ctim)};
  }
  return states;
}

Result<std::shared_ptr<TlsContext>> TlsContext::create(const TlsSettings& settings) {
  const std::shared_ptr<TlsContext> made(new TlsContext);
  if (const auto error = made->reload(settings)) return *error;
  return made;
}

std::unique_ptr<Error> TlsContext::reload(const TlsSettings& settings) {
  const FileStates states = states_of(settings);  // before the files are read
  Result<Context> loaded = load(settings);
  if (!loaded) {
    if (settings == settings_) loaded_ = seen_ = states;
    return std::make_unique<Error>(loaded.error());
  }
  settings_ = settings;
  loaded_ = seen_ = states;
  const base::MutexLock lock(mutex_);
  context_.swap(*loaded);
  return nullptr;
}

TlsContext::Checked TlsContext::check_files() {
  const FileStates states = states_of(settings_);
  if (std::exchange(seen_, states) != states || states == loaded_) return {};
  auto error = reload(TlsSettings(settings_));
  return {.loaded = error == nullptr, .error = std::move(error)};
}

TlsContext::Context TlsContext::current() const {
  const base::MutexLock lock(mutex_);
  return context_;
}

std::unique_ptr<TlsStream> TlsContext::open(int socket) const {
  return TlsStream::accept(current().get(), socket);
}

std::string TlsContext::certificate() const {
  const Context context = current();
  const X509* const certificate = SSL_CTX_get0_certificate(context.get());
  const BioPointer text(BIO_new(BIO_s_mem()));
  if (!text) return {};
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  const std::string subject(data, static_cast<size_t>(size));
  const ASN1_TIME* const until = X509_get0_notAfter(certificate);
  tm end{};
  char formatted[32] = "an unknown time";
  if (ASN1_TIME_to_tm(until, &end) == 1) {
    std::strftime(formatted, sizeof formatted, "%Y-%m-%d %H:%M:%S UTC", &end);
  }
  return subject + (X509_cmp_current_time(until) < 0 ? ", EXPIRED at " : ", valid until ") +
         formatted;
}

}  // namespace weir::frontends
