// AdamW on the CPU: one pass over weight, both moments and gradient of all tensors.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/adamw.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kRow = 4096;

inline RowBlocks blocks_of(std::int64_t count) { return RowBlocks((count + kRow - 1) / kRow, kRow); }

// A block of one of several tensors: elements [begin, end).
struct Piece {
  std::size_t tensor, begin, end;
};

// The blocks of all tensors, each cut on its own, in one list for the team.
template <class CountOf>
std::vector<Piece> pieces_of(std::size_t tensors, const CountOf& count_of) {
  std::vector<Piece> pieces;
  for (std::size_t n = 0; n < tensors; ++n) {
    const std::int64_t count = count_of(n);
    const RowBlocks blocks = blocks_of(count);
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      pieces.push_back({n, static_cast<std::size_t>(blocks.begin(block) * kRow),
                        static_cast<std::size_t>(std::min(count, blocks.end(block) * kRow))});
    }
  }
  return pieces;
}
template <class Work>
void for_pieces(Team& team, const std::vector<Piece>& pieces, const Work& work) {
  const auto count = static_cast<std::int64_t>(pieces.size());
  const auto members = static_cast<int>(std::clamp<std::int64_t>(count / 2, 1, team.threads()));
  team.for_each(count, 1, members, [&](int) {
    return [&](std::int64_t n) { work(static_cast<std::size_t>(n), pieces[static_cast<std::size_t>(n)]); };
  });
}

template <class T>
void adamw_as(Team& team, const kernels::AdamWProblem& p) {
  const double c1 = 1 - std::pow(p.beta1, static_cast<double>(p.step));
  const double c2 = 1 - std::pow(p.beta2, static_cast<double>(p.step));
  const T rate = static_cast<T>(p.rate / c1), root = static_cast<T>(1 / std::sqrt(c2));
  // 1 - beta is formed in double: from a beta rounded to T it would lose more digits the nearer beta is to 1.
  const T fresh1 = static_cast<T>(1 - p.beta1), b2 = static_cast<T>(p.beta2), fresh2 = static_cast<T>(1 - p.beta2),
          epsilon = static_cast<T>(p.epsilon), factor = static_cast<T>(p.gradient_factor);
  const auto pieces = pieces_of(p.tensors.size(), [&](std::size_t n) { return p.tensors[n].weight.count(); });
  for_pieces(team, pieces, [&](std::size_t, const Piece& piece) {
    const kernels::AdamWTensor& tensor = p.tensors[piece.tensor];
    T *weight = data_of<T>(tensor.weight), *first = data_of<T>(tensor.first), *second = data_of<T>(tensor.second);
    const T *gradient = data_of<T>(tensor.gradient), keep = static_cast<T>(tensor.decays ? 1 - p.rate * p.decay : 1);
    for_columns<T>(piece.end - piece.begin, [&](auto d, std::size_t c) {
      const std::size_t at = piece.begin + c;
      const auto g = hn::Mul(hn::Set(d, factor), hn::LoadU(d, gradient + at));
      const auto before = hn::LoadU(d, first + at), fresh = hn::Mul(hn::Set(d, fresh2), g);
      const auto m = hn::MulAdd(hn::Set(d, fresh1), hn::Sub(g, before), before);
      const auto v = hn::MulAdd(hn::Set(d, b2), hn::LoadU(d, second + at), hn::Mul(fresh, g));
      const auto denominator = hn::MulAdd(hn::Sqrt(v), hn::Set(d, root), hn::Set(d, epsilon));
      const auto step = hn::Div(hn::Mul(hn::Set(d, rate), m), denominator);
      hn::StoreU(m, d, first + at);
      hn::StoreU(v, d, second + at);
      hn::StoreU(hn::MulSub(hn::LoadU(d, weight + at), hn::Set(d, keep), step), d, weight + at);
    });
  });
}

template <class T>
void sums_of_squares_as(Team& team, std::span<const ConstTensorView> tensors, const TensorView& sums) {
  const auto pieces = pieces_of(tensors.size(), [&](std::size_t n) { return tensors[n].count(); });
  std::vector<double> parts(pieces.size());
  for_pieces(team, pieces, [&](std::size_t n, const Piece& piece) {
    const T* data = data_of<T>(tensors[piece.tensor]);
    parts[n] = static_cast<double>(sum_columns<T>(piece.end - piece.begin, [&](auto d, std::size_t c) {
      const auto value = hn::LoadU(d, data + piece.begin + c);
      return hn::Mul(value, value);
    }));
  });
  auto* to = data_of<double>(sums);
  std::fill_n(to, tensors.size(), 0.0);
  for (std::size_t n = 0; n < pieces.size(); ++n) to[pieces[n].tensor] += parts[n];
}

void adamw(Team& team, const kernels::AdamWProblem& problem) {
  problem.tensors[0].weight.dtype() == DType::f64 ? adamw_as<double>(team, problem) : adamw_as<float>(team, problem);
}
void sums_of_squares(Team& team, std::span<const ConstTensorView> tensors, const TensorView& sums) {
  tensors[0].dtype() == DType::f64 ? sums_of_squares_as<double>(team, tensors, sums)
                                   : sums_of_squares_as<float>(team, tensors, sums);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(adamw);
HWY_EXPORT(sums_of_squares);

void adamw(Team& team, const kernels::AdamWProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(adamw)(team, problem);
}
void sums_of_squares(Team& team, std::span<const ConstTensorView> tensors, const TensorView& sums) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(sums_of_squares)(team, tensors, sums);
}

}  // namespace polyhead::cpu
#endif
