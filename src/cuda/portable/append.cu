// New tokens into a cache: q turned where it lies, k on its way, v as it is, in one launch. Where there are few tokens
// every head has threads of its own, else those of a pair of columns take all heads, which share its angle.
#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/rotary.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct Append {
  Strided q, k, v, keys, values;  // [B,.,n,.] and [B,G,capacity,.]
  const std::int32_t* rows;       // [B]
  std::int64_t heads, kv_heads, tokens, key_columns, value_columns, width;
  std::int64_t groups;  // that heads are dealt to, each with threads of its own
  bool rotates;
  RotaryArguments rotary;

  __device__ void operator()(std::int64_t n) const {
    const std::int64_t unit = n % width, group = n / width % groups, t = n / width / groups % tokens,
                       b = n / width / groups / tokens, row = rows[b] + t;
    const float2 by = rotates && unit < rotary.half ? rotary.turn(b, t, unit) : float2{1, 0};
    for (std::int64_t head = group; head < heads + 2 * kv_heads; head += groups) {
      if (head < heads) {
        if (rotates && unit < rotary.half) rotary.turn_pair(by, unit, q, q.at(b, head, t), q, q.at(b, head, t));
      } else if (head < heads + kv_heads) {
        append_key(by, unit, k.at(b, head - heads, t), keys.at(b, head - heads, row));
      } else if (unit < value_columns) {
        const std::int64_t g = head - heads - kv_heads;
        store(values.data, values.dtype, values.at(b, g, row, unit), load(v.data, v.dtype, v.at(b, g, t, unit)));
      }
    }
  }

  __device__ void append_key(float2 by, std::int64_t unit, std::int64_t from, std::int64_t to) const {
    if (rotates && unit < rotary.half) return rotary.turn_pair(by, unit, k, from, keys, to);
    const std::int64_t column = rotates ? unit + rotary.half : unit;
    if (column < key_columns) store(keys.data, keys.dtype, to + column, load(k.data, k.dtype, from + column));
  }
};

}  // namespace

void append(CudaExecutor& executor, const kernels::AppendProblem& p) {
  expect_no_f64("append", p.k);
  constexpr std::int64_t kFewTokens = 64;
  const bool rotates = p.rotary.dim > 0;
  const std::int64_t B = p.k.shape(0), n = p.k.shape(2), H = p.q.shape(1), G = p.k.shape(1), D = p.k.shape(3),
                     E = p.v.shape(3);
  const RotaryArguments rotary(p.rotary, D);
  Append what{Strided(p.q),
              Strided(p.k),
              Strided(p.v),
              Strided(p.keys),
              Strided(p.values),
              static_cast<const std::int32_t*>(p.rows.data()),
              H,
              G,
              n,
              D,
              E,
              std::max(rotates ? rotary.units : D, E),
              B * n <= kFewTokens ? H + 2 * G : 1,
              rotates,
              rotary};
  for_elements(executor, B * n * what.groups * what.width, what);
}

}  // namespace polyhead::cuda
