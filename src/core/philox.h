// Philox4x32-10 (Salmon et al. 2011): four random words as a pure function of a 64-bit key and a 128-bit counter.
#pragma once

#include <array>
#include <cstdint>

namespace polyhead {

struct Philox {
  static constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  static constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  static constexpr int kRounds = 10;
  using Words = std::array<std::uint32_t, 4>;

  static constexpr Words words(std::uint64_t key, Words counter) noexcept {
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
      counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(product1),
                 static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(product0)};
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    return counter;
  }
};

}  // namespace polyhead
