#include "reference/rows.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"
#include "reference/array.h"

namespace polyhead::reference {
namespace {

// [B] or [N+1] numbers: element n, or `otherwise` if they were left out.
std::int64_t number(const ConstTensorView& numbers, std::int64_t n, std::int64_t otherwise) {
  return numbers.present() ? static_cast<std::int64_t>(load(numbers, n * numbers.stride(0))) : otherwise;
}

}  // namespace

std::vector<Sequence> sequences_of(const ConstTensorView& q, const ConstTensorView& k,
                                   const AttentionOptions& options) {
  const bool packed = options.cu_q.present();
  const std::int64_t count = packed ? options.cu_q.shape(0) - 1 : q.shape(0);
  std::vector<Sequence> sequences;
  for (std::int64_t n = 0; n < count; ++n) {
    Sequence s;
    s.index = n;
    s.batch = packed ? 0 : n;
    s.first_query = packed ? number(options.cu_q, n, 0) : 0;
    s.first_key = packed ? number(options.cu_k, n, 0) : number(options.key_start, n, 0);
    const std::int64_t end_query =
        packed ? number(options.cu_q, n + 1, 0) : number(options.query_lengths, n, q.shape(2));
    const std::int64_t end_key = packed ? number(options.cu_k, n + 1, 0) : number(options.key_lengths, n, k.shape(2));
    s.queries = std::max<std::int64_t>(0, end_query - s.first_query);
    s.keys = std::max<std::int64_t>(0, end_key - s.first_key);
    s.shift = options.align == Align::bottom_right ? s.keys - s.queries : options.first_position.value_or(0);
    s.shift = number(options.first_positions, n, s.shift);
    sequences.push_back(s);
  }
  return sequences;
}

bool in_reach(const AttentionOptions& options, std::int64_t p, std::int64_t j) noexcept {
  if (options.causal && j > p) return false;
  const Window& window = options.window;
  return (p - j <= window.left && j - p <= window.right) || j < window.always_first;
}

bool is_kept(const Dropout& dropout, std::int64_t sequence, std::int64_t head, std::int64_t i,
             std::int64_t j) noexcept {
  const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  const Origin& origin = dropout.origin;
  j += origin.key;
  const Philox::Words random = Philox::words(
      dropout.seed, {word(j / 8), word(origin.row + i), word(origin.head + head), word(origin.sequence + sequence)});
  const std::uint32_t pair = random[static_cast<std::size_t>(j % 8 / 2)];
  const std::uint32_t number = j % 2 == 0 ? pair & 0xffffu : pair >> 16;
  return number >= std::lround(65536 * dropout.p);
}

}  // namespace polyhead::reference
