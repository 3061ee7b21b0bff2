// A real mariadbd for tests, on its own loopback port and socket and in its own folder. The
// destructor kills it.
//
// It takes seconds to start, so the tests of one binary share one server; each test has its own
// database.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/servers/temporary_folder.h"

namespace weir::servers {

class MariaDbServer {
 public:
  // Waits until the server answers.
  explicit MariaDbServer(std::vector<std::string> extra_flags = {});
  ~MariaDbServer();
  MariaDbServer(const MariaDbServer&) = delete;
  MariaDbServer& operator=(const MariaDbServer&) = delete;

  // The server that tests share; it ends with the process.
  static MariaDbServer& shared();

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::string socket() const { return (folder_.path() / "s").string(); }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }

  // Creates an empty database. The user "weir" with the password "secret" has all rights in it, and
  // no others.
  [[nodiscard]] std::string new_database();

  // Runs a statement as root over a new connection. Returns the first column of each row.
  std::vector<std::string> query(const std::string& sql, const std::string& database = "");

  void kill();     // SIGKILL, like a crash
  void restart();  // on the same port, with the committed data
  void pause();    // SIGSTOP: the port stays open, but the server does not answer
  void resume();   // SIGCONT

 private:
  [[nodiscard]] std::vector<std::string> folder_flags() const;
  void install() const;
  void start();
  [[nodiscard]] bool answers();

  uint16_t port_;
  std::vector<std::string> extra_flags_;
  const TemporaryFolder folder_{"mariadb"};
  int process_ = -1;
  int databases_ = 0;
};

}  // namespace weir::servers
