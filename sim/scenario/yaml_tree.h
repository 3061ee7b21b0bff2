// A YAML document as a plain tree that knows where everything in it stands.
//
// Made from any text without harm: nesting and size are bounded, and aliases, which could make
// a tree of any size from a few lines, are refused.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/error.h"

namespace weir::sim {

// Line and column from 1, or 0 where there is no place.
struct YamlLocation {
  int line = 0;
  int column = 0;
  int change = -1;  // which of the changes put it there; none: it is in the text
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

// What is wrong, and where.
struct YamlProblem {
  YamlLocation location;
  std::string text;
};

// Reads `text` into `tree`. True: it is one document, or nothing at all.
[[nodiscard]] bool read_yaml(std::string_view text, YamlTree& tree, YamlProblem& problem);

// Puts `value` where `path` says: keys and numbers of list items, "limits.0.burst". What is missing
// on the way is made, an item only at the end of its list. Returns what is wrong, or nothing.
// Everything made is marked as of `change`.
[[nodiscard]] std::string put_yaml(YamlTree& tree, std::string_view path, YamlTree value,
                                   int change);

}  // namespace weir::sim
