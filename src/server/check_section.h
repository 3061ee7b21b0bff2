// The section `check` of a settings file: the rules of /v1/check.
//
// It is a tree, so it has no flag and no environment variable.

#pragma once

#include <vector>

#include "frontends/http/check_rules.h"
#include "server/config.h"

namespace YAML {
class Node;
}

namespace weir::server {

// Reads the section into `rules` and appends its problems.
void read_check_section(const YAML::Node& section, frontends::CheckRules& rules,
                        std::vector<ConfigProblem>& problems);

}  // namespace weir::server
