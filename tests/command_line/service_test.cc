// The notifications of the server to systemd, as a service of Type=notify.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "tests/servers/temporary_folder.h"

namespace weir {
namespace {

// The notification socket of a service manager.
class NotifySocket {
 public:
  // A name that starts with '@' is in the abstract namespace.
  explicit NotifySocket(const std::string& name) : socket_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~NotifySocket() { close(socket_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // The next message; "nothing" after a minute.
  [[nodiscard]] std::string receive() const {
    pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, 60'000) != 1) return "nothing";
    char text[512];
    const ssize_t count = recv(socket_, text, sizeof text, 0);
    return count < 0 ? "nothing" : std::string(text, static_cast<size_t>(count));
  }
  // The next message that is not a watchdog ping.
  [[nodiscard]] std::string receive_other() const {
    std::string message = receive();
    while (message == "WATCHDOG=1") message = receive();
    return message;
  }

 private:
  const int socket_;
};

class Service {
 public:
  Service(const std::string& folder, const std::string& socket, const char* watchdog) {
    pid_ = fork();
    if (pid_ != 0) return;
    setenv("NOTIFY_SOCKET", socket.c_str(), 1);
    setenv("WEIR_ROOT_KEY", "a_root_key_that_only_tests_know", 1);
    if (watchdog != nullptr) setenv("WATCHDOG_USEC", watchdog, 1);
    execl(WEIR_BINARY, WEIR_BINARY, "serve", "--http", "127.0.0.1:0", "--resp", "off", "--data",
          folder.c_str(), "--log", (folder + ".log").c_str(), nullptr);
    _exit(127);
  }
  ~Service() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void send(int signal) const { kill(pid_, signal); }
  [[nodiscard]] int exit_code() {
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

TEST(ServiceManager, ReceivesReadyReloadingAndStopping) {
  const servers::TemporaryFolder folder("service");
  const std::string socket = folder.path() / "notify";
  const NotifySocket manager(socket);
  Service service(folder.path() / "data", socket, nullptr);
  EXPECT_EQ(manager.receive(), "READY=1");
  service.send(SIGHUP);
  const std::string reloading = manager.receive();
  EXPECT_TRUE(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC=")) << reloading;
  EXPECT_EQ(manager.receive(), "READY=1");
  service.send(SIGUSR1);
  service.send(SIGTERM);
  EXPECT_EQ(manager.receive(), "STOPPING=1");
  EXPECT_EQ(service.exit_code(), 0);
}

TEST(ServiceManager, ReceivesWatchdogPingsIfEnabled) {
  const servers::TemporaryFolder folder("service");
  const std::string socket = "@weir-test-" + std::to_string(getpid());
  const NotifySocket manager(socket);
  Service service(folder.path() / "data", socket, "400000");
  EXPECT_EQ(manager.receive(), "READY=1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.receive(), "WATCHDOG=1");
  service.send(SIGTERM);
  EXPECT_EQ(manager.receive_other(), "STOPPING=1");
  EXPECT_EQ(service.exit_code(), 0);
}

}  // namespace
}  // namespace weir
