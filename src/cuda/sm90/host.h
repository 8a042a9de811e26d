// What the host code of the Hopper kernels has in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "cuda/sm90/arguments.h"
#include "kernels/attention.h"

namespace polyhead::cuda::sm90 {

// Bytes of L2 for what the tiles that run at the same time read again and again.
inline constexpr std::int64_t kSectionBytes = 32 << 20;

template <class T, class View>
Strided<T> strided(const View& view) {
  if (!view.present()) return {};
  return {static_cast<T*>(view.data()), view.stride(0), view.stride(1), view.rank() > 2 ? view.stride(2) : 0};
}

inline PerHead per_head(const ConstTensorView& view) {
  if (!view.present()) return {};
  return {static_cast<const float*>(view.data()), view.stride(0), view.stride(1)};
}

// Whether a Reach says all that a mask says.
inline bool has_reach(const kernels::MaskOptions& mask) {
  const Window& window = mask.window;
  return mask == kernels::MaskOptions{
                     .causal = mask.causal,
                     .window = {.left = window.left, .right = window.right, .always_first = window.always_first}};
}
inline Reach reach_of(const kernels::AttentionProblem& problem) {
  const auto near = [](std::int64_t reach) {
    return static_cast<int>(std::min<std::int64_t>(reach, Reach::kUnlimited));
  };
  const bool causal = problem.mask.causal;
  const Window& window = problem.mask.window;
  return {near(window.left), causal ? 0 : near(window.right), near(window.always_first),
          causal ? 0 : Reach::kUnlimited};
}

// Tiles of `per_tile` lines of an axis of `size`, for every head; `sharing` heads in a row read the same `read_bytes`.
inline TileOrder order_of(const kernels::Sequences& sequences, std::int64_t heads, std::int64_t size, int per_tile,
                          std::int64_t read_bytes, std::int64_t sharing) {
  TileOrder order;
  order.heads = static_cast<int>(heads);
  order.row_tiles =
      static_cast<int>(sequences.packed ? size / per_tile + sequences.count : (size + per_tile - 1) / per_tile);
  order.columns = static_cast<int>(sequences.packed ? heads : sequences.count * heads);
  order.tiles = order.columns * order.row_tiles;
  const std::int64_t columns =
      std::max<std::int64_t>(1, kSectionBytes / std::max<std::int64_t>(1, read_bytes)) * sharing;
  order.columns_per_section = static_cast<int>(std::min<std::int64_t>(columns, order.columns));
  return order;
}

// cap tanh(scale s / cap), in powers of 2. Up to 0.35 of the cap, tanh z = z (1 + c_1 z^2 + c_2 z^4 + c_3 z^6) to 4e-8
// of it. Where the terms would leave the range of f32 the polynomial is not used.
inline void set_softcap(Options& options, double scale, double cap) {
  options.softcap = static_cast<float>(cap);
  if (!(cap > 0 && scale > 1e-6 && scale < 1e6)) return;
  const double ratio = scale / cap;
  if (!(ratio > 1e-4 && ratio < 1e4)) return;
  constexpr double kTanh[] = {1, -0.33332663164, 0.13299825372, -0.049148501516};
  for (int i = 0; i < 4; ++i) {
    options.cap_terms[i] = static_cast<float>(scale * std::numbers::log2e * kTanh[i] * std::pow(ratio, 2 * i));
  }
  options.cap_limit = static_cast<float>(0.35 / ratio);
}

// The score modifiers as a kernel takes them, except keep_bits and seen.
inline Options options_of(const kernels::AttentionProblem& problem) {
  const auto by_score = [](const ConstTensorView& view) -> ScoreTensor {
    if (!view.present()) return {};
    return {view.data(), view.dtype(), view.stride(0), view.stride(1), view.stride(2), view.stride(3)};
  };
  Options o;
  o.keep = by_score(problem.keep);
  o.bias = by_score(problem.bias);
  set_softcap(o, problem.scale, problem.softcap);
  o.alibi = per_head(problem.alibi);
  if (problem.dropout.p > 0) {
    o.keys = Philox::Keys(problem.dropout.seed);
    o.threshold = static_cast<std::uint32_t>(std::lround(65536 * problem.dropout.p));
    o.kept_factor = static_cast<float>(1 / (1 - problem.dropout.p));
  }
  return o;
}

// A byte per key, [B][heads_of_seen][S]: whether some query sees it, despite keep and bias.
inline std::int64_t heads_of_seen(const kernels::AttentionProblem& problem) {
  const auto by_head = [](const ConstTensorView& view) { return view.present() && view.stride(1) != 0; };
  return by_head(problem.keep) || by_head(problem.bias) ? problem.heads : 1;
}
inline void set_seen(Options& options, const kernels::AttentionProblem& problem, const std::uint8_t* seen) {
  options.seen = seen;
  options.seen_head = heads_of_seen(problem) > 1 ? problem.sequences.keys : 0;
  options.seen_batch = heads_of_seen(problem) * problem.sequences.keys;
}
void queue_seen_keys(cudaStream_t stream, const kernels::AttentionProblem& problem, std::uint8_t* seen);

// [B,H,T]
inline Dims rows_shape(const kernels::AttentionProblem& problem) {
  return {problem.q.shape(0), problem.heads, problem.sequences.queries};
}

}  // namespace polyhead::cuda::sm90
