#include "tests/servers/mariadb_server.h"

#include <fcntl.h>
#include <mysql.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "tests/servers/await.h"
#include "tests/servers/redis_server.h"

namespace weir::servers {
namespace {

int start_process(std::vector<std::string> words, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int process = fork();
  if (process == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  return process;
}

using Connection = std::unique_ptr<MYSQL, decltype(&mysql_close)>;

}  // namespace

MariaDbServer::MariaDbServer(std::vector<std::string> extra_flags)
    : port_(free_port()), extra_flags_(std::move(extra_flags)) {
  install();
  start();
}

MariaDbServer::~MariaDbServer() {
  kill();
}

MariaDbServer& MariaDbServer::shared() {
  static MariaDbServer server;
  return server;
}

// Its own tmpdir, since a server removes temporary tables that it finds there.
std::vector<std::string> MariaDbServer::folder_flags() const {
  return {"--no-defaults", "--datadir=" + (folder_.path() / "data").string(),
          "--tmpdir=" + folder_.path().string()};
}

void MariaDbServer::install() const {
  std::vector<std::string> words = folder_flags();
  words.insert(words.begin(), "mariadb-install-db");
  words.insert(words.end(),
               {"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
                "--user=" + std::string(geteuid() == 0 ? "root" : "")});
  const int process = start_process(std::move(words), folder_.path() / "install.log");
  int status = 0;
  waitpid(process, &status, 0);
  if (status != 0) throw std::runtime_error("mariadb-install-db failed");
}

void MariaDbServer::start() {
  std::vector<std::string> words = folder_flags();
  words.insert(words.begin(), "mariadbd");
  words.insert(
      words.end(),
      {"--socket=" + socket(), "--pid-file=" + (folder_.path() / "pid").string(),
       "--port=" + std::to_string(port_), "--bind-address=127.0.0.1", "--skip-name-resolve",
       "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=64M", "--performance-schema=OFF",
       // No sync to the disk: commits survive a kill of the process.
       "--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=2"});
  if (geteuid() == 0) words.emplace_back("--user=root");
  words.insert(words.end(), extra_flags_.begin(), extra_flags_.end());
  process_ = start_process(std::move(words), folder_.path() / "log");
  if (!await([this] { return answers(); }, std::chrono::seconds(60))) {
    throw std::runtime_error("mariadbd does not answer");
  }
}

bool MariaDbServer::answers() {
  try {
    return query("SELECT 1").size() == 1;
  } catch (const std::runtime_error&) {
    return false;
  }
}

std::vector<std::string> MariaDbServer::query(const std::string& sql, const std::string& database) {
  const Connection connection(mysql_init(nullptr), &mysql_close);
  if (mysql_real_connect(connection.get(), "localhost", "root", "", database.c_str(), 0,
                         socket().c_str(), 0) == nullptr ||
      mysql_real_query(connection.get(), sql.data(), sql.size()) != 0) {
    throw std::runtime_error(mysql_error(connection.get()));
  }
  std::vector<std::string> answer;
  if (MYSQL_RES* const result = mysql_store_result(connection.get())) {
    while (MYSQL_ROW row = mysql_fetch_row(result)) {
      answer.emplace_back(row[0] == nullptr ? "" : row[0]);
    }
    mysql_free_result(result);
  }
  return answer;
}

std::string MariaDbServer::new_database() {
  const std::string name = "weir" + std::to_string(++databases_);
  query("CREATE DATABASE " + name);
  query("GRANT ALL ON " + name + ".* TO 'weir'@'%' IDENTIFIED BY 'secret'");
  return name;
}

void MariaDbServer::kill() {
  if (process_ <= 0) return;
  ::kill(process_, SIGCONT);
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void MariaDbServer::restart() {
  kill();
  start();
}

void MariaDbServer::pause() {
  ::kill(process_, SIGSTOP);
  waitpid(process_, nullptr, WUNTRACED);  // until all threads have stopped
}
void MariaDbServer::resume() {
  ::kill(process_, SIGCONT);
}

}  // namespace weir::servers
