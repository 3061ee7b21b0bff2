// A real mariadbd for tests: its own port on loopback and socket, its own folder, gone with it.
//
// It takes seconds to start, so tests of one binary share it, each with a database of its own.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/servers/temporary_folder.h"

namespace weir::servers {

class MariaDbServer {
 public:
  // Waits until it answers. `more` are further flags.
  explicit MariaDbServer(std::vector<std::string> more = {});
  ~MariaDbServer();
  MariaDbServer(const MariaDbServer&) = delete;
  MariaDbServer& operator=(const MariaDbServer&) = delete;

  // The one that tests share; ends with the process.
  static MariaDbServer& shared();

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::string socket() const { return (folder_.path() / "s").string(); }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }

  // An empty database of a new name, and a user "weir" with the password "secret" who may do
  // everything in it, and nothing else.
  [[nodiscard]] std::string new_database();

  // Says something as root, by a connection of its own; the first column of each row.
  std::vector<std::string> say(const std::string& sql, const std::string& database = "");

  void kill();     // as a crash would
  void restart();  // on the same port, with what it had committed
  void stop();     // SIGSTOP: there, but silent
  void go_on();    // SIGCONT

 private:
  [[nodiscard]] std::vector<std::string> place() const;
  void install() const;
  void start();
  [[nodiscard]] bool answers();

  uint16_t port_;
  std::vector<std::string> more_;
  const TemporaryFolder folder_{"mariadb"};
  int process_ = -1;
  int databases_ = 0;
};

}  // namespace weir::servers
