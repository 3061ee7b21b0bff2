#include "frontends/tls_context.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string>

#include "frontends/tls_files_test.h"
#include "tests/servers/temporary_folder.h"

namespace weir::frontends {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class TlsContextTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() / name; }
  void write(const TestCertificate& pair) {
    write_file(path("cert.pem"), pair.certificate());
    write_file(path("key.pem"), pair.key());
  }
  // The error of these settings, with its remedy.
  [[nodiscard]] static std::string error_of(const TlsSettings& settings) {
    const auto context = TlsContext::create(settings);
    return context ? "" : context.error().detail + "; " + context.error().fix;
  }

  const servers::TemporaryFolder folder_{"tls"};
  const TlsSettings settings_{.cert = path("cert.pem"), .key = path("key.pem")};
  const TestCertificate first_{"first"};
  const TestCertificate second_{"second"};
};

TEST_F(TlsContextTest, LoadsAPairOfEitherKind) {
  write(first_);
  EXPECT_EQ(error_of(settings_), "");
  write(TestCertificate("rsa", TestCertificate::Kind::kRsa));
  const auto context = TlsContext::create(settings_);
  ASSERT_TRUE(context.ok());
  EXPECT_THAT((*context)->certificate(), StartsWith("CN = rsa, valid until 2"));
}

TEST_F(TlsContextTest, NamesAFileThatCannotBeRead) {
  EXPECT_EQ(error_of(settings_), "tls-cert is '" + settings_.cert +
                                     "': it cannot be read: No such file or directory; name a PEM "
                                     "file that this user may read");
  write_file(settings_.cert, first_.certificate());
  EXPECT_THAT(error_of(settings_), StartsWith("tls-key is '" + settings_.key + "': it cannot be"));
  std::filesystem::create_directory(settings_.key);
  EXPECT_THAT(error_of(settings_), HasSubstr("it cannot be read: Is a directory"));
  std::filesystem::remove(settings_.key);
  write_file(settings_.key, "");
  EXPECT_THAT(error_of(settings_), HasSubstr("key.pem': it is empty; "));
}

TEST_F(TlsContextTest, NamesAFileWithoutPem) {
  write(first_);
  write_file(settings_.cert, "no certificate");
  EXPECT_THAT(error_of(settings_),
              HasSubstr("cert.pem': it contains no certificate in PEM format"));
  write_file(settings_.cert, first_.key());
  EXPECT_THAT(error_of(settings_),
              HasSubstr("cert.pem': it contains no certificate in PEM format"));
  write(first_);
  write_file(settings_.key, first_.certificate());
  EXPECT_THAT(error_of(settings_), HasSubstr("key.pem': it contains no private key in PEM format"));
  const std::string cut = first_.certificate();
  write(first_);
  write_file(settings_.cert, cut.substr(0, cut.size() / 2));
  EXPECT_THAT(error_of(settings_), StartsWith("tls-cert is '"));
}

TEST_F(TlsContextTest, RefusesAKeyOfAnotherCertificateAndShowsNothingOfIt) {
  write(first_);
  for (const TestCertificate& other :
       {TestCertificate("other"), TestCertificate("other", TestCertificate::Kind::kRsa)}) {
    write_file(settings_.key, other.key());
    const std::string error = error_of(settings_);
    EXPECT_EQ(error, "tls-key is '" + settings_.key +
                         "': the key does not belong to the certificate in tls-cert '" +
                         settings_.cert + "'; name the key that the certificate was made for");
  }
}

TEST_F(TlsContextTest, RefusesAnEncryptedKeyWithoutAskingForItsPassword) {
  write(first_);
  write_file(settings_.key, first_.encrypted_key());
  EXPECT_THAT(error_of(settings_),
              HasSubstr("the key is encrypted; decrypt it: openssl pkey -in "));
}

