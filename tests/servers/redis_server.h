// A real redis-server for a test: its own port on loopback, its own folder, gone with it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/servers/temporary_folder.h"

namespace weir::servers {

class RedisServer {
 public:
  // Waits until it answers. `more` are further flags.
  explicit RedisServer(std::vector<std::string> more = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

  // Sends it a command by a connection of its own; the raw answer.
  [[nodiscard]] std::string ask(const std::string& line) const;

  void kill();     // as a crash would
  void restart();  // on the same port, with nothing in it
  void stop();     // SIGSTOP: there, but silent
  void go_on();    // SIGCONT

 private:
  void start();
  [[nodiscard]] bool answers() const;

  uint16_t port_;
  std::vector<std::string> more_;
  const TemporaryFolder folder_{"redis"};
  int process_ = -1;
};

// A port of loopback that nobody uses now.
[[nodiscard]] uint16_t free_port();

}  // namespace weir::servers
