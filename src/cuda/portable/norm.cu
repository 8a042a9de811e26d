// LayerNorm and RMSNorm in f32, of rows of f32 or 16 bits: a warp per row, one column or four neighbours at a time per
// lane. Rows of up to 1024 columns are read once and stay in registers.
#include "cuda/kernels.h"
#include "cuda/portable/column_sums.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;
using kernels::RowPlaces;

// The rows of a tensor at their RowPlaces.
template <class RowNumbers>
struct RowsOf {
  RowNumbers numbers;
  RowPlaces places;

  template <class View>
  explicit RowsOf(const View& view) : numbers(view), places(view) {}
  bool lie_in_fours() const {
    return numbers.template is_aligned_for<4>() && places.outer % 4 == 0 && places.inner % 4 == 0;
  }
  __device__ bool present() const { return numbers.present(); }
  template <int kCount>
  __device__ void get(std::int64_t row, std::int64_t column, float (&x)[kCount]) const {
    numbers.get(places[row] + column, x);
  }
  template <int kCount>
  using Fetched = typename RowNumbers::template Fetched<kCount>;
  template <int kCount>
  __device__ Fetched<kCount> fetch(std::int64_t row, std::int64_t column) const {
    return numbers.template fetch<kCount>(places[row] + column);
  }
  template <int kCount>
  __device__ void set(std::int64_t row, std::int64_t column, const float (&x)[kCount]) const {
    numbers.set(places[row] + column, x);
  }
};
using Rows = RowsOf<Numbers>;
using WritableRows = RowsOf<WritableNumbers>;

// A lane's columns of a row, in groups of kCount: kHeld of them in registers; with kHeld 0 they are read every time.
template <int kCount, int kHeld>
class RowPart {
 public:
  __device__ RowPart(const Rows& rows, std::int64_t row, int lane, int columns)
      : rows_(rows), row_(row), lane_(lane), columns_(columns) {
#pragma unroll
    for (int g = 0; g < kHeld; ++g) {
      if (column(g) < columns_) rows_.get(row_, column(g), held_[g]);
    }
  }
  // what(g, column, numbers) for every group.
  template <class What>
  __device__ void for_groups(const What& what) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int g = 0; g < kHeld; ++g) {
        if (column(g) < columns_) what(g, column(g), held_[g]);
      }
    } else {
      for (int g = 0; column(g) < columns_; ++g) {
        float read[kCount];
        rows_.get(row_, column(g), read);
        what(g, column(g), read);
      }
    }
  }
  // Group g alone.
  __device__ void get(int g, float (&x)[kCount]) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = held_[g][i];
    } else {
      rows_.get(row_, column(g), x);
    }
  }

 private:
  __device__ int column(int g) const { return kCount * (lane_ + 32 * g); }

  const Rows& rows_;
  const std::int64_t row_;
  const int lane_, columns_;
  float held_[kHeld > 0 ? kHeld : 1][kCount];
};

// kCount numbers of gamma or beta, which lie in fours if rows do.
template <int kCount>
__device__ void get_numbers(const float* from, float (&x)[kCount]) {
  if constexpr (kCount == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  } else {
    x[0] = *from;
  }
}

template <int kCount, int kHeld>
struct Normalise {
  Rows x;
  const float *gamma, *beta;  // beta is null for RMSNorm
  WritableRows y;
  float* mean_rstd;  // or null
  int C;
  float epsilon;

  __device__ void operator()(std::int64_t row, int lane) const {
    using Group = float[kCount];
    const RowPart<kCount, kHeld> part(x, row, lane, C);
    const float inverse = 1.0f / static_cast<float>(C);
    float mean = 0, square = 0;
    if (beta != nullptr) {
      part.for_groups([&](int, int, const Group& in) {
        for (int i = 0; i < kCount; ++i) mean += in[i];
      });
      mean = inverse * warp_sum(mean);
    }
    part.for_groups([&](int, int, const Group& in) {
      for (int i = 0; i < kCount; ++i) square = fmaf(in[i] - mean, in[i] - mean, square);
    });
    const float rstd = 1.0f / sqrtf(fmaf(inverse, warp_sum(square), epsilon));
    part.for_groups([&](int, int c, const Group& in) {
      float out[kCount], factor[kCount], offset[kCount] = {};
      get_numbers(gamma + c, factor);
      if (beta != nullptr) get_numbers(beta + c, offset);
      for (int i = 0; i < kCount; ++i) out[i] = fmaf((in[i] - mean) * rstd, factor[i], offset[i]);
      y.set(row, c, out);
    });
    if (lane == 0 && mean_rstd != nullptr) {
      mean_rstd[2 * row] = mean;
      mean_rstd[2 * row + 1] = rstd;
    }
  }
};

// With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)), the middle term for LayerNorm only.
template <int kCount, int kHeld>
struct NormaliseBackward {
  Rows x;
  const float *gamma, *mean_rstd;
  Rows dy, plus;
  WritableRows dx;
  int C;
  bool centred;

