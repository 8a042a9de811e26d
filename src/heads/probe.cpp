#include "heads/probe.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/draws.h"
#include "heads/occurrences.h"

namespace polyhead::heads {
namespace {

// Every sequence has two streams: one for the keys it is compared with, one for its tokens.
enum Purpose : std::uint32_t { kTargets, kTokens };

Draws draws_for(std::uint64_t seed, std::int64_t sequence, Purpose purpose) {
  constexpr std::uint32_t kDomain = 0x9306e000u;  // separate from other users of the same seed
  return {seed, static_cast<std::uint32_t>(sequence), purpose, kDomain};
}

bool contains(const std::vector<std::int32_t>& all, std::int32_t token) {
  return std::find(all.begin(), all.end(), token) != all.end();
}

void fill_targets(std::span<const std::int32_t> tokens, Draws& draws, std::int32_t* targets) {
  const Occurrences found = occurrences(tokens);
  const auto length = static_cast<std::int32_t>(tokens.size());
  for (std::int32_t i = 0; i < length; ++i, targets += 4) {
    std::int32_t duplicate = found.duplicate[static_cast<std::size_t>(i)];
    // With several occurrences to look at, a head may divide its weight among them: the row proves nothing.
    if (duplicate >= 0 && found.duplicate[static_cast<std::size_t>(duplicate)] >= 0) duplicate = -1;
    targets[kDuplicate] = duplicate;
    targets[kInduction] = duplicate < 0 ? -1 : duplicate + 1;
    targets[kOffByOne] = duplicate < 0 || duplicate + 2 >= i ? -1 : duplicate + 2;
    targets[kChance] = duplicate < 0 ? -1 : draws.below(i);
  }
}

}  // namespace

Probe make_probe(const ConstTensorView& tokens, const ConstTensorView& lengths,
                 const std::vector<std::int32_t>& separators, std::uint64_t seed,
                 const std::vector<std::int32_t>& special) {
  const std::int64_t B = tokens.shape(0), T = tokens.shape(1);
  Probe probe{Tensor::empty({B, T}, DType::i32),
              Tensor(),
              Tensor::zeros({B, T}, DType::boolean),
              Tensor(),
              Tensor::empty({B, T, 4}, DType::i32),
              {},
              0};
  std::copy_n(tokens.as<std::int32_t>(), B * T, probe.tokens.as<std::int32_t>());
  if (lengths.present()) {
    probe.lengths = Tensor::empty({B}, DType::i32);
    std::copy_n(lengths.as<std::int32_t>(), B, probe.lengths.as<std::int32_t>());
  }
  std::fill_n(probe.targets.as<std::int32_t>(), B * T * 4, -1);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t length = lengths.present() ? lengths.as<std::int32_t>()[b] : T;
    const std::int32_t* row = tokens.as<std::int32_t>() + b * T;
    Draws draws = draws_for(seed, b, kTargets);
    fill_targets({row, static_cast<std::size_t>(length)}, draws, probe.targets.as<std::int32_t>() + b * T * 4);
    for (std::int64_t t = 1; t < length; ++t) {
      if (!contains(special, row[t])) {
        probe.separators.as<bool>()[b * T + t] = contains(separators, row[t]);
        continue;
      }
      if (!probe.special.present()) probe.special = Tensor::zeros({B, T}, DType::boolean);
      probe.special.as<bool>()[b * T + t] = true;
    }
  }
  return probe;
}

Probe make_repeats(const RepeatProbe& options) {
  const std::int64_t T = options.length;
  const auto begins = static_cast<std::int64_t>(options.beginning.size());
  if (options.alphabet.empty() || options.shortest < 1 || options.longest < options.shortest || begins >= T) {
    throw Error(ErrorCode::value, "make_repeats",
                "expected an alphabet, segments of 1 token or more and room after the beginning, found " +
                    std::to_string(options.alphabet.size()) + " tokens, segments of " +
                    std::to_string(options.shortest) + " to " + std::to_string(options.longest) + ", " +
                    std::to_string(T - begins) + " tokens of room");
  }
  Tensor tokens = Tensor::empty({options.batch, T}, DType::i32);
  for (std::int64_t b = 0; b < options.batch; ++b) {
    Draws draws = draws_for(options.seed, b, kTokens);
    std::vector<std::int32_t> alphabet = options.alphabet, row = options.beginning;
    const std::int64_t most = std::min(options.longest, static_cast<std::int64_t>(alphabet.size()));
    const std::int64_t least = std::min(options.shortest, most);
    const std::int64_t length = draws.between(least, most);
    const std::size_t first = row.size();
    draws.shuffle(alphabet, length);  // different tokens, so that there is only one next token
    row.insert(row.end(), alphabet.begin(), alphabet.begin() + length);
    for (std::size_t n = first; static_cast<std::int64_t>(row.size()) < T; ++n) row.push_back(row[n]);
    std::copy_n(row.begin(), T, tokens.as<std::int32_t>() + b * T);
  }
  return make_probe(tokens, {}, {}, options.seed);
}

std::vector<Probe> make_repeats(RepeatProbe options, std::int64_t sequences) {
  options.longest = std::clamp<std::int64_t>(options.length / 2, 1, 32);
  options.shortest = std::max<std::int64_t>(options.longest / 4, 1);
  const std::int64_t batch = options.batch;
  const std::uint64_t seed = options.seed * 1000003;
  std::vector<Probe> probes;
  for (std::int64_t left = sequences; left > 0; left -= options.batch) {
    options.batch = std::min(left, batch);
    options.seed = seed + probes.size();
    probes.push_back(make_repeats(options));
  }
  return probes;
}

void add_repeats(Probes& probes, const std::vector<std::int32_t>& special, RepeatProbe repeats,
                 std::int64_t sequences) {
  for (std::int32_t token = 0; token < std::ssize(probes.counts); ++token) {
    std::int64_t& count = probes.counts[static_cast<std::size_t>(token)];
    if (std::find(special.begin(), special.end(), token) != special.end()) {
      count = std::numeric_limits<std::int64_t>::max();
    } else if (count > 0) {
      repeats.alphabet.push_back(token);
    }
  }
  probes.repeats = make_repeats(std::move(repeats), sequences);
}

}  // namespace polyhead::heads
