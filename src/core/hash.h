// FNV-1a: tells sequences apart, the same way on every machine. Collisions are easy to make on purpose.
#pragma once

#include <cstdint>
#include <type_traits>

namespace polyhead {

template <class Integers>
constexpr std::uint64_t fnv1a(const Integers& sequence) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const auto number : sequence) {
    hash = (hash ^ static_cast<std::make_unsigned_t<std::remove_const_t<decltype(number)>>>(number)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace polyhead
