// The section `namespaces` of a settings file: default limits of namespaces.
//
// It is a tree, so it has no flag and no environment variable.

#pragma once

#include <vector>

#include "catalog/snapshot.h"
#include "server/config.h"

namespace YAML {
class Node;
}

namespace weir::server {

// Reads the section into `namespaces` and appends its problems.
void read_namespaces_section(const YAML::Node& section, catalog::ConfiguredNamespaces& namespaces,
                             std::vector<ConfigProblem>& problems);

}  // namespace weir::server
