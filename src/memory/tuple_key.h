// The identity of a tuple: workspace, namespace, identifier, duration and class of algorithm. Not
// the limit, which may change from one request to the next.
//
// The three names are packed into consecutive words without a separator. Their lengths are in the
// header, so two tuples never have the same key, whatever bytes the names contain. Keys are
// compared in full: the hash only selects the buckets.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/inline.h"
#include "base/keyed_hash.h"
#include "base/word_packer.h"
#include "weir/request.h"

namespace weir::memory {

// Algorithms whose state has the same form share it.
enum class CellClass : uint8_t {
  kWindow,   // fixed_window, sliding_window: counts of two neighbouring windows
  kBacklog,  // gcra, token_bucket
  kRing,     // sliding_window_strict
  kLog,      // sliding_log
};

[[nodiscard]] constexpr CellClass class_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kGcra:
    case Algorithm::kTokenBucket: return CellClass::kBacklog;
    case Algorithm::kSlidingWindowStrict: return CellClass::kRing;
    case Algorithm::kSlidingLog: return CellClass::kLog;
    case Algorithm::kSlidingWindow:
    case Algorithm::kFixedWindow: break;
  }
  return CellClass::kWindow;
}

// The duration (0: any) in 32 bits, the class in 2, three lengths of 0-512 in 10 each.
struct KeyHeader {
  uint64_t word = 0;

  [[nodiscard]] Millis duration() const { return Millis(static_cast<int64_t>(word >> 32)); }
  [[nodiscard]] CellClass cell_class() const { return static_cast<CellClass>((word >> 30) & 3); }
  [[nodiscard]] size_t workspace_bytes() const { return (word >> 20) & 1023; }
  [[nodiscard]] size_t namespace_bytes() const { return (word >> 10) & 1023; }
  [[nodiscard]] size_t identifier_bytes() const { return word & 1023; }
  [[nodiscard]] size_t words() const {
    return base::words_for(workspace_bytes()) + base::words_for(namespace_bytes()) +
           base::words_for(identifier_bytes());
  }
};

static_assert(kMaxNameBytes < 1024);

// The canonical encoding for stores outside the process: equal bytes mean equal tuples.
[[nodiscard]] std::string encode_key(KeyHeader header, const uint64_t* words);
[[nodiscard]] KeyHeader header_of(std::string_view encoded);

struct KeyNames {
  std::string workspace;
  std::string ns;
  std::string identifier;
};
// The names in the words of a key, which need not be aligned.
[[nodiscard]] KeyNames names_of(KeyHeader header, const void* words);
[[nodiscard]] KeyNames names_of(std::string_view encoded);

// Built on the caller's stack from a valid request; holds its own copy of the names.
class TupleKey {
 public:
  TupleKey() {}  // NOLINT: `= default` would have `{}` clear the words
  WEIR_HOT_INLINE TupleKey(const Request& request, const base::KeyedHash& hash) {
    assign(request, hash);
  }
  void assign(const Request& request, const base::KeyedHash& hash);
  // From the key in a slot, or from its encoding.
  TupleKey(KeyHeader header, const void* words, const base::KeyedHash& hash);
  TupleKey(std::string_view encoded, const base::KeyedHash& hash);

  [[nodiscard]] KeyHeader header() const { return header_; }
  [[nodiscard]] const uint64_t* words() const { return words_.data(); }
  [[nodiscard]] size_t word_count() const { return word_count_; }
  [[nodiscard]] uint64_t hash() const { return hash_; }

  [[nodiscard]] std::string encoded() const { return encode_key(header_, words()); }
  [[nodiscard]] bool is(std::string_view encoded) const;

  // Some total order, the same in every thread.
  friend bool operator<(const TupleKey& a, const TupleKey& b);
  friend bool operator==(const TupleKey& a, const TupleKey& b);

 private:
  KeyHeader header_;
  uint64_t hash_ = 0;
  size_t word_count_ = 0;
  // Only the first word_count_ are initialized.
  std::array<uint64_t, 3 * base::words_for(kMaxNameBytes)> words_;
};

WEIR_HOT_INLINE void TupleKey::assign(const Request& request, const base::KeyedHash& hash) {
  const Millis duration = request.across_durations ? Millis(0) : request.duration;
  header_.word = static_cast<uint64_t>(duration.count()) << 32 |
                 static_cast<uint64_t>(class_of(request.algorithm)) << 30 |
                 static_cast<uint64_t>(request.workspace.size()) << 20 |
                 static_cast<uint64_t>(request.ns.size()) << 10 |
                 static_cast<uint64_t>(request.identifier.size());
  base::WordPacker packer(words_.data());
  packer.add(request.workspace);
  packer.add(request.ns);
  packer.add(request.identifier);
  word_count_ = base::words_for(request.workspace.size()) + base::words_for(request.ns.size()) +
                base::words_for(request.identifier.size());
  hash_ = hash(words_.data(), word_count_, header_.word);
}

}  // namespace weir::memory
