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

  // The keys of all rounds, for many draws with one key.
  struct Keys {
    std::uint32_t k0[kRounds] = {}, k1[kRounds] = {};

    constexpr Keys() = default;
    constexpr explicit Keys(std::uint64_t key) {
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        k0[round] = static_cast<std::uint32_t>(key) + round * kWeyl0;
        k1[round] = static_cast<std::uint32_t>(key >> 32) + round * kWeyl1;
      }
    }
  };

  static constexpr Words words(const Keys& keys, Words counter) noexcept {
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
      counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ keys.k0[round],
                 static_cast<std::uint32_t>(product1),
                 static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ keys.k1[round],
                 static_cast<std::uint32_t>(product0)};
    }
    return counter;
  }
  static constexpr Words words(std::uint64_t key, const Words& counter) noexcept { return words(Keys(key), counter); }
};

}  // namespace polyhead