  __device__ void operator()(std::int64_t row, int lane) const {
    using Group = float[kCount];
    const float mean = mean_rstd[2 * row], rstd = mean_rstd[2 * row + 1], inverse = 1.0f / static_cast<float>(C);
    const RowPart<kCount, kHeld> part(x, row, lane, C), arrived(dy, row, lane, C);
    float mean_g = 0, mean_gu = 0;
    part.for_groups([&](int g, int c, const Group& in) {
      float up[kCount], factor[kCount];
      arrived.get(g, up);
      get_numbers(gamma + c, factor);
      for (int i = 0; i < kCount; ++i) {
        const float one = __fmul_rn(up[i], factor[i]);
        mean_g += one;
        mean_gu = fmaf(one, (in[i] - mean) * rstd, mean_gu);
      }
    });
    mean_g = centred ? inverse * warp_sum(mean_g) : 0.0f;
    mean_gu = inverse * warp_sum(mean_gu);
    part.for_groups([&](int g, int c, const Group& in) {
      float up[kCount], factor[kCount], out[kCount] = {};
      arrived.get(g, up);
      get_numbers(gamma + c, factor);
      if (plus.present()) plus.get(row, c, out);
      for (int i = 0; i < kCount; ++i) {
        // g is rounded as it was for its mean, so that a row of one element gives 0
        const float u = (in[i] - mean) * rstd;
        out[i] = fmaf(fmaf(-u, mean_gu, __fmul_rn(up[i], factor[i]) - mean_g), rstd, out[i]);
      }
      dx.set(row, c, out);
    });
  }
};

// dgamma and dbeta are the sums of this over the rows.
template <class X, class Dy>
struct ParameterGradients {
  X x;
  const float* mean_rstd;
  Dy dy;

  template <int kCount>
  struct Fetched {
    typename X::template Fetched<kCount> in;
    typename Dy::template Fetched<kCount> up;
    float mean, rstd;
  };
  template <int kCount>
  __device__ Fetched<kCount> fetch(std::int64_t row, int c) const {
    return {x.template fetch<kCount>(row, c), dy.template fetch<kCount>(row, c), mean_rstd[2 * row],
            mean_rstd[2 * row + 1]};
  }
  template <int kCount>
  __device__ void get(const Fetched<kCount>& fetched, std::int64_t, int, float2 (&terms)[kCount]) const {
    float in[kCount], up[kCount];
    fetched.in.get(in);
    fetched.up.get(up);
    for (int i = 0; i < kCount; ++i) terms[i] = {up[i] * ((in[i] - fetched.mean) * fetched.rstd), up[i]};
  }
};

std::int64_t columns_of(const ConstTensorView& x) { return x.shape(x.rank() - 1); }

bool in_fours(const float* parameters) { return reinterpret_cast<std::uintptr_t>(parameters) % 16 == 0; }
template <class... Rows>
bool lie_in_fours(std::int64_t columns, const Rows&... all) {
  return columns % 4 == 0 && (all.lie_in_fours() && ...);
}

// run(count, held): how many columns at a time, four only if all lie in fours, and how many such groups of a row a lane
// holds.
template <class Run>
void choose_groups(std::int64_t columns, bool fours, const Run& run) {
  const auto with = [&]<int kCount, int kHeld>() {
    run(std::integral_constant<int, kCount>(), std::integral_constant<int, kHeld>());
  };
  if (!fours) return with.template operator()<1, 0>();
  if (columns <= 512) return with.template operator()<4, 4>();
  if (columns <= 1024) return with.template operator()<4, 8>();
  with.template operator()<4, 0>();
}

void sum_parameter_gradients(CudaExecutor& executor, const kernels::NormGradientProblem& p) {
  const Rows x(p.x), dy(p.dy);
  const std::int64_t C = columns_of(p.x);
  const auto sum = [&](const auto& terms) {
    sum_columns(executor, x.places.count, C, lie_in_fours(C, x, dy), terms, p.dgamma, p.dbeta);
  };
  if (x.places.side != 1 || dy.places.side != 1) return sum(ParameterGradients<Rows, Rows>{x, floats(p.mean_rstd), dy});
  with_numbers_of(p.x, [&](const auto& in) {
    with_numbers_of(p.dy, [&](const auto& up) {
      sum(ParameterGradients<EvenRows<std::decay_t<decltype(in)>>, EvenRows<std::decay_t<decltype(up)>>>{
          {in, x.places.outer}, floats(p.mean_rstd), {up, dy.places.outer}});
    });
  });
}

}  // namespace

void normalise(CudaExecutor& executor, const kernels::NormProblem& p) {
  expect_no_f64("normalise", p.x);
  const Rows x(p.x);
  const WritableRows y(p.y);
  const std::int64_t C = columns_of(p.x);
  const float *gamma = floats(p.gamma), *beta = floats_or_null(p.beta);
  choose_groups(C, lie_in_fours(C, x, y) && in_fours(gamma) && in_fours(beta), [&](auto count, auto held) {
    for_rows(executor, x.places.count,
             Normalise<count(), held()>{x, gamma, beta, y, p.mean_rstd.present() ? floats(p.mean_rstd) : nullptr,
                                        static_cast<int>(C), static_cast<float>(p.epsilon)});
  });
}

void normalise_backward(CudaExecutor& executor, const kernels::NormGradientProblem& p) {
  expect_no_f64("normalise_backward", p.x);
  const Rows x(p.x), dy(p.dy), plus(p.plus);
  const WritableRows dx(p.dx);
  const std::int64_t rows = x.places.count, C = columns_of(p.x);
  const float* gamma = floats(p.gamma);
  sum_parameter_gradients(executor, p);  // before dx is written, which may be dy's own memory
  choose_groups(C, lie_in_fours(C, x, dy, plus, dx) && in_fours(gamma), [&](auto count, auto held) {
    for_rows(executor, rows,
             NormaliseBackward<count(), held()>{x, gamma, floats(p.mean_rstd), dy, plus, dx, static_cast<int>(C),
                                                p.centred});
  });
}

}  // namespace polyhead::cuda
