#include "io/checksum.h"

#define XXH_INLINE_ALL  // header-only: no library to link
#include <xxhash.h>

#include "core/numbers.h"

namespace polyhead::io {

struct Checksum::State {
  XXH64_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH64_reset(&state_->hash, 0); }
Checksum::~Checksum() = default;

void Checksum::add(const void* data, std::size_t bytes) {
  if (bytes > 0) XXH64_update(&state_->hash, data, bytes);
}

void Checksum::add(const Tensor& tensor) {
  if (tensor.device() == Device{}) return add(tensor.view().data(), tensor.bytes());
  Tensor here = copied_to_host(tensor);
  const std::span<std::byte> bytes = bytes_of(here);
  add(bytes.data(), bytes.size());
}

std::string Checksum::digits() const {
  XXH64_canonical_t bytes;
  XXH64_canonicalFromHash(&bytes, XXH64_digest(&state_->hash));
  std::string text;
  for (const unsigned char byte : bytes.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace polyhead::io
