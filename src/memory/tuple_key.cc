#include "memory/tuple_key.h"

#include <cstring>

namespace weir::memory {

std::string encode_key(KeyHeader header, const uint64_t* words) {
  std::string out(sizeof header.word + header.words() * sizeof(uint64_t), '\0');
  std::memcpy(out.data(), &header.word, sizeof header.word);
  std::memcpy(out.data() + sizeof header.word, words, header.words() * sizeof(uint64_t));
  return out;
}

KeyHeader header_of(std::string_view encoded) {
  KeyHeader header;
  std::memcpy(&header.word, encoded.data(), sizeof header.word);
  return header;
}

KeyNames names_of(KeyHeader header, const void* words) {
  const char* at = static_cast<const char*>(words);
  const auto next = [&](size_t bytes) {
    std::string name = base::unpack(at, bytes);
    at += sizeof(uint64_t) * base::words_for(bytes);
    return name;
  };
  KeyNames names;
  names.workspace = next(header.workspace_bytes());
  names.ns = next(header.namespace_bytes());
  names.identifier = next(header.identifier_bytes());
  return names;
}

KeyNames names_of(std::string_view encoded) {
  return names_of(header_of(encoded), encoded.data() + sizeof(KeyHeader::word));
}

TupleKey::TupleKey(KeyHeader header, const void* words, const base::KeyedHash& hash)
    : header_(header), word_count_(header.words()) {
  std::memcpy(words_.data(), words, word_count_ * sizeof(uint64_t));
  hash_ = hash(words_.data(), word_count_, header_.word);
}

TupleKey::TupleKey(std::string_view encoded, const base::KeyedHash& hash)
    : TupleKey(header_of(encoded), encoded.data() + sizeof(KeyHeader::word), hash) {}

bool TupleKey::is(std::string_view encoded) const {
  return header_of(encoded).word == header_.word &&
         std::memcmp(encoded.data() + sizeof header_.word, words(),
                     word_count_ * sizeof(uint64_t)) == 0;
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
