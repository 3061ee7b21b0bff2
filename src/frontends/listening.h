// TCP listening sockets: how they are opened, and the local address of a socket.

#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "frontends/address.h"
#include "weir/error.h"

namespace weir::frontends {

// Connections that the kernel queues until they are accepted.
inline constexpr int kBacklog = 1024;

enum class SharePort : uint8_t { kNo, kYes };  // SO_REUSEPORT

// Opens, binds and listens.
template <typename Acceptor>
boost::system::error_code open_at(Acceptor& acceptor, const Address& address, SharePort share) {
  namespace asio = boost::asio;
  using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;
  boost::system::error_code error;
  const auto host = asio::ip::make_address(address.host, error);
  if (error) return error;
  const asio::ip::tcp::endpoint endpoint(host, address.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && share == SharePort::kYes) acceptor.set_option(ReusePort(true), error);
  if (!error) acceptor.non_blocking(true, error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  return error;
}

// The error of a failed open_at(), with its remedy.
[[nodiscard]] Error cannot_listen(const Address& address, const boost::system::error_code& error);

// The address that a socket is bound to. Port 0: it is not an IP socket.
[[nodiscard]] Address local_address(int socket);

// An error if another process listens at the address. Loops share addresses only with each other.
[[nodiscard]] std::unique_ptr<Error> check_available(const Address& address);

}  // namespace weir::frontends