TEST_F(TlsContextTest, NamesAnInvalidAuthorityOfClients) {
  write(first_);
  TlsSettings settings = settings_;
  settings.client_ca = path("ca.pem");
  EXPECT_THAT(error_of(settings), StartsWith("tls-client-ca is '" + settings.client_ca));
  write_file(settings.client_ca, "nothing");
  EXPECT_THAT(error_of(settings), HasSubstr("ca.pem': it contains no certificate in PEM format"));
  write_file(settings.client_ca, second_.certificate());
  EXPECT_EQ(error_of(settings), "");
}

TEST_F(TlsContextTest, LoadsChangedFilesWhenTheyWereTheSameInTwoChecks) {
  write(first_);
  const auto context = *TlsContext::create(settings_);
  EXPECT_FALSE(context->check_files().loaded);
  write_file(settings_.cert, second_.certificate());  // the key comes later
  EXPECT_FALSE(context->check_files().loaded);
  write_file(settings_.key, second_.key());
  const TlsContext::Checked waits = context->check_files();
  EXPECT_FALSE(waits.loaded);
  EXPECT_EQ(waits.error, nullptr);
  EXPECT_THAT(context->certificate(), StartsWith("CN = first"));
  EXPECT_TRUE(context->check_files().loaded);
  EXPECT_THAT(context->certificate(), StartsWith("CN = second"));
  EXPECT_FALSE(context->check_files().loaded);
}

