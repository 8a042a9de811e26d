// What happens to a tile of logits S^T [n keys][kPanel queries] between the product and the softmax, and to the weights
// after it: softcap, bias, keep, alibi, positions, dropout. Each is a pass of its own over a tile that lies in L1.
#if defined(POLYHEAD_CPU_LOGITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_LOGITS_INL_H_
#undef POLYHEAD_CPU_LOGITS_INL_H_
#else
#define POLYHEAD_CPU_LOGITS_INL_H_
#endif

#include <bit>

#include "core/philox.h"
#include "cpu/panel-inl.h"
#include "cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// A [T,S] tensor of one sequence and head: keep or bias.
struct Plane {
  const std::byte* data = nullptr;  // element (0,0); null: absent
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, key_stride = 0;

  const std::byte* at(std::int64_t row, std::int64_t key) const {
    return data + (row * row_stride + key * key_stride) * static_cast<std::int64_t>(size_of(dtype));
  }
};

// visit(j, lane) for every vector of a tile of n keys: it lies at [j * kPanel + lane].
template <class T, class Visit>
HWY_INLINE void for_vectors(const PanelRows<T>& panel, std::size_t n, const Visit& visit) {
  const std::size_t width = panel.width();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t lane = 0; lane < width; lane += kLanes<T>) visit(j, lane);
  }
}

// tile [n][kPanel] <- 0 if the panel has lanes without a query: what is written next fills only those that have one.
template <class T, class U>
void clear_idle_lanes(const PanelRows<T>& panel, std::size_t n, U* tile) {
  if (panel.rows == panel.width()) return;
  const Tag<U> d;
  // The compiler turns for_vectors into a memset per row, which took a quarter of a call with short rows.
  if (!panel.narrow()) return static_cast<void>(std::fill_n(tile, n * kPanel<T>, U{0}));
  for (std::size_t j = 0; j < n; ++j) hn::Store(hn::Zero(d), d, tile + j * kPanel<T>);
}

// st [n][kPanel] <- c * tanh(st / c); the division is folded into q. `slopes` (or null) receives the derivative
// 1 - tanh^2.
template <class T>
void apply_softcap(const PanelRows<T>& panel, std::size_t n, T c, T* st, T* slopes) {
  const Tag<T> d;
  for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
    T* s = st + j * kPanel<T> + lane;
    const Tanh<T> t = tanh_of<T>(hn::Load(d, s));
    hn::Store(hn::Mul(hn::Set(d, c), t.value), d, s);
    if (slopes != nullptr) hn::Store(t.slope, d, slopes + j * kPanel<T> + lane);
  });
}

// to[0..n) = bias of one row for keys from first_key.
template <class T>
void read_bias(const Plane& bias, std::int64_t row, std::int64_t first_key, std::size_t n, T* to) {
  if (bias.key_stride == 1) return widen(bias.at(row, first_key), bias.dtype, n, to);
  for (std::size_t j = 0; j < n; ++j) {
    widen(bias.at(row, first_key + static_cast<std::int64_t>(j)), bias.dtype, 1, to + j);
  }
}

// to[j] <- -inf where keep is false.
template <class T>
void hide_by_keep(const Plane& keep, std::int64_t row, std::int64_t first_key, std::size_t n, T* HWY_RESTRICT to) {
  const auto* HWY_RESTRICT flags = reinterpret_cast<const std::uint8_t*>(keep.at(row, first_key));
  if (keep.key_stride == 1) {
    for (std::size_t j = 0; j < n; ++j) to[j] = flags[j] != 0 ? to[j] : -kInfinity<T>;
  } else {
    for (std::size_t j = 0; j < n; ++j) {
      if (flags[static_cast<std::int64_t>(j) * keep.key_stride] == 0) to[j] = -kInfinity<T>;
    }
  }
}

