// A loop that serves TLS, with clients of OpenSSL: limits of time and memory, and drains.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "frontends/fixture_test.h"
#include "frontends/loop.h"
#include "frontends/resp/resp_session.h"
#include "frontends/tls_context.h"
#include "frontends/tls_files_test.h"
#include "tests/servers/temporary_folder.h"

namespace weir::frontends {
namespace {

using telemetry::FrontendStat;

constexpr Millis kEnoughForAHandshake{500};  // on a busy machine

// A blocking client with a timeout of ten seconds.
class TlsClient {
 public:
  enum class Begin : uint8_t { kHandshake, kSilent };

  explicit TlsClient(uint16_t port, Begin begin = Begin::kHandshake)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)), context_(SSL_CTX_new(TLS_client_method())) {
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, socket_);
    if (begin == Begin::kHandshake) connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    close(socket_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::string_view text) { SSL_write(ssl_, text.data(), static_cast<int>(text.size())); }
  // The first message of the handshake, which is not sent.
  std::string hello() {
    BIO* const in = BIO_new(BIO_s_mem());
    BIO* const out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_, in, out);
    SSL_connect(ssl_);
    char* data = nullptr;
    const long size = BIO_get_mem_data(out, &data);
    return {data, static_cast<size_t>(size)};
  }
  // Continues after the hello was sent.
  bool complete() {
    SSL_set_fd(ssl_, socket_);
    return connected_ = SSL_connect(ssl_) == 1;
  }
  void send_raw(std::string_view bytes) {
    (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void shut_down() { shutdown(socket_, SHUT_WR); }
  // Waits for a byte of the server.
  bool has_answer() {
    char byte = 0;
    return recv(socket_, &byte, 1, MSG_PEEK) == 1;
  }
  // Tells the server that no more requests follow.
  void finish() { SSL_shutdown(ssl_); }
  std::string receive() {
    char space[256];
    const int got = SSL_read(ssl_, space, sizeof space);
    return {space, static_cast<size_t>(std::max(got, 0))};
  }
  // Whether the server has ended the connection with a message of TLS.
  bool ends_properly() {
    char byte = 0;
    const int got = SSL_read(ssl_, &byte, 1);
    return SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN;
  }
  // Whether the server has closed, without TLS.
  bool is_closed() {
    char space[4096];
    ssize_t got = 1;
    while (got > 0) got = recv(socket_, space, sizeof space, 0);
    return got == 0 || errno == ECONNRESET;
  }

 private:
  const int socket_;
  SSL_CTX* const context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

class TlsLoopTest : public ::testing::Test {
 protected:
  TlsLoopTest() {
    std::signal(SIGPIPE, SIG_IGN);  // for the clients
    const TestCertificate pair("loop");
    write_file(folder_.path() / "cert.pem", pair.certificate());
    write_file(folder_.path() / "key.pem", pair.key());
    tls_ = *TlsContext::create(
        {.cert = folder_.path() / "cert.pem", .key = folder_.path() / "key.pem"});
  }
  enum class Listeners : uint8_t { kOne, kTwo };

  void start(const LoopLimits& limits = {}, Listeners listeners = Listeners::kOne) {
    loop_ = std::make_unique<Loop>(fixture_.clock, limits);
    const auto listen = [this] {
      return loop_
          ->listen(
              {}, fixture_.service.resp,
              [this] { return std::make_unique<RespSession>(fixture_.service, scratch_, 1); },
              resp_refusal, tls_.get())
          ->port;
    };
    port_ = listen();
    if (listeners == Listeners::kTwo) other_port_ = listen();
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    loop_->drain(Drain::kImmediate);
    thread_.join();
    EXPECT_EQ(count(FrontendStat::kOpened), count(FrontendStat::kClosed));
  }
  [[nodiscard]] uint64_t count(FrontendStat stat) const {
    return fixture_.service.resp.stats.total(stat);
  }

  const servers::TemporaryFolder folder_{"tls-loop"};
  FixtureAt<const Clock&> fixture_{system_clock()};
  std::shared_ptr<TlsContext> tls_;
  RespScratch scratch_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
  uint16_t port_ = 0;
  uint16_t other_port_ = 0;
};

TEST_F(TlsLoopTest, AnswersARequest) {
  start();
  TlsClient client(port_);
  ASSERT_TRUE(client.connected());
  client.send("PING\r\n");
  EXPECT_EQ(client.receive(), "+PONG\r\n");
}

TEST_F(TlsLoopTest, ClosesAConnectionWhoseHandshakeDoesNotEnd) {
  start({.request = Millis(50)});
  TlsClient client(port_, TlsClient::Begin::kSilent);
  client.send_raw("\x16");
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(count(FrontendStat::kTimedOut), 1u);
}

TEST_F(TlsLoopTest, ClosesAConnectionWhoseHandshakeDoesNotBegin) {
  start({.first_byte = Millis(50)});
  TlsClient client(port_, TlsClient::Begin::kSilent);
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(count(FrontendStat::kTimedOut), 1u);
}

TEST_F(TlsLoopTest, ClosesAConnectionWithoutARequestAfterTheHandshake) {
  start({.first_byte = kEnoughForAHandshake});
  TlsClient client(port_);
  ASSERT_TRUE(client.connected());
  EXPECT_TRUE(client.is_closed());
}

TEST_F(TlsLoopTest, ClosesAConnectionWhoseRecordDoesNotComplete) {
  start({.request = kEnoughForAHandshake});
  TlsClient client(port_);
  client.send("PING\r\n");
  EXPECT_EQ(client.receive(), "+PONG\r\n");
  client.send_raw(std::string_view("\x17\x03\x03\x00\x40xyz", 8));
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(count(FrontendStat::kTimedOut), 1u);
}

TEST_F(TlsLoopTest, ClosesAConnectionWhoseRequestDoesNotComplete) {
  start({.request = kEnoughForAHandshake});
  TlsClient client(port_);
  client.send("*2\r\n$4\r\nECHO");
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(count(FrontendStat::kTimedOut), 1u);
}

TEST_F(TlsLoopTest, RefusesAHandshakeWithoutMemory) {
  start({.admission = {.bytes = kTlsBytes}});
  EXPECT_FALSE(TlsClient(port_).connected());
  EXPECT_EQ(count(FrontendStat::kRefusedMemory), 1u);
}

TEST_F(TlsLoopTest, ClosesOlderHandshakesForANewOne) {
  start({.admission = {.bytes = 16 * (kTlsBytes + kTlsPendingBytes)}});
  std::vector<std::unique_ptr<TlsClient>> unfinished;
  for (int i = 0; i < 20; ++i) {
    unfinished.push_back(std::make_unique<TlsClient>(port_, TlsClient::Begin::kSilent));
    unfinished.back()->send_raw(unfinished.back()->hello());
  }
  TlsClient client(port_);
  ASSERT_TRUE(client.connected());
  client.send("PING\r\n");
  EXPECT_EQ(client.receive(), "+PONG\r\n");
  EXPECT_GE(count(FrontendStat::kEvicted), 17u);  // four fit into a quarter of the memory
  EXPECT_EQ(count(FrontendStat::kRefusedMemory), 0u);
}

// Half a message of each stranger took 183 MB.
TEST_F(TlsLoopTest, KeepsNoMemoryForAMessageThatHasArrivedInPart) {
  // A quarter of it: one handshake.
  start({.admission = {.bytes = 4 * (kTlsBytes + kTlsPendingBytes)}});
  std::vector<std::unique_ptr<TlsClient>> unfinished;
  for (int i = 0; i < 20; ++i) {
    unfinished.push_back(std::make_unique<TlsClient>(port_, TlsClient::Begin::kSilent));
    const std::string hello = unfinished.back()->hello();
    unfinished.back()->send_raw(hello.substr(0, i % 2 == 0 ? hello.size() / 2 : 1));
  }
  TlsClient client(port_);
  ASSERT_TRUE(client.connected());
  client.send("PING\r\n");
  EXPECT_EQ(client.receive(), "+PONG\r\n");
  EXPECT_EQ(count(FrontendStat::kEvicted), 0u);
  EXPECT_EQ(count(FrontendStat::kRefusedMemory), 0u);
}

TEST_F(TlsLoopTest, AcceptsAMessageInAnyPieces) {
  start();
  for (const size_t size : {size_t{1}, size_t{4}, size_t{5}, size_t{6}, size_t{100}}) {
    TlsClient client(port_, TlsClient::Begin::kSilent);
    const std::string hello = client.hello();
    for (size_t at = 0; at < hello.size(); at += size) client.send_raw(hello.substr(at, size));
    ASSERT_TRUE(client.complete()) << size;
    client.send("PING\r\n");
    EXPECT_EQ(client.receive(), "+PONG\r\n");
  }
}

TEST_F(TlsLoopTest, EndsAHandshakeWhoseClientEndsWithinAMessage) {
  start();
  TlsClient client(port_, TlsClient::Begin::kSilent);
  client.send_raw(client.hello().substr(0, 100));
  client.shut_down();
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(count(FrontendStat::kTlsOther), 1u);
}

// Strangers of each front end had a bound of their own.
TEST_F(TlsLoopTest, BoundsTheMemoryOfStrangersOfAllFrontEndsTogether) {
  constexpr size_t kEach = kConnectionBytes + kTlsBytes + kTlsPendingBytes;
  start({.unauthenticated_bytes = 4 * kEach}, Listeners::kTwo);
  std::vector<std::unique_ptr<TlsClient>> unfinished;
  for (const uint16_t port : {port_, other_port_}) {
    for (int i = 0; i < 10; ++i) {
      unfinished.push_back(std::make_unique<TlsClient>(port, TlsClient::Begin::kSilent));
      unfinished.back()->send_raw(unfinished.back()->hello());
      // Each is closed for a later one, or has an answer.
      EXPECT_TRUE(unfinished.back()->has_answer());
    }
  }
  EXPECT_GE(count(FrontendStat::kEvicted), 16u);
  for (const uint16_t port : {port_, other_port_}) {
    TlsClient client(port);
    ASSERT_TRUE(client.connected());
    client.send("PING\r\n");
    EXPECT_EQ(client.receive(), "+PONG\r\n");
  }
  EXPECT_EQ(count(FrontendStat::kRefusedMemory), 0u);
}

TEST_F(TlsLoopTest, CountsAFailedHandshakeAndItsReason) {
  start();
  TlsClient client(port_, TlsClient::Begin::kSilent);
  client.send_raw("PING\r\n");
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(count(FrontendStat::kTlsNotTls), 1u);
  EXPECT_NE(fixture_.service.resp.last_peer[static_cast<size_t>(FrontendStat::kTlsNotTls)], 0u);
}

TEST_F(TlsLoopTest, AnswersTheEndOfTheClient) {
  start();
  TlsClient client(port_);
  client.send("PING\r\n");
  client.finish();
  EXPECT_EQ(client.receive(), "+PONG\r\n");
  EXPECT_TRUE(client.ends_properly());
}

TEST_F(TlsLoopTest, AnnouncesTheEndInADrain) {
  start();
  TlsClient client(port_);
  TlsClient silent(port_, TlsClient::Begin::kSilent);
  client.send("PING\r\n");
  EXPECT_EQ(client.receive(), "+PONG\r\n");
  loop_->drain(Drain::kImmediate);
  EXPECT_TRUE(client.ends_properly());
  EXPECT_TRUE(silent.is_closed());
}

}  // namespace
}  // namespace weir::frontends
