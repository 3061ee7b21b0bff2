// A real redis-server for a test, on its own loopback port and in its own folder. The destructor
// kills it.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/servers/temporary_folder.h"

namespace weir::servers {

class RedisServer {
 public:
  // Waits until the server answers.
  explicit RedisServer(std::vector<std::string> extra_flags = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

  // Sends a command over a new connection and returns the raw answer.
  [[nodiscard]] std::string ask(const std::string& line) const;

  void kill();     // SIGKILL, like a crash
  void restart();  // on the same port, without data
  void pause();    // SIGSTOP: the port stays open, but the server does not answer
  void resume();   // SIGCONT

 private:
  // False: it ended, because it could not have the port.
  [[nodiscard]] bool start();
  [[nodiscard]] bool has_ended();
  [[nodiscard]] bool answers() const;
  [[nodiscard]] std::filesystem::path pid_file() const { return folder_.path() / "redis.pid"; }

  uint16_t port_ = 0;
  std::vector<std::string> extra_flags_;
  const TemporaryFolder folder_{"redis"};
  int process_ = -1;
};

// An unused loopback port.
[[nodiscard]] uint16_t free_port();

}  // namespace weir::servers
