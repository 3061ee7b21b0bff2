#include "sim/scenario/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

namespace weir::sim {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr size_t kMostParts = 100'000;
constexpr size_t kDeepest = 16;

YamlLocation location_of(const YAML::Mark& mark) {
  return {.line = mark.line + 1, .column = mark.column + 1};
}

class Builder : public YAML::EventHandler {
 public:
  [[nodiscard]] YamlTree take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "there is more than one document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    put(mark, begin(mark, YamlTree::Kind::kNothing));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases are not read: write out what is meant");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    YamlTree tree = begin(mark, YamlTree::Kind::kWord);
    tree.word = value;
    put(mark, std::move(tree));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, YamlTree::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, YamlTree::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlTree tree;
    YAML::Mark mark;
    std::optional<YamlTree> key = {};  // of a map: read, its value follows
  };

  // Only exceptions of the parser's own type may pass through the parser.
  [[noreturn]] static void refuse(const YAML::Mark& mark, const char* what) {
    throw YAML::ParserException(mark, what);
  }

  YamlTree begin(const YAML::Mark& mark, YamlTree::Kind kind) {
    if (++parts_ > kMostParts) refuse(mark, "there is too much of it");
    YamlTree tree;
    tree.kind = kind;
    tree.location = location_of(mark);
    return tree;
  }

  void open(const YAML::Mark& mark, YamlTree::Kind kind) {
    if (open_.size() >= kDeepest) refuse(mark, "it is nested too deeply");
    open_.push_back({.tree = begin(mark, kind), .mark = mark});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    put(done.mark, std::move(done.tree));
  }

  void put(const YAML::Mark& mark, YamlTree tree) {
    if (open_.empty()) {
      root_ = std::move(tree);
      return;
    }
    Open& parent = open_.back();
    if (parent.tree.kind == YamlTree::Kind::kMap) {
      if (!parent.key) {
        if (tree.kind != YamlTree::Kind::kWord) refuse(mark, "a key must be a word");
        parent.key = std::move(tree);
        return;
      }
      tree.key = std::move(parent.key->word);
      tree.key_location = parent.key->location;
      // A missing value has the location of its key.
      if (tree.kind == YamlTree::Kind::kNothing) tree.location = tree.key_location;
      parent.key.reset();
    }
    parent.tree.parts.push_back(std::move(tree));
  }

  YamlTree root_;
  std::vector<Open> open_;
  size_t parts_ = 0;
  int documents_ = 0;
};

// "a.0.b" or "a[0].b".
std::vector<std::string> steps_of(std::string_view path) {
  std::vector<std::string> steps(1);
  for (const char c : path) {
    if (c == '.' || c == '[') {
      steps.emplace_back();
    } else if (c != ']') {
      steps.back() += c;
    }
  }
  return steps;
}

std::optional<size_t> index_of(std::string_view step) {
  size_t index = 0;
  const char* end = step.data() + step.size();
  const auto [stop, error] = std::from_chars(step.data(), end, index);
  if (step.empty() || error != std::errc() || stop != end) return std::nullopt;
  return index;
}

YamlTree* find_part(YamlTree& tree, const std::string& step, YamlLocation made) {
  if (tree.kind == YamlTree::Kind::kList) {
    const auto index = index_of(step);
    if (!index || *index > tree.parts.size()) return nullptr;
    if (*index == tree.parts.size()) tree.parts.emplace_back().location = made;
    return &tree.parts[*index];
  }
  const auto found = std::find_if(tree.parts.begin(), tree.parts.end(),
                                  [&](const YamlTree& part) { return part.key == step; });
  if (found != tree.parts.end()) return &*found;
  YamlTree& part = tree.parts.emplace_back();
  part.location = part.key_location = made;
  part.key = step;
  return &part;
}

void mark_all(YamlTree& tree, YamlLocation location) {
  tree.location = tree.key_location = location;
  for (YamlTree& part : tree.parts) mark_all(part, location);
}

}  // namespace

bool read_yaml(std::string_view text, YamlTree& tree, YamlProblem& problem) {
  if (text.size() > kMostBytes) {
    problem = {.location = {}, .text = fmt::format("is larger than {} bytes", kMostBytes)};
    return false;
  }
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    Builder builder;
    while (parser.HandleNextDocument(builder)) {
    }
    tree = builder.take();
    return true;
  } catch (const YAML::Exception& error) {
    problem = {.location = location_of(error.mark), .text = "not valid YAML: " + error.msg};
  } catch (const std::exception& error) {
    problem = {.location = {}, .text = fmt::format("not valid YAML: {}", error.what())};
  }
  return false;
}

std::string put_yaml(YamlTree& tree, std::string_view path, YamlTree value, int change) {
  const YamlLocation made{.change = change};
  const std::vector<std::string> steps = steps_of(path);
  if (std::any_of(steps.begin(), steps.end(), [](const auto& step) { return step.empty(); })) {
    return "is no path; write one such as settings.policy or limits.0.limit";
  }
  if (steps.size() > kDeepest) return "leads too deep";
  YamlTree* at = &tree;
  std::string passed;
  for (const std::string& step : steps) {
    if (at->kind == YamlTree::Kind::kNothing) {
      at->kind = index_of(step) ? YamlTree::Kind::kList : YamlTree::Kind::kMap;
    }
    if (at->kind == YamlTree::Kind::kWord) {
      return fmt::format("leads beyond {}, which is '{}'", passed, at->word);
    }
    const size_t had = at->parts.size();
    at = find_part(*at, step, made);
    if (at == nullptr) {
      return fmt::format("leads to no item of {}, which has {}, counted from 0", passed, had);
    }
    passed += (passed.empty() ? "" : ".") + step;
  }
  mark_all(value, made);
  value.key = at->key;
  value.key_location = at->key_location;
  *at = std::move(value);
  return {};
}

}  // namespace weir::sim
