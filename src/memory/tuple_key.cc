#include "memory/tuple_key.h"

#include <cstring>

namespace weir::memory {

std::string encode_key(KeyHeader header, const uint64_t* words) {
  std::string out(sizeof header.word + header.words() * sizeof(uint64_t), '\0');
  std::memcpy(out.data(), &header.word, sizeof header.word);
  std::memcpy(out.data() + sizeof header.word, words, header.words() * sizeof(uint64_t));
  return out;
}

bool operator==(const TupleKey& a, const TupleKey& b) {
  return a.header_.word == b.header_.word &&
         std::memcmp(a.words(), b.words(), a.header_.words() * sizeof(uint64_t)) == 0;
}

bool operator<(const TupleKey& a, const TupleKey& b) {
  if (a.hash_ != b.hash_) return a.hash_ < b.hash_;
  if (a.header_.word != b.header_.word) return a.header_.word < b.header_.word;
  return std::memcmp(a.words(), b.words(), a.header_.words() * sizeof(uint64_t)) < 0;
}

}  // namespace weir::memory
