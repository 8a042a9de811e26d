// dk or dv of one block of keys, summed over the panels of queries that see it.
#if defined(POLYHEAD_CPU_BLOCK_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_BLOCK_SUMS_INL_H_
#undef POLYHEAD_CPU_BLOCK_SUMS_INL_H_
#else
#define POLYHEAD_CPU_BLOCK_SUMS_INL_H_
#endif

#include "cpu/gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Rows that can be added to.
template <class T>
struct Sums {
  T* data;
  std::size_t stride;
};

// Panels whose parts of dk and dv are summed up before they are added to the rest: rounding then grows with the number
// of these sums and with their length, not with the number of queries.
inline constexpr std::size_t kPanelsPerSum = 16;

// dk or dv of one block: summed up in the tensor itself if its layout allows, else in scratch and stored at the end.
template <class T>
class BlockSums {
 public:
  // So many `panels` add to it; if they are few, it does not matter that the tensor's rows lie far apart. scratch and
  // partial [kBlock][padded columns].
  BlockSums(const TensorView& to, std::int64_t batch, std::int64_t kv_head, std::int64_t key, std::int64_t keys,
            std::int64_t panels, T* scratch, T* partial)
      : to_(to),
        keys_(static_cast<std::size_t>(keys)),
        columns_(static_cast<std::size_t>(to.shape(3))),
        data_(static_cast<std::byte*>(to.data()) +
              (batch * to.stride(0) + kv_head * to.stride(1) + key * to.stride(2)) *
                  static_cast<std::int64_t>(size_of(to.dtype()))),
        in_place_(to.dtype() == dtype_of<T> && padded<T>(columns_) == columns_ &&
                  (to.stride(2) == to.shape(3) || (panels <= 2 && to.stride(2) > to.shape(3)))),
        total_{scratch, padded<T>(columns_)},
        partial_{partial, padded<T>(columns_)},
        long_(panels > static_cast<std::int64_t>(kPanelsPerSum)) {
    if (in_place_) total_ = {reinterpret_cast<T*>(data_), static_cast<std::size_t>(to.stride(2))};
  }

  // Adds P^T X to keys [first, first + n) of the block, X being the `rows` rows of `panels` panels, the weights of each
  // [n][kPanel] and kBlock * kPanel after those of the one before; rows_of(key, key) says which rows see any of these
  // keys. `careful`: some weights may be 0, and X not finite. `pairs` [n][kPanel / 2] and x_pairs: both in pairs of
  // rows, or null.
  template <class RowsOf>
  void add(const T* pt, std::size_t panels, std::size_t first, std::size_t n, std::size_t rows, bool careful,
           const RowsOf& rows_of, const Matrix<T>& x, const Pair* pairs, const Matrix<Pair>& x_pairs) {
    const Sums<T>& sums = long_ ? partial_ : total_;
    bool& fresh = long_ ? fresh_partial_ : fresh_;
    const bool finite = !careful || all_finite(x.data, x.stride, rows, padded<T>(columns_));
    if (fresh && (first > 0 || n < keys_ || !finite)) clear(sums, fresh);
    T* to = sums.data + first * sums.stride;
    if (finite && pairs != nullptr) {
      if constexpr (kMayPair<T>) {
        accumulate_keys(pairs, kBlock * kPanelUnits<Pair>, n, rows_of, x_pairs.data, x_pairs.stride, fresh, to,
                        sums.stride, padded<T>(columns_));
      }
    } else if (finite) {
      accumulate_keys(pt, kBlock * kPanel<T>, n, rows_of, x.data, x.stride, fresh, to, sums.stride,
                      padded<T>(columns_));
    } else {
      for (std::size_t p = 0; p < panels; ++p) {
        accumulate_seen<T, true>(pt + p * kBlock * kPanel<T>, n, std::min(rows - p * kPanel<T>, kPanel<T>),
                                 x.data + p * kPanel<T> * x.stride, x.stride, to, sums.stride, padded<T>(columns_));
      }
    }
    fresh = false;
    if (!long_) return;
    summed_ += panels;
    if (summed_ >= kPanelsPerSum) add_partial();
  }

  void store() {
    if (!fresh_partial_) add_partial();
    if (fresh_) clear(total_, fresh_);
    if (in_place_) return;
    const std::int64_t step = to_.stride(2) * static_cast<std::int64_t>(size_of(to_.dtype()));
    for (std::size_t j = 0; j < keys_; ++j) {
      narrow(total_.data + j * total_.stride, columns_, data_ + static_cast<std::int64_t>(j) * step, to_.dtype());
    }
  }

 private:
  void clear(const Sums<T>& sums, bool& fresh) const {
    for (std::size_t j = 0; j < keys_; ++j) std::fill_n(sums.data + j * sums.stride, padded<T>(columns_), T{0});
    fresh = false;
  }
  void add_partial() {
    const Tag<T> d;
    for (std::size_t j = 0; j < keys_; ++j) {
      for (std::size_t c = 0; c < padded<T>(columns_); c += kLanes<T>) {
        T* to = total_.data + j * total_.stride + c;
        const Vec<T> more = hn::Load(d, partial_.data + j * partial_.stride + c);
        hn::StoreU(fresh_ ? more : hn::Add(hn::LoadU(d, to), more), d, to);
      }
    }
    fresh_ = false;
    fresh_partial_ = true;
    summed_ = 0;
  }

  const TensorView& to_;
  const std::size_t keys_, columns_;
  std::byte* const data_;  // the block's first row
  const bool in_place_;
  Sums<T> total_, partial_;
  const bool long_;
  bool fresh_ = true, fresh_partial_ = true;  // nothing has been added yet
  std::size_t summed_ = 0;                    // panels in partial_
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