// tile [n][kPanel] = what keep and bias add to the logits: the bias or 0, and -inf where keep is false.
template <class T>
void gather_mask(const Plane& bias, const Plane& keep, const PanelRows<T>& panel, std::int64_t first_key, std::size_t n,
                 T* rows_buffer, T* tile) {
  clear_idle_lanes(panel, n, tile);
  const bool same_for_all = bias.row_stride == 0 && keep.row_stride == 0;
  if (keep.data == nullptr && bias.dtype == dtype_of<T> && bias.key_stride == 1 && bias.row_stride > 0) {
    const auto* from = reinterpret_cast<const T*>(bias.at(panel.row, first_key));
    return transpose(from, static_cast<std::size_t>(bias.row_stride), panel.rows, n, T{1}, tile, kPanel<T>);
  }
  for (std::size_t r = 0; r < (same_for_all ? 1 : panel.rows); ++r) {
    const std::int64_t row = panel.row + static_cast<std::int64_t>(r);
    T* to = rows_buffer + r * n;
    if (bias.data != nullptr) {
      read_bias(bias, row, first_key, n, to);
    } else {
      std::fill(to, to + n, T{0});
    }
    if (keep.data != nullptr) hide_by_keep(keep, row, first_key, n, to);
  }
  if (!same_for_all) return transpose(rows_buffer, n, panel.rows, n, T{1}, tile, kPanel<T>);
  const Tag<T> d;
  for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
    hn::Store(hn::Set(d, rows_buffer[j]), d, tile + j * kPanel<T> + lane);
  });
}

// s <- s + mask, and -inf where the mask is -inf, whatever s was.
template <class T>
void add_mask(const PanelRows<T>& panel, std::size_t n, const T* HWY_RESTRICT tile, T* HWY_RESTRICT st) {
  const Tag<T> d;
  const Vec<T> hidden = hn::Set(d, -kInfinity<T>);
  for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
    const std::size_t at = j * kPanel<T> + lane;
    const Vec<T> mask = hn::Load(d, tile + at);
    const Vec<T> sum = hn::Add(hn::Load(d, st + at), mask);
    hn::Store(hn::IfThenElse(hn::Eq(mask, hidden), hidden, sum), d, st + at);
  });
}

// s <- s - slope * |p_i - j|.
template <class T>
void add_alibi(const PanelRows<T>& panel, std::int64_t first_key, std::size_t n, T slope, T* st) {
  const Tag<T> d;
  for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
    const Vec<T> behind = count_from(d, static_cast<T>(panel.position - first_key + static_cast<std::int64_t>(at)));
    for (std::size_t j = 0; j < n; ++j) {
      T* s = st + j * kPanel<T> + at;
      const Vec<T> away = hn::Abs(hn::Sub(behind, hn::Set(d, static_cast<T>(static_cast<int>(j)))));
      hn::Store(hn::NegMulAdd(hn::Set(d, slope), away, hn::Load(d, s)), d, s);
    }
  }
}

// Hides keys from the queries that do not see them by their position.
template <class T>
void hide_by_position(const kernels::PositionMask<std::int64_t>& mask, const PanelRows<T>& panel,
                      std::int64_t first_key, std::size_t n, T* st) {
  const Tag<T> d;
  const auto lane_of = [&](std::int64_t query) {
    return hn::Set(d, static_cast<T>(std::clamp<std::int64_t>(query - panel.row, 0, kPanel<T>)));
  };
  for (std::size_t row = 0; row < n; ++row) {
    const auto [begin, end] = mask.queries_of(first_key + static_cast<std::int64_t>(row));
    const Vec<T> first = lane_of(begin), last = lane_of(end);
    for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
      T* s = st + row * kPanel<T> + at;
      const Vec<T> lane = count_from(d, static_cast<T>(at));
      const auto seen = hn::And(hn::Ge(lane, first), hn::Lt(lane, last));
      hn::Store(hn::IfThenElse(seen, hn::Load(d, s), hn::Set(d, -kInfinity<T>)), d, s);
    }
  }
}

// Is key row j hidden from every query of the panel? Its value must then not be touched: 0 * NaN is NaN.
template <class T>
bool all_hidden(const T* st_row, std::size_t rows) {
  for (std::size_t lane = 0; lane < rows; ++lane) {
    if (st_row[lane] != -kInfinity<T>) return false;
  }
  return true;
}

#if HWY_TARGET == HWY_AVX3_DL
// pt [(n + 1) / 2][kPanel] = st [n][kPanel] in pairs of keys, rounded.
inline void round_weights(const PanelRows<float>& panel, std::size_t n, const float* HWY_RESTRICT st,
                          Pair* HWY_RESTRICT pt) {
  const Tag<float> d;
  for (std::size_t j = 0; j < n; j += 2, pt += kPanel<float>) {
    for (std::size_t lane = 0; lane < panel.width(); lane += kLanes<float>) {
      const float* at = st + j * kPanel<float> + lane;
      const Vec<float> second = j + 1 < n ? hn::Load(d, at + kPanel<float>) : hn::Zero(d);
      hn::Store(round_pairs(hn::Load(d, at), second), Tag<Pair>(), pt + lane);
    }
  }
}

