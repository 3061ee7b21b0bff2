#include "tests/servers/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "tests/servers/await.h"

namespace weir::servers {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

uint16_t free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  bind(probe, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  close(probe);
  return ntohs(address.sin_port);
}

RedisServer::RedisServer(std::vector<std::string> extra_flags)
    : extra_flags_(std::move(extra_flags)) {
  // Another process may take the port before the server does.
  for (int attempt = 0; attempt < 20; ++attempt) {
    port_ = free_port();
    if (start()) return;
  }
  throw std::runtime_error("redis-server does not start");
}

RedisServer::~RedisServer() {
  kill();
}

bool RedisServer::start() {
  std::vector<std::string> words = {
      "redis-server", "--port",    std::to_string(port_), "--bind", "127.0.0.1",
      "--save",       "",          "--appendonly",        "no",     "--dir",
      folder_.path(), "--pidfile", pid_file().string()};
  words.insert(words.end(), extra_flags_.begin(), extra_flags_.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::filesystem::remove(pid_file());
  process_ = fork();
  if (process_ == 0) {
    const int null_device = open("/dev/null", O_WRONLY);
    dup2(null_device, 1);
    dup2(null_device, 2);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  // It writes the file when it has the port. Before that, another server may answer there.
  await([this] { return has_ended() || std::filesystem::exists(pid_file()); });
  await([this] { return has_ended() || answers(); });
  return process_ > 0;
}

bool RedisServer::has_ended() {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) == process_) process_ = -1;
  return process_ < 0;
}

bool RedisServer::answers() const {
  const std::string answer = ask("PING");
  return answer.starts_with("+PONG") || answer.starts_with("-NOAUTH");
}

std::string RedisServer::ask(const std::string& line) const {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(port_);
  std::string answer;
  if (connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = line + "\r\nQUIT\r\n";
    send(client, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (ssize_t got = 0; (got = recv(client, buffer, sizeof buffer, 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(client);
  return answer.substr(0, answer.rfind("+OK\r\n"));
}

void RedisServer::kill() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);  // also ends a paused process, before it sends another byte
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void RedisServer::restart() {
  kill();
  await([this] { return start(); });
}

void RedisServer::pause() {
  ::kill(process_, SIGSTOP);
  waitpid(process_, nullptr, WUNTRACED);  // until all threads have stopped
}
void RedisServer::resume() {
  ::kill(process_, SIGCONT);
}

}  // namespace weir::servers
