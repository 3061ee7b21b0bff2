// Loops with real sockets on loopback: admission, timeouts and drains.

#include "frontends/loop.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "frontends/fixture_test.h"
#include "frontends/http/http_refusal.h"
#include "frontends/http/http_session.h"
#include "frontends/listening.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

constexpr std::string_view kThrottle =
    "*5\r\n$11\r\nCL.THROTTLE\r\n$5\r\nalice\r\n$7\r\n1000000\r\n$1\r\n1\r\n$2\r\n60\r\n";

// A blocking client with a timeout of ten seconds.
class SocketClient {
 public:
  explicit SocketClient(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  explicit SocketClient(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~SocketClient() { close(socket_); }
  SocketClient(const SocketClient&) = delete;
  SocketClient& operator=(const SocketClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }

  // Reads until `count` lines have arrived, or the end.
  std::string read_lines(int count) {
    while (lines(received_) < count && read_some()) {
    }
    return std::exchange(received_, {});
  }
  std::string read_all() {
    while (read_some()) {
    }
    return std::exchange(received_, {});
  }

  static int lines(std::string_view text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  bool read_some() {
    char buffer[4096];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    received_.append(buffer, static_cast<size_t>(got));
    return true;
  }

  int socket_;
  bool connected_ = false;
  std::string received_;
};

// Two loops on two threads, each with both front ends.
class LoopTest : public ::testing::Test {
 protected:
  void start(LoopLimits limits = {}, const UnixSocket* socket = nullptr) {
    Address resp;
    Address http;
    for (size_t i = 0; i < kLoops; ++i) {
      loops_[i] = std::make_unique<Loop>(fixture_.clock, limits);
      const auto open_resp = [this, i] {
        return std::make_unique<RespSession>(service_, resp_scratch_[i], 1);
      };
      resp = *loops_[i]->listen(resp, service_.resp, open_resp, resp_refusal);
      if (socket != nullptr) {
        EXPECT_EQ(loops_[i]->listen(*socket, service_.resp, open_resp, resp_refusal), nullptr);
      }
      http = *loops_[i]->listen(
          http, service_.http,
          [this, i] { return std::make_unique<HttpSession>(service_, http_scratch_[i]); },
          http_refusal);
    }
    resp_port_ = resp.port;
    http_port_ = http.port;
    for (const auto& loop : loops_) threads_.emplace_back([&loop] { loop->run(); });
  }
  void drain(Drain how = Drain::kImmediate) {
    for (const auto& loop : loops_) loop->drain(how);
  }
  void TearDown() override {
    drain();
    for (std::thread& thread : threads_) thread.join();
    using telemetry::FrontendStat;
    for (const auto* frontend : {&service_.resp, &service_.http}) {
      EXPECT_EQ(frontend->stats.total(FrontendStat::kOpened),
                frontend->stats.total(FrontendStat::kClosed));
    }
  }

  static constexpr size_t kLoops = 2;
  FixtureAt<const Clock&> fixture_{system_clock()};
  Service& service_ = fixture_.service;
  std::array<RespScratch, kLoops> resp_scratch_;
  std::array<HttpScratch, kLoops> http_scratch_{HttpScratch(1), HttpScratch(2)};
  std::array<std::unique_ptr<Loop>, kLoops> loops_;
  std::vector<std::thread> threads_;
  uint16_t resp_port_ = 0;
  uint16_t http_port_ = 0;
};

TEST_F(LoopTest, AnswersManyClientsOnBothFrontends) {
  start();
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] {
      for (int round = 0; round < 10; ++round) {
        SocketClient resp(resp_port_);
        SocketClient http(http_port_);
        for (int n = 0; n < 10; ++n) {
          resp.send(kThrottle);
          EXPECT_EQ(resp.read_lines(6).substr(0, 4), "*5\r\n");
          http.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
          EXPECT_EQ(http.read_lines(6).substr(0, 15), "HTTP/1.1 200 OK");
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(fixture_.limiter.stats().admitted, 800u);
}

TEST_F(LoopTest, AnswersAllRequestsSentBeforeADrain) {
  start();
  constexpr int kRequests = 10'000;
  SocketClient client(resp_port_);
  client.send(kThrottle);
  client.read_lines(6);
  std::string all;
  for (int i = 0; i < kRequests; ++i) all += kThrottle;
  std::thread sender([&] { client.send(all); });
  const std::string first = client.read_lines(6);
  drain();
  const std::string rest = client.read_all();  // until the end
  sender.join();
  EXPECT_EQ(SocketClient::lines(first) + SocketClient::lines(rest), 6 * kRequests);
}

TEST_F(LoopTest, ClosesQuietConnectionsInADrainAndAcceptsNoOthers) {
  start();
  SocketClient quiet(resp_port_);
  quiet.send("PING\r\n");
  EXPECT_EQ(quiet.read_lines(1), "+PONG\r\n");
  drain();
  EXPECT_EQ(quiet.read_all(), "");
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  EXPECT_FALSE(SocketClient(resp_port_).connected());
}

TEST_F(LoopTest, SendsConnectionCloseToHttpClientsInADrain) {
  start();
  SocketClient client(http_port_);
  client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal");
  client.read_lines(6);
  drain();
  client.send("thz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_all().find("Connection: close\r\n"), std::string::npos);
}

TEST_F(LoopTest, ClosesAConnectionWhoseRequestDoesNotComplete) {
  start({.request = Millis(50)});
  SocketClient slow(http_port_);
  slow.send("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " +
            std::string(kKey) + "\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(slow.read_all(), "");
  EXPECT_EQ(service_.http.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

TEST_F(LoopTest, ClosesAConnectionThatIsIdleForTooLong) {
  start({.idle = Millis(50)});
  SocketClient silent(resp_port_);
  silent.send("PING\r\n");
  EXPECT_EQ(silent.read_all(), "+PONG\r\n");
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

TEST_F(LoopTest, ClosesAConnectionThatNeverSendsAByte) {
  start({.first_byte = Millis(50)});
  SocketClient resp(resp_port_);
  SocketClient http(http_port_);
  EXPECT_EQ(resp.read_all(), "");
  EXPECT_EQ(http.read_all(), "");
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
  EXPECT_EQ(service_.http.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

TEST_F(LoopTest, ClosesAConnectionThatDoesNotReadItsResponses) {
  start({.request = Millis(50)});
  SocketClient client(resp_port_);
  const std::string echo = "*2\r\n$4\r\nECHO\r\n$60000\r\n" + std::string(60'000, 'x') + "\r\n";
  for (int i = 0; i < 1000; ++i) client.send(echo);  // fails at some point, since no reply is read
  while (service_.resp.stats.total(telemetry::FrontendStat::kClosed) == 0)
    std::this_thread::yield();
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

// Connections to one front end and the first reply on each.
class Connections {
 public:
  Connections(uint16_t port, std::string_view first) : port_(port), first_(first) {}
  std::string open() {
    SocketClient& client = *all_.emplace_back(std::make_unique<SocketClient>(port_));
    client.send(first_);
    return client.read_lines(1);
  }
  void open_silently(int count) {
    for (int i = 0; i < count; ++i) all_.push_back(std::make_unique<SocketClient>(port_));
  }

 private:
  const uint16_t port_;
  const std::string_view first_;
  std::vector<std::unique_ptr<SocketClient>> all_;
};

constexpr std::string_view kTooMany = "-ERR max number of clients reached\r\n";

TEST_F(LoopTest, RefusesConnectionsAboveTheMaximumWithAReason) {
  start({.admission = {.connections = 1}, .protected_idle = Millis(3'600'000)});
  Connections resp(resp_port_, "PING\r\n");
  int served = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string received = resp.open();
    if (received == "+PONG\r\n") {
      ++served;
    } else {
      EXPECT_EQ(received, kTooMany);
    }
  }
  EXPECT_GE(served, 1);
  EXPECT_LE(served, 2);  // one for each loop
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kRefused), 10u - served);
  // The other front end has its own limit.
  SocketClient http(http_port_);
  http.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(http.read_lines(1).substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(LoopTest, SendsTheReasonOfARefusalOverHttp) {
  start({.admission = {.connections = 0}});
  SocketClient client(http_port_);
  client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string received = client.read_all();
  EXPECT_TRUE(received.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << received;
  EXPECT_NE(received.find("Retry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(received.find("max number of clients reached"), std::string::npos);
}

TEST_F(LoopTest, EvictsIdleConnectionsForNewClients) {
  start({.admission = {.connections = 10, .unauthenticated = 8}});
  Connections resp(resp_port_, "PING\r\n");
  resp.open_silently(100);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(resp.open(), "+PONG\r\n");
  // Two loops accept the connections; the one that did not answer may be behind.
  const auto evicted = [&] { return service_.resp.stats.total(telemetry::FrontendStat::kEvicted); };
  const MonoTime deadline = system_clock().now().mono + std::chrono::seconds(20);
  while (evicted() <= 80 && system_clock().now().mono < deadline) std::this_thread::yield();
  EXPECT_GT(evicted(), 80u);
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kRefused), 0u);
}

TEST_F(LoopTest, ServesNewClientsWhileOthersHoldAllPlaces) {
  start({.admission = {.connections = 10}});
  Connections resp(resp_port_, "PING\r\n");
  for (int i = 0; i < 60; ++i) EXPECT_EQ(resp.open(), "+PONG\r\n") << i;
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kRefused), 0u);
  EXPECT_GE(service_.resp.stats.total(telemetry::FrontendStat::kEvicted), 40u);
}

// Heads that never ended took the bytes of all strangers, and health checks were refused.
TEST_F(LoopTest, ServesNewClientsWhileStrangersHoldAllTheirBytes) {
  using telemetry::FrontendStat;
  start({.admission = {.bytes = 400'000}, .request = Millis(600'000)});
  std::vector<std::unique_ptr<SocketClient>> strangers;
  for (int i = 0; i < 60; ++i) {
    strangers.push_back(std::make_unique<SocketClient>(http_port_));
    strangers.back()->send("GET /healthz HTTP/1.1\r\nX: " + std::string(12'000, 'x'));
  }
  const auto without_room = [&] {
    return service_.http.stats.total(FrontendStat::kEvicted) +
           service_.http.stats.total(FrontendStat::kRefusedMemory);
  };
  while (without_room() < 10) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    SocketClient http(http_port_);
    http.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(http.read_lines(1).substr(0, 15), "HTTP/1.1 200 OK") << i;
  }
}

TEST_F(LoopTest, RefusesConnectionsOfOneAddressAboveItsMaximum) {
  start({.admission = {.per_address = 1}});
  Connections resp(resp_port_, "PING\r\n");
  int served = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string received = resp.open();
    if (received == "+PONG\r\n") {
      ++served;
    } else {
      EXPECT_EQ(received, "-ERR max number of clients reached for this address\r\n");
    }
  }
  EXPECT_GE(served, 1);
  EXPECT_LE(served, 2);
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kRefusedAddress), 10u - served);
}

TEST_F(LoopTest, RefusesARequestAboveTheMemoryLimit) {
  start({.admission = {.bytes = 100'000}});
  SocketClient client(resp_port_);
  client.send("PING\r\n");
  EXPECT_EQ(client.read_lines(1), "+PONG\r\n");
  client.send("*5\r\n");
  for (int i = 0; i < 4; ++i) client.send("$60000\r\n" + std::string(60'000, 'x') + "\r\n");
  EXPECT_EQ(client.read_all(),
            "-ERR no memory for this request: send it again later, or raise connection-memory\r\n");
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kRefusedMemory), 1u);
  SocketClient other(resp_port_);
  other.send("PING\r\n");
  EXPECT_EQ(other.read_lines(1), "+PONG\r\n");
}

TEST_F(LoopTest, DelaysTheResponseToAWrongKeyAndContinues) {
  start({.wrong_key_delay = Millis(50)});
  SocketClient resp(resp_port_);
  for (int i = 0; i < 12; ++i) {
    resp.send("AUTH wrong-" + std::to_string(i) + "\r\nPING\r\n");
    EXPECT_EQ(resp.read_lines(2), "-WRONGPASS invalid key\r\n+PONG\r\n");
  }
  SocketClient http(http_port_);
  http.send(
      "POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(http.read_all().substr(0, 13), "HTTP/1.1 401 ");
}

TEST_F(LoopTest, AnswersOneMoreRequestOfIdleConnectionsInAGracefulDrain) {
  start();
  SocketClient resp(resp_port_);
  SocketClient http(http_port_);
  resp.send("PING\r\n");
  http.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(resp.read_lines(1), "+PONG\r\n");
  http.read_lines(6);
  drain(Drain::kGraceful);
  while (SocketClient(resp_port_).connected()) std::this_thread::yield();
  resp.send("PING\r\n");
  EXPECT_EQ(resp.read_all(), "+PONG\r\n");
  http.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string received = http.read_all();
  EXPECT_TRUE(received.starts_with("HTTP/1.1 200 OK\r\n")) << received;
  EXPECT_NE(received.find("Connection: close\r\n"), std::string::npos);
}

TEST_F(LoopTest, ClosesIdleConnectionsAtTheDeadlineOfADrain) {
  start({.drain = Millis(50)});
  SocketClient idle(resp_port_);
  idle.send("PING\r\n");
  idle.read_lines(1);
  drain(Drain::kGraceful);
  EXPECT_EQ(idle.read_all(), "");
}

TEST_F(LoopTest, AcceptsConnectionsDuringTheDrainDelay) {
  start({.drain_delay = Millis(600'000)});
  SocketClient before(http_port_);
  before.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  before.read_lines(6);
  drain(Drain::kGraceful);
  SocketClient resp(resp_port_);
  resp.send("PING\r\n");
  EXPECT_EQ(resp.read_lines(1), "+PONG\r\n");
  std::string received;
  do {  // until the loop has begun the drain
    SocketClient http(http_port_);
    http.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    received = http.read_lines(6);
  } while (received.find("Connection: close\r\n") == std::string::npos);
  before.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(before.read_all().substr(0, 15), "HTTP/1.1 200 OK");
  resp.send("PING\r\n");
  EXPECT_EQ(resp.read_lines(1), "+PONG\r\n");
}

TEST_F(LoopTest, ClosesAllConnectionsOnAbort) {
  start();
  SocketClient busy(resp_port_);
  busy.send("*2\r\n$4\r\nECHO\r\n$5\r\nhel");  // a drain would wait for the rest
  SocketClient other(resp_port_);
  other.send("PING\r\n");
  EXPECT_EQ(other.read_lines(1), "+PONG\r\n");
  drain();
  for (const auto& loop : loops_) loop->abort();
  EXPECT_EQ(busy.read_all(), "");
  EXPECT_EQ(other.read_all(), "");
}

TEST(CheckAvailable, NamesTheRemedy) {
  const auto error =
      check_available({.host = "192.0.2.1", .port = 0});  // reserved for documentation
  ASSERT_NE(error, nullptr);
  EXPECT_NE(error->detail.find("Cannot assign requested address"), std::string::npos);
  EXPECT_EQ(error->fix, "choose an address that this machine has");
}

TEST_F(LoopTest, ServesAUnixSocketUntilADrain) {
  const std::string path = ::testing::TempDir() + "weir-loop-" + std::to_string(getpid()) + ".sock";
  const auto opened = UnixSocket::open(path);
  ASSERT_TRUE(opened.ok()) << opened.error().detail;
  const auto socket = *opened;
  start({}, socket.get());
  socket->close_listener();
  for (int i = 0; i < 20; ++i) {
    SocketClient client(path);
    client.send(kThrottle);
    EXPECT_EQ(client.read_lines(6).substr(0, 8), "*5\r\n:0\r\n");
  }
  EXPECT_EQ(fixture_.limiter.stats().admitted, 20u);
  SocketClient local(path);
  local.send("CLUSTER MYID\r\n");
  EXPECT_EQ(local.read_lines(1), "-ERR This instance has cluster support disabled\r\n");
  SocketClient tcp(resp_port_);
  tcp.send("CLUSTER MYID\r\n");
  EXPECT_EQ(tcp.read_lines(2).substr(0, 5), "$40\r\n");
  drain();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  EXPECT_FALSE(SocketClient(path).connected());
}

TEST(CheckAvailable, DetectsAnotherListener) {
  telemetry::FrontendMetrics metrics;
  Loop loop(system_clock(), {});
  const auto address = loop.listen(
      {}, metrics, [] { return std::unique_ptr<Session>(); }, resp_refusal);
  ASSERT_TRUE(address.ok());
  const auto error = check_available(*address);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(error->detail.find(to_string(*address)), std::string::npos);
}

}  // namespace
}  // namespace weir::frontends
