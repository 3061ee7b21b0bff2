// Stands between an origin and its redis-server, and replaces the texts of the scripts on the way;
// and a connection of a test to the server.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "origins/redis/redis_command.h"
#include "origins/redis/redis_reply.h"
#include "origins/redis/redis_scripts.h"

namespace weir::origins {

// A blocking socket on the loopback interface.
class LoopbackSocket {
 public:
  static LoopbackSocket connected(uint16_t port) {
    LoopbackSocket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(port);
    (void)connect(made.fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    return made;
  }
  // On a free port.
  static LoopbackSocket listening() {
    LoopbackSocket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(0);
    (void)bind(made.fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    (void)listen(made.fd_, 16);
    return made;
  }
  explicit LoopbackSocket(int fd) : fd_(fd) {
    const int on = 1;
    (void)setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  LoopbackSocket(LoopbackSocket&& from) noexcept : fd_(std::exchange(from.fd_, -1)) {}
  ~LoopbackSocket() {
    if (fd_ >= 0) close(fd_);
  }

  [[nodiscard]] uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    (void)getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  // Negative: the socket was shut down.
  [[nodiscard]] int accept_one() const { return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC); }
  // Ends all calls in all threads.
  void shut_down() const { (void)shutdown(fd_, SHUT_RDWR); }
  // False: it was closed.
  [[nodiscard]] bool receive(std::string& into) const {
    char buffer[8192];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    into.append(buffer, static_cast<size_t>(got));
    return true;
  }
  void send_all(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }

 private:
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  int fd_;
};

// One thread at a time.
class ServerConnection {
 public:
  explicit ServerConnection(uint16_t port) : socket_(LoopbackSocket::connected(port)) {}

  // The reply is valid until the next call.
  const RedisReply& ask(const std::vector<std::string>& words) {
    std::string command;
    append_command(command, std::vector<std::string_view>(words.begin(), words.end()));
    socket_.send_all(command);
    received_.clear();
    size_t bytes = 0;
    reply_ = {};
    while (parse_reply(received_, reply_, bytes) != ReplyStatus::kComplete) {
      reply_ = {};
      if (!socket_.receive(received_)) break;
    }
    return reply_;
  }

 private:
  const LoopbackSocket socket_;
  std::string received_;
  RedisReply reply_;
};

class ScriptProxy {
 public:
  using Texts = std::array<std::string, static_cast<size_t>(Script::kCount)>;

  explicit ScriptProxy(uint16_t server)
      : server_(server),
        listener_(LoopbackSocket::listening()),
        acceptor_([this] { accept_all(); }) {}
  ~ScriptProxy() {
    listener_.shut_down();
    acceptor_.join();
    for (const Pair& pair : pairs_) {
      pair.client.shut_down();
      pair.server.shut_down();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  ScriptProxy(const ScriptProxy&) = delete;
  ScriptProxy& operator=(const ScriptProxy&) = delete;

  [[nodiscard]] uint16_t port() const { return listener_.port(); }
  // From the next call on.
  void use(const Texts& texts) {
    ServerConnection server(server_);
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < texts.size(); ++i) {
      digests_[i] = server.ask({"SCRIPT", "LOAD", texts[i]}).text;
    }
  }

 private:
  struct Pair {
    LoopbackSocket client;
    LoopbackSocket server;
  };

  void accept_all() {
    for (int fd = 0; (fd = listener_.accept_one()) >= 0;) {
      const Pair& pair =
          pairs_.emplace_back(Pair{LoopbackSocket(fd), LoopbackSocket::connected(server_)});
      threads_.emplace_back([&pair] {
        for (std::string bytes; pair.server.receive(bytes); bytes.clear()) {
          pair.client.send_all(bytes);
        }
        pair.client.shut_down();
      });
      threads_.emplace_back([this, &pair] {
        for (std::string bytes; pair.client.receive(bytes);) {
          pair.server.send_all(with_digests(bytes));
        }
        pair.server.shut_down();
      });
    }
  }
  // Takes the complete commands out of `bytes`.
  std::string with_digests(std::string& bytes) {
    std::string commands;
    size_t taken = 0;
    for (;;) {
      RedisReply command;
      size_t size = 0;
      if (parse_reply(std::string_view(bytes).substr(taken), command, size) !=
          ReplyStatus::kComplete) {
        break;
      }
      taken += size;
      std::vector<std::string_view> words;
      for (const RedisReply& word : command.items) words.push_back(word.text);
      const std::lock_guard lock(mutex_);
      if (words.size() > 1 && words[0] == "EVALSHA") {
        for (size_t i = 0; i < digests_.size(); ++i) {
          if (words[1] != sha_of(static_cast<Script>(i))) continue;
          words[1] = digests_[i];
          break;
        }
      }
      append_command(commands, words);
    }
    bytes.erase(0, taken);
    return commands;
  }

  const uint16_t server_;
  std::mutex mutex_;
  std::array<std::string, static_cast<size_t>(Script::kCount)> digests_{};  // guarded by mutex_
  const LoopbackSocket listener_;
  std::list<Pair> pairs_;           // of the acceptor until it ends
  std::list<std::thread> threads_;  // the same
  std::thread acceptor_;            // last: uses the members above
};

}  // namespace weir::origins