// to [n][kPanel / 2] = st [n][kPanel] in pairs of queries, rounded; 0 in lanes without a query.
inline void round_rows(const PanelRows<float>& panel, std::size_t n, const float* HWY_RESTRICT st,
                       Pair* HWY_RESTRICT to) {
  const Tag<float> d;
  const auto lower = hn::FirstN(d, panel.rows);
  const auto upper = hn::FirstN(d, panel.narrow() ? 0 : panel.rows - kLanes<float>);
  for (std::size_t j = 0; j < n; ++j, st += kPanel<float>, to += kPanelUnits<Pair>) {
    hn::Store(round_neighbours(hn::IfThenElseZero(lower, hn::Load(d, st)),
                               hn::IfThenElseZero(upper, hn::Load(d, st + kLanes<float>))),
              Tag<Pair>(), to);
  }
}
#endif

// Dropout.

// High and low halves of a * multiplier, lane by lane.
template <class V, class DU>
HWY_INLINE void multiply_wide(DU du, V a, std::uint32_t multiplier, V& high, V& low) {
  const hn::RepartitionToWide<DU> dw;
  const V m = hn::Set(du, multiplier);
  const auto even = hn::MulEven(a, m);
  const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, a))), m);
  high = hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even));
}

struct DropoutKey {
  std::uint64_t seed;
  std::uint32_t head, sequence, threshold;  // kept iff a key's 16 bits >= threshold
  std::int64_t first_row, first_key;        // of the call in the whole that it is a part of
};

// Zeroes the dropped weights of a vector of queries, from lane `at` on, in st [n][kPanel]. Counter (j/8, i, head,
// sequence): eight keys share four words.
inline void drop_lanes(const DropoutKey& key, const PanelRows<float>& panel, std::int64_t first_key, std::size_t n,
                       std::size_t at, float* st) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> du;
  hn::Vec<decltype(du)> words[4];
  const auto row = static_cast<std::uint32_t>(key.first_row + panel.row + static_cast<std::int64_t>(at));
  std::int64_t made_for = -1;
  for (std::size_t r = 0; r < n; ++r) {
    const std::int64_t j = key.first_key + first_key + static_cast<std::int64_t>(r);
    if (j / 8 != made_for) {
      made_for = j / 8;
      words[0] = hn::Set(du, static_cast<std::uint32_t>(made_for));
      words[1] = count_from(du, row);
      words[2] = hn::Set(du, key.head);
      words[3] = hn::Set(du, key.sequence);
      auto k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
      for (int round = 0; round < Philox::kRounds; ++round) {
        hn::Vec<decltype(du)> high0, low0, high1, low1;
        multiply_wide(du, words[0], Philox::kMultiplier0, high0, low0);
        multiply_wide(du, words[2], Philox::kMultiplier1, high1, low1);
        words[0] = hn::Xor(hn::Xor(high1, words[1]), hn::Set(du, k0));
        words[2] = hn::Xor(hn::Xor(high0, words[3]), hn::Set(du, k1));
        words[1] = low1;
        words[3] = low0;
        k0 += Philox::kWeyl0;
        k1 += Philox::kWeyl1;
      }
    }
    const auto word = words[(j % 8) / 2];
    const auto bits = j % 2 != 0 ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(du, 0xffffu));
    const auto kept = hn::RebindMask(d, hn::Not(hn::Lt(bits, hn::Set(du, key.threshold))));
    float* p = st + r * kPanel<float> + at;
    hn::Store(hn::IfThenElseZero(kept, hn::Load(d, p)), d, p);
  }
}

template <class T>
void drop(const DropoutKey& key, const PanelRows<T>& panel, std::int64_t first_key, std::size_t n, T* st) {
  if constexpr (sizeof(T) == 4) {
    for (std::size_t at = 0; at < panel.rows; at += kLanes<T>) drop_lanes(key, panel, first_key, n, at, st);
  } else {
    for (std::size_t r = 0; r < n; ++r) {
      const std::int64_t j = key.first_key + first_key + static_cast<std::int64_t>(r);
      for (std::size_t lane = 0; lane < panel.rows; ++lane) {
        const Philox::Words words = Philox::words(
            key.seed, {static_cast<std::uint32_t>(j / 8),
                       static_cast<std::uint32_t>(key.first_row + panel.row + static_cast<std::int64_t>(lane)),
                       key.head, key.sequence});
        const std::uint32_t bits = (words[static_cast<std::size_t>((j % 8) / 2)] >> (16 * (j % 2))) & 0xffffu;
        if (bits < key.threshold) st[r * kPanel<T> + lane] = T{0};
      }
    }
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
