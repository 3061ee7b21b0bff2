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

RedisServer::RedisServer(std::vector<std::string> more)
    : port_(free_port()), more_(std::move(more)) {
  start();
}

RedisServer::~RedisServer() {
  kill();
}

void RedisServer::start() {
  std::vector<std::string> words = {
      "redis-server", "--port", std::to_string(port_), "--bind", "127.0.0.1",
      "--save",       "",       "--appendonly",        "no",     "--dir",
      folder_.path()};
  words.insert(words.end(), more_.begin(), more_.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  process_ = fork();
  if (process_ == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  if (!await([this] { return answers(); }, std::chrono::seconds(10))) {
    throw std::runtime_error("redis-server does not answer");
  }
}

bool RedisServer::answers() const {
  const std::string answer = ask("PING");
  return answer.starts_with("+PONG") || answer.starts_with("-NOAUTH");
}

std::string RedisServer::ask(const std::string& line) const {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
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
  ::kill(process_, SIGKILL);  // ends also who is stopped, before it says another word
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void RedisServer::restart() {
  kill();
  start();
}

void RedisServer::stop() {
  ::kill(process_, SIGSTOP);
  waitpid(process_, nullptr, WUNTRACED);  // until the last of its threads has stopped
}
void RedisServer::go_on() {
  ::kill(process_, SIGCONT);
}

}  // namespace weir::servers
