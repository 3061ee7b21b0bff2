// A YAML document as a plain tree with the location of every value.
//
// Safe for any text: nesting and size are bounded, and aliases, which could make a tree of any size
// from a few lines, are refused.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/error.h"

namespace weir::sim {

// Line and column from 1, or 0 without a location.
struct YamlLocation {
  int line = 0;
  int column = 0;
  int change = -1;  // the index of the change that added it; -1: it is in the text
};

struct YamlTree {
  enum class Kind : uint8_t { kNothing, kWord, kList, kMap };
  Kind kind = Kind::kNothing;
  YamlLocation location;
  std::string word;             // kWord
  std::vector<YamlTree> parts;  // kList and kMap, as written
  std::string key;              // of a part of a map
  YamlLocation key_location;
};

// An error and its location.
struct YamlProblem {
  YamlLocation location;
  std::string text;
};

// Reads `text` into `tree`. True: it is one document, or empty.
[[nodiscard]] bool read_yaml(std::string_view text, YamlTree& tree, YamlProblem& problem);

// Puts `value` at `path`: keys and list indexes, "limits.0.burst". Creates missing parents; an item
// only at the end of its list. Returns an error, or an empty string. New values have the location
// `change`.
[[nodiscard]] std::string put_yaml(YamlTree& tree, std::string_view path, YamlTree value,
                                   int change);

}  // namespace weir::sim