TEST_F(TlsContextTest, KeepsTheOldCertificateAndReportsABrokenOneOnce) {
  write(first_);
  const auto context = *TlsContext::create(settings_);
  write_file(settings_.cert, "broken");
  (void)context->check_files();
  const TlsContext::Checked broken = context->check_files();
  EXPECT_FALSE(broken.loaded);
  ASSERT_NE(broken.error, nullptr);
  EXPECT_THAT(broken.error->detail, HasSubstr("it contains no certificate in PEM format"));
  EXPECT_THAT(context->certificate(), StartsWith("CN = first"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(context->check_files().error, nullptr);
  std::filesystem::remove(settings_.cert);
  (void)context->check_files();
  EXPECT_NE(context->check_files().error, nullptr);
  write(second_);
  (void)context->check_files();
  EXPECT_TRUE(context->check_files().loaded);
  EXPECT_THAT(context->certificate(), StartsWith("CN = second"));
}

TEST_F(TlsContextTest, ReloadsOtherFilesOrNothing) {
  write(first_);
  const auto context = *TlsContext::create(settings_);
  EXPECT_NE(context->reload({.cert = path("none"), .key = path("none")}), nullptr);
  EXPECT_THAT(context->certificate(), StartsWith("CN = first"));
  const TlsSettings others{.cert = path("cert2.pem"), .key = path("key2.pem")};
  write_file(others.cert, second_.certificate());
  write_file(others.key, second_.key());
  EXPECT_EQ(context->reload(others), nullptr);
  EXPECT_THAT(context->certificate(), StartsWith("CN = second"));
  write_file(settings_.cert, "is not used any more");
  (void)context->check_files();
  EXPECT_EQ(context->check_files().error, nullptr);
}

// --- a stream, with a client of OpenSSL at the other end of a pair of sockets

class TlsStreamTest : public TlsContextTest {
 protected:
  TlsStreamTest() {
    write(first_);
    context_ = *TlsContext::create(settings_);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets_.data()) != 0) std::abort();
    const int small = 4096;  // a large answer does not fit
    setsockopt(sockets_[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    stream_ = context_->open(sockets_[0]);
    client_context_ = SSL_CTX_new(TLS_client_method());
    client_ = SSL_new(client_context_);
    SSL_set_fd(client_, sockets_[1]);
    SSL_set_connect_state(client_);
  }
  ~TlsStreamTest() override {
    SSL_free(client_);
    SSL_CTX_free(client_context_);
    stream_.reset();
    for (const int socket : sockets_) close(socket);
  }

  // Whether the handshake of the server succeeded.
  bool shake_hands() {
    for (int i = 0; i < 100; ++i) {
      SSL_do_handshake(client_);
      if (stream_->handshake() == 1) return true;
      if (errno != EAGAIN) return false;
    }
    return false;
  }

  std::shared_ptr<TlsContext> context_;
  std::array<int, 2> sockets_{};
  std::unique_ptr<TlsStream> stream_;
  SSL_CTX* client_context_ = nullptr;
  SSL* client_ = nullptr;
};

TEST_F(TlsStreamTest, SaysThatBytesAreLeftWhenTheSpaceIsFull) {
  ASSERT_TRUE(shake_hands());
  const std::string sent = "0123456789";
  ASSERT_EQ(SSL_write(client_, sent.data(), 10), 10);
  ASSERT_EQ(SSL_write(client_, sent.data(), 10), 10);
  std::array<char, 8> space{};
  std::string received;
  for (const bool more : {true, true, false}) {
    const ssize_t got = stream_->read(space);
    ASSERT_GT(got, 0);
    received.append(space.data(), static_cast<size_t>(got));
    EXPECT_EQ(stream_->has_more(), more);
  }
  EXPECT_EQ(received, sent + sent);
  EXPECT_EQ(stream_->read(space), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(stream_->wait(), TlsStream::Wait::kReadable);
  EXPECT_FALSE(stream_->has_partial_record());
}

TEST_F(TlsStreamTest, SendsTheRestFromAnotherAddress) {
  ASSERT_TRUE(shake_hands());
  const std::string answer(200'000, 'a');
  std::string unsent = answer;
  std::string received;
  std::array<char, 4096> space{};
  int waits = 0;
  while (received.size() < answer.size()) {
    if (!unsent.empty()) {
      const std::string moved(unsent);  // another address for each attempt
      const ssize_t sent = stream_->write(moved);
      if (sent > 0) unsent.erase(0, static_cast<size_t>(sent));
      if (sent < 0) {
        ASSERT_EQ(errno, EAGAIN);
        EXPECT_EQ(stream_->wait(), TlsStream::Wait::kWritable);
        ++waits;
      }
    }
    const int got = SSL_read(client_, space.data(), static_cast<int>(space.size()));
    if (got > 0) received.append(space.data(), static_cast<size_t>(got));
  }
  EXPECT_GT(waits, 0);
  EXPECT_EQ(received, answer);
}

TEST_F(TlsStreamTest, ReportsTheEndAfterTheLastBytes) {
  ASSERT_TRUE(shake_hands());
  ASSERT_EQ(SSL_write(client_, "end", 3), 3);
  SSL_shutdown(client_);
  std::array<char, 64> space{};
  EXPECT_EQ(stream_->read(space), 3);
  EXPECT_TRUE(stream_->has_more());  // the end
  EXPECT_EQ(stream_->read(space), 0);
  EXPECT_EQ(stream_->read(space), 0);
}

TEST_F(TlsStreamTest, TellsThePeerThatItCloses) {
  ASSERT_TRUE(shake_hands());
  EXPECT_TRUE(stream_->close_notify());
  char byte = 0;
  const int got = SSL_read(client_, &byte, 1);
  EXPECT_EQ(SSL_get_error(client_, got), SSL_ERROR_ZERO_RETURN);
}

TEST_F(TlsStreamTest, KnowsARecordThatHasArrivedInPart) {
  ASSERT_TRUE(shake_hands());
  std::array<char, 64> space{};
  for (const char byte : {'\x17', '\x03', '\x03', '\x00', '\x20', 'x'}) {
    ASSERT_EQ(send(sockets_[1], &byte, 1, 0), 1);
    EXPECT_EQ(stream_->read(space), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_TRUE(stream_->has_partial_record());
    EXPECT_FALSE(stream_->has_more());
  }
}

TEST_F(TlsStreamTest, FailsForGoodAfterAForgedRecord) {
  ASSERT_TRUE(shake_hands());
  ASSERT_EQ(SSL_write(client_, "good", 4), 4);
  const std::string forged = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  ASSERT_EQ(send(sockets_[1], forged.data(), forged.size(), 0), 37);
  std::array<char, 64> space{};
  EXPECT_EQ(stream_->read(space), 4);
  EXPECT_TRUE(stream_->has_more());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(stream_->read(space), -1);
    EXPECT_NE(errno, EAGAIN);
    EXPECT_EQ(stream_->write("answer"), -1);
    EXPECT_NE(errno, EAGAIN);
  }
  EXPECT_TRUE(stream_->close_notify());  // nothing to do
}

TEST_F(TlsStreamTest, DistinguishesFailuresOfAHandshake) {
  const std::string plain = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_GT(send(sockets_[1], plain.data(), plain.size(), 0), 0);
  EXPECT_EQ(stream_->handshake(), -1);
  EXPECT_NE(errno, EAGAIN);
  EXPECT_EQ(stream_->failure(), TlsFailure::kNotTls);
  EXPECT_THAT(stream_->reason(), Not(testing::StrEq("")));
}

TEST_F(TlsStreamTest, DoesNotCountAClientThatOnlyConnected) {
  shutdown(sockets_[1], SHUT_WR);
  EXPECT_EQ(stream_->handshake(), -1);
  EXPECT_NE(errno, EAGAIN);
  EXPECT_EQ(stream_->failure(), TlsFailure::kClosed);
}

TEST_F(TlsStreamTest, RefusesAnOldVersion) {
  TlsSettings newer = settings_;
  newer.min_version = TlsVersion::k13;
  ASSERT_EQ(context_->reload(newer), nullptr);
  stream_ = context_->open(sockets_[0]);
  SSL_set_max_proto_version(client_, TLS1_2_VERSION);
  EXPECT_FALSE(shake_hands());
  EXPECT_EQ(stream_->failure(), TlsFailure::kOther);
  EXPECT_THAT(stream_->reason(), testing::StrEq("unsupported protocol"));
}

// It offered all suites of OpenSSL, also those with CBC and SHA-1.
TEST_F(TlsStreamTest, OffersOnlyAuthenticatedCiphersInTls12) {
  SSL_set_max_proto_version(client_, TLS1_2_VERSION);
  ASSERT_EQ(SSL_set_cipher_list(client_, "ALL:!AESGCM:!CHACHA20:!aNULL:@SECLEVEL=0"), 1);
  EXPECT_FALSE(shake_hands());
  EXPECT_THAT(stream_->reason(), testing::StrEq("no shared cipher"));
}

TEST_F(TlsStreamTest, AcceptsTls12WithAnAuthenticatedCipher) {
  SSL_set_max_proto_version(client_, TLS1_2_VERSION);
  ASSERT_EQ(SSL_set_cipher_list(client_, "ECDHE+AES128+AESGCM"), 1);
  EXPECT_TRUE(shake_hands());
}

TEST_F(TlsStreamTest, RequiresACertificateOfAClient) {
  TlsSettings mutual = settings_;
  mutual.client_ca = settings_.cert;
  ASSERT_EQ(context_->reload(mutual), nullptr);
  stream_ = context_->open(sockets_[0]);
  EXPECT_FALSE(shake_hands());
  EXPECT_EQ(stream_->failure(), TlsFailure::kCertificate);
}

TEST_F(TlsStreamTest, KeepsTheCertificateThatItBeganWith) {
  write(second_);
  ASSERT_EQ(context_->reload(settings_), nullptr);
  ASSERT_TRUE(shake_hands());
  X509* const got = SSL_get0_peer_certificate(client_);
  char name[16] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(got), NID_commonName, name, sizeof name);
  EXPECT_STREQ(name, "first");
}

}  // namespace
}  // namespace weir::frontends
