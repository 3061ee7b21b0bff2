// The certificate of a server, which can be replaced while the server runs.
//
// Connections keep the certificate that they began with. A certificate that cannot be loaded never
// replaces one that works.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "frontends/tls_stream.h"
#include "weir/error.h"

namespace weir::frontends {

enum class TlsVersion : uint8_t { k12, k13 };

// PEM files.
struct TlsSettings {
  std::string cert{};       // the certificate, then the intermediate ones
  std::string key{};        // its private key, not encrypted
  std::string client_ca{};  // signs the certificates of clients; empty: clients need none
  TlsVersion min_version = TlsVersion::k12;
  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

// open() and certificate() are safe from any thread, the other calls from one at a time.
class TlsContext {
 public:
  // Errors name the setting, the file and the remedy, and contain nothing from the files.
  [[nodiscard]] static Result<std::shared_ptr<TlsContext>> create(const TlsSettings& settings);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Loads the files again, for connections from now on. After an error nothing has changed.
  [[nodiscard]] std::unique_ptr<Error> reload(const TlsSettings& settings);

  // Loads the files again if they have changed. To be called about once a second: files that are
  // being replaced are loaded when they were the same in two calls.
  struct Checked {
    bool loaded = false;
    std::unique_ptr<Error> error{};  // of changed files; reported once
  };
  [[nodiscard]] Checked check_files();

  // The server side of a new connection; null: no memory.
  [[nodiscard]] std::unique_ptr<TlsStream> open(int socket) const;

  // Subject and end of the certificate: "CN = api.example.com, valid until 2027-01-31 12:00:00
  // UTC".
  [[nodiscard]] std::string certificate() const;

 private:
  using Context = std::shared_ptr<ssl_ctx_st>;
  // Changes whenever a file does.
  struct FileState {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t size = -1;  // -1: there is no such file
    int64_t modified_ns = 0;
    int64_t changed_ns = 0;
    friend bool operator==(const FileState&, const FileState&) = default;
  };
  using FileStates = std::array<FileState, 3>;

  TlsContext() = default;
  [[nodiscard]] static FileStates states_of(const TlsSettings& settings);
  [[nodiscard]] static Result<Context> load(const TlsSettings& settings);
  [[nodiscard]] Context current() const;

  TlsSettings settings_;
  FileStates loaded_;  // when they were loaded last, with success or not
  FileStates seen_;    // in the last check

  mutable base::StdMutex mutex_;
  Context context_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::frontends
