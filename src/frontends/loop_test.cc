// Loops with real sockets on loopback: who is let in, who is cut off, what a drain answers.

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

#include "frontends/front_test.h"
#include "frontends/http/http_session.h"
#include "frontends/resp/resp_session.h"

namespace weir::frontends {
namespace {

constexpr std::string_view kThrottle =
    "*5\r\n$11\r\nCL.THROTTLE\r\n$5\r\nalice\r\n$7\r\n1000000\r\n$1\r\n1\r\n$2\r\n60\r\n";

// A client that waits for what it wants, and gives up after ten seconds.
class SocketClient {
 public:
  explicit SocketClient(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  explicit SocketClient(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~SocketClient() { close(socket_); }
  SocketClient(const SocketClient&) = delete;
  SocketClient& operator=(const SocketClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  void say(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }

  // Reads until `count` lines have come, or the end.
  std::string hear_lines(int count) {
    while (lines(received_) < count && hear()) {
    }
    return std::exchange(received_, {});
  }
  std::string hear_all() {
    while (hear()) {
    }
    return std::exchange(received_, {});
  }

  static int lines(std::string_view text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  bool hear() {
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

// Two loops on two threads behind both doors.
class LoopTest : public ::testing::Test {
 protected:
  void start(LoopLimits limits = {}, const UnixSocket* socket = nullptr) {
    Address resp;
    Address http;
    for (size_t i = 0; i < kLoops; ++i) {
      loops_[i] = std::make_unique<Loop>(front_.clock, limits);
      const auto open_resp = [this, i] {
        return std::make_unique<RespSession>(service_, resp_desks_[i], 1);
      };
      resp = *loops_[i]->listen(resp, service_.resp, open_resp, resp_refusal);
      if (socket != nullptr) {
        EXPECT_EQ(loops_[i]->listen(*socket, service_.resp, open_resp, resp_refusal), nullptr);
      }
      http = *loops_[i]->listen(
          http, service_.http,
          [this, i] { return std::make_unique<HttpSession>(service_, http_desks_[i]); },
          http_refusal);
    }
    resp_port_ = resp.port;
    http_port_ = http.port;
    for (const auto& loop : loops_) threads_.emplace_back([&loop] { loop->run(); });
  }
  void drain(Drain how = Drain::kAtOnce) {
    for (const auto& loop : loops_) loop->drain(how);
  }
  void TearDown() override {
    drain();
    for (std::thread& thread : threads_) thread.join();
    using telemetry::FrontendStat;
    for (const auto* door : {&service_.resp, &service_.http}) {
      EXPECT_EQ(door->stats.total(FrontendStat::kOpened), door->stats.total(FrontendStat::kClosed));
    }
  }

  static constexpr size_t kLoops = 2;
  FrontAt<const Clock&> front_{system_clock()};
  Service& service_ = front_.service;
  std::array<RespDesk, kLoops> resp_desks_;
  std::array<HttpDesk, kLoops> http_desks_{HttpDesk(1), HttpDesk(2)};
  std::array<std::unique_ptr<Loop>, kLoops> loops_;
  std::vector<std::thread> threads_;
  uint16_t resp_port_ = 0;
  uint16_t http_port_ = 0;
};

TEST_F(LoopTest, AnswersManyClientsOnBothDoors) {
  start();
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] {
      for (int turn = 0; turn < 10; ++turn) {
        SocketClient resp(resp_port_);
        SocketClient http(http_port_);
        for (int n = 0; n < 10; ++n) {
          resp.say(kThrottle);
          EXPECT_EQ(resp.hear_lines(6).substr(0, 4), "*5\r\n");
          http.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
          EXPECT_EQ(http.hear_lines(6).substr(0, 15), "HTTP/1.1 200 OK");
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(front_.limiter.stats().admitted, 800u);
}

TEST_F(LoopTest, AnswersAllThatWasAskedBeforeADrain) {
  start();
  constexpr int kRequests = 10'000;
  SocketClient client(resp_port_);
  client.say(kThrottle);
  client.hear_lines(6);
  std::string all;
  for (int i = 0; i < kRequests; ++i) all += kThrottle;
  std::thread speaker([&] { client.say(all); });
  const std::string first = client.hear_lines(6);
  drain();
  const std::string rest = client.hear_all();  // until the end
  speaker.join();
  EXPECT_EQ(SocketClient::lines(first) + SocketClient::lines(rest), 6 * kRequests);
}

TEST_F(LoopTest, ClosesQuietConnectionsInADrainAndLetsNobodyIn) {
  start();
  SocketClient quiet(resp_port_);
  quiet.say("PING\r\n");
  EXPECT_EQ(quiet.hear_lines(1), "+PONG\r\n");
  drain();
  EXPECT_EQ(quiet.hear_all(), "");
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  EXPECT_FALSE(SocketClient(resp_port_).connected());
}

TEST_F(LoopTest, TellsAnHttpClientInADrainThatTheConnectionEnds) {
  start();
  SocketClient client(http_port_);
  client.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal");
  client.hear_lines(6);
  drain();
  client.say("thz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.hear_all().find("Connection: close\r\n"), std::string::npos);
}

TEST_F(LoopTest, CutsOffWhoeverDoesNotFinishARequest) {
  start({.request = Millis(50)});
  SocketClient slow(http_port_);
  slow.say("POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " +
           std::string(kKey) + "\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(slow.hear_all(), "");
  EXPECT_EQ(service_.http.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

TEST_F(LoopTest, CutsOffWhoeverIsSilentForTooLong) {
  start({.silence = Millis(50)});
  SocketClient silent(resp_port_);
  silent.say("PING\r\n");
  EXPECT_EQ(silent.hear_all(), "+PONG\r\n");
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

TEST_F(LoopTest, CutsOffWhoeverSaysNothingAtAll) {
  start({.first_byte = Millis(50)});
  SocketClient resp(resp_port_);
  SocketClient http(http_port_);
  EXPECT_EQ(resp.hear_all(), "");
  EXPECT_EQ(http.hear_all(), "");
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
  EXPECT_EQ(service_.http.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

TEST_F(LoopTest, CutsOffWhoeverDoesNotReadItsAnswers) {
  start({.request = Millis(50)});
  SocketClient deaf(resp_port_);
  const std::string echo = "*2\r\n$4\r\nECHO\r\n$60000\r\n" + std::string(60'000, 'x') + "\r\n";
  for (int i = 0; i < 1000; ++i) deaf.say(echo);  // fails at some point, without an answer read
  while (service_.resp.stats.total(telemetry::FrontendStat::kClosed) == 0)
    std::this_thread::yield();
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kTimedOut), 1u);
}

// Connections to one front end, each with its first answer; a short one says that it was refused.
class Connections {
 public:
  Connections(uint16_t port, std::string_view first) : port_(port), first_(first) {}
  std::string open() {
    SocketClient& client = *all_.emplace_back(std::make_unique<SocketClient>(port_));
    client.say(first_);
    return client.hear_lines(1);
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

TEST_F(LoopTest, RefusesMoreConnectionsThanItMayHaveAndSaysSo) {
  start({.admission = {.connections = 1}});
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
  // The other front end has places of its own.
  SocketClient http(http_port_);
  http.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(http.hear_lines(1).substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(LoopTest, SaysOverHttpWhyThereIsNoPlace) {
  start({.admission = {.connections = 0}});
  SocketClient client(http_port_);
  client.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string received = client.hear_all();
  EXPECT_TRUE(received.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << received;
  EXPECT_NE(received.find("Retry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(received.find("max number of clients reached"), std::string::npos);
}

TEST_F(LoopTest, LetsNewcomersInWhereSilentConnectionsTookAllPlaces) {
  start({.admission = {.connections = 10, .strangers = 8}});
  Connections resp(resp_port_, "PING\r\n");
  resp.open_silently(100);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(resp.open(), "+PONG\r\n");
  EXPECT_GT(service_.resp.stats.total(telemetry::FrontendStat::kEvicted), 80u);
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kRefused), 0u);
}

TEST_F(LoopTest, RefusesConnectionsOfOneAddressBeyondItsMost) {
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

TEST_F(LoopTest, RefusesARequestForWhichThereIsNoMemory) {
  start({.admission = {.bytes = 100'000}});
  SocketClient client(resp_port_);
  client.say("PING\r\n");
  EXPECT_EQ(client.hear_lines(1), "+PONG\r\n");
  client.say("*5\r\n");
  for (int i = 0; i < 4; ++i) client.say("$60000\r\n" + std::string(60'000, 'x') + "\r\n");
  EXPECT_EQ(client.hear_all(),
            "-ERR no memory for this request: send it again later, or raise connection-memory\r\n");
  EXPECT_EQ(service_.resp.stats.total(telemetry::FrontendStat::kRefusedMemory), 1u);
  SocketClient other(resp_port_);
  other.say("PING\r\n");
  EXPECT_EQ(other.hear_lines(1), "+PONG\r\n");
}

TEST_F(LoopTest, AnswersAWrongKeyLaterAndGoesOn) {
  start({.wrong_key = Millis(50)});
  SocketClient resp(resp_port_);
  resp.say("AUTH wrong\r\nPING\r\n");
  EXPECT_EQ(resp.hear_lines(2), "-WRONGPASS invalid root key\r\n+PONG\r\n");
  SocketClient http(http_port_);
  http.say(
      "POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(http.hear_all().substr(0, 13), "HTTP/1.1 401 ");
}

TEST_F(LoopTest, LetsIdleConnectionsAskOnceMoreInAPatientDrain) {
  start();
  SocketClient resp(resp_port_);
  SocketClient http(http_port_);
  resp.say("PING\r\n");
  http.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(resp.hear_lines(1), "+PONG\r\n");
  http.hear_lines(6);
  drain(Drain::kPatient);
  while (SocketClient(resp_port_).connected()) std::this_thread::yield();
  resp.say("PING\r\n");
  EXPECT_EQ(resp.hear_all(), "+PONG\r\n");
  http.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string received = http.hear_all();
  EXPECT_TRUE(received.starts_with("HTTP/1.1 200 OK\r\n")) << received;
  EXPECT_NE(received.find("Connection: close\r\n"), std::string::npos);
}

TEST_F(LoopTest, ClosesIdleConnectionsWhenThePatienceOfADrainEnds) {
  start({.drain = Millis(50)});
  SocketClient idle(resp_port_);
  idle.say("PING\r\n");
  idle.hear_lines(1);
  drain(Drain::kPatient);
  EXPECT_EQ(idle.hear_all(), "");
}

TEST_F(LoopTest, GoesOnAcceptingWhileADrainIsDelayed) {
  start({.drain_delay = Millis(600'000)});
  SocketClient before(http_port_);
  before.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  before.hear_lines(6);
  drain(Drain::kPatient);
  SocketClient resp(resp_port_);
  resp.say("PING\r\n");
  EXPECT_EQ(resp.hear_lines(1), "+PONG\r\n");
  std::string received;
  do {  // until the drain has come to the loop
    SocketClient http(http_port_);
    http.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    received = http.hear_lines(6);
  } while (received.find("Connection: close\r\n") == std::string::npos);
  before.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(before.hear_all().substr(0, 15), "HTTP/1.1 200 OK");
  resp.say("PING\r\n");
  EXPECT_EQ(resp.hear_lines(1), "+PONG\r\n");
}

TEST_F(LoopTest, ClosesEverythingWhenItIsCut) {
  start();
  SocketClient midway(resp_port_);
  midway.say("*2\r\n$4\r\nECHO\r\n$5\r\nhel");  // which would hold a drain up
  SocketClient other(resp_port_);
  other.say("PING\r\n");
  EXPECT_EQ(other.hear_lines(1), "+PONG\r\n");
  drain();
  for (const auto& loop : loops_) loop->cut();
  EXPECT_EQ(midway.hear_all(), "");
  EXPECT_EQ(other.hear_all(), "");
}

TEST(Taken, NamesTheRemedyOfWhatIsWrong) {
  const auto error = taken({.host = "192.0.2.1", .port = 0});  // nobody's, by agreement
  ASSERT_NE(error, nullptr);
  EXPECT_NE(error->detail.find("Cannot assign requested address"), std::string::npos);
  EXPECT_EQ(error->fix, "choose an address that this machine has");
}

TEST_F(LoopTest, AnswersAtAUnixSocketAsWellAndRefusesThereAfterADrain) {
  const std::string path = ::testing::TempDir() + "weir-loop-" + std::to_string(getpid()) + ".sock";
  const auto opened = UnixSocket::open(path);
  ASSERT_TRUE(opened.ok()) << opened.error().detail;
  const auto socket = *opened;
  start({}, socket.get());
  socket->leave_to_loops();
  for (int i = 0; i < 20; ++i) {
    SocketClient client(path);
    client.say(kThrottle);
    EXPECT_EQ(client.hear_lines(6).substr(0, 8), "*5\r\n:0\r\n");
  }
  EXPECT_EQ(front_.limiter.stats().admitted, 20u);
  SocketClient local(path);
  local.say("CLUSTER MYID\r\n");
  EXPECT_EQ(local.hear_lines(1), "-ERR This instance has cluster support disabled\r\n");
  SocketClient tcp(resp_port_);
  tcp.say("CLUSTER MYID\r\n");
  EXPECT_EQ(tcp.hear_lines(2).substr(0, 5), "$40\r\n");
  drain();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  EXPECT_FALSE(SocketClient(path).connected());
}

TEST(Taken, SaysWhetherSomeoneListensThere) {
  telemetry::FrontendMetrics metrics;
  Loop loop(system_clock(), {});
  const auto address = loop.listen(
      {}, metrics, [] { return std::unique_ptr<Session>(); }, resp_refusal);
  ASSERT_TRUE(address.ok());
  const auto error = taken(*address);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(error->detail.find(to_string(*address)), std::string::npos);
}

}  // namespace
}  // namespace weir::frontends
