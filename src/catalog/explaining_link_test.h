// A connection that also asks the database how it will run each statement that reads or deletes.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ledgers/sql/sql_link.h"

namespace weir::catalog {

class ExplainingLink final : public ledgers::SqlLink {
 public:
  // `columns`: of the answer to the question, which are joined to a line.
  explicit ExplainingLink(std::unique_ptr<SqlLink> inner,
                          std::string explain = "EXPLAIN QUERY PLAN ",
                          std::vector<size_t> columns = {3})
      : inner_(std::move(inner)), explain_(std::move(explain)), columns_(std::move(columns)) {}

  std::vector<std::string> plans;  // one line for each table

  std::optional<ledgers::SqlFailure> run(std::span<const ledgers::SqlStatement> statements,
                                         const EachRow& each, Connection connection) override {
    for (const ledgers::SqlStatement& statement : statements) {
      if (!statement.sql.starts_with("SELECT") && !statement.sql.starts_with("DELETE")) continue;
      const std::string text = explain_ + std::string(statement.sql);
      const ledgers::SqlStatement question{.sql = text, .values = statement.values};
      (void)inner_->run({&question, 1}, [this](size_t, const ledgers::SqlRow& row) {
        std::string line;
        for (const size_t column : columns_) {
          line += (line.empty() ? "" : " ") + std::string(row.bytes(column));
        }
        plans.push_back(std::move(line));
      });
    }
    return inner_->run(statements, each, connection);
  }
  [[nodiscard]] uint64_t affected() const override { return inner_->affected(); }
  [[nodiscard]] uint64_t connections() const override { return inner_->connections(); }

 private:
  const std::unique_ptr<SqlLink> inner_;
  const std::string explain_;
  const std::vector<size_t> columns_;
};

}  // namespace weir::catalog
