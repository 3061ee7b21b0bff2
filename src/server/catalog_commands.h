// The commands that read and change the catalog: weir workspaces, keys, namespaces, overrides and
// audit. They use the database directly, so they work whether a server runs or not; running servers
// apply a change within a second.

#pragma once

#include <functional>
#include <memory>

#include "server/config.h"

namespace CLI {
class App;
}

namespace weir::server {

// Adds the commands. `add_settings` adds the settings that select the database to a command, and
// returns the function that reads them.
class CatalogCommands {
 public:
  using ReadConfig = std::function<Config()>;
  using AddSettings = std::function<ReadConfig(CLI::App& command)>;

  CatalogCommands(CLI::App& app, const char* group, const AddSettings& add_settings);
  ~CatalogCommands();
  CatalogCommands(const CatalogCommands&) = delete;
  CatalogCommands& operator=(const CatalogCommands&) = delete;

 private:
  struct Options;
  std::unique_ptr<Options> options_;
};

}  // namespace weir::server
