#include "frontends/listening.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>

namespace weir::frontends {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

std::string remedy_of(const error_code& error) {
  switch (error.value()) {
    case EMFILE:
      return "let this process open more files: ulimit -n, or LimitNOFILE= in its systemd unit";
    case ENFILE: return "the machine has no file left to open: raise fs.file-max";
    case EACCES: return "choose a port from 1024 on, or give this process CAP_NET_BIND_SERVICE";
    case EADDRNOTAVAIL: return "choose an address that this machine has";
    default: return "choose another address, or stop the process that listens there";
  }
}

}  // namespace

std::string to_string(const Address& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return (six ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Error cannot_listen(const Address& address, const error_code& error) {
  return {.code = ErrorCode::kUnavailable,
          .field = to_string(address),
          .detail = "cannot listen at " + to_string(address) + ": " + error.message(),
          .fix = remedy_of(error)};
}

Address local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  char text[INET6_ADDRSTRLEN] = "";
  Address address{.host = ""};
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return address;
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    address.port = ntohs(four.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
    inet_ntop(mapped ? AF_INET : AF_INET6,
              mapped ? &six.sin6_addr.s6_addr[12] : six.sin6_addr.s6_addr, text, sizeof text);
    address.port = ntohs(six.sin6_port);
  }
  address.host = text;
  return address;
}

std::unique_ptr<Error> check_available(const Address& address) {
  asio::io_context io(1);
  tcp::acceptor acceptor(io);
  const error_code error = open_at(acceptor, address, SharePort::kNo);
  return error ? std::make_unique<Error>(cannot_listen(address, error)) : nullptr;
}

}  // namespace weir::frontends
