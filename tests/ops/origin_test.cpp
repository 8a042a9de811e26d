// Dropout counted from an origin: parts of a call, by sequences and heads, have the bits of the whole. Parts by queries
// and keys are in ring_test.cpp.
#include <gtest/gtest.h>

#include "ops/dropout.h"
#include "polyhead/attention.h"
#include "support/bits.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

// A part of a tensor, row by row.
Tensor packed(const ConstTensorView& x) {
  Tensor made = Tensor::empty(x.shape(), x.dtype());
  Context context(1);
  copy(context, x, made);
  return made;
}

TEST(Origin, PartsOfACallDropWhatTheWholeDrops) {
  constexpr std::int64_t B = 4, H = 6, G = 3, T = 37, S = 37, D = 16;
  Context context(1);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor q = normal({B, H, T, D}, "q", dtype), k = normal({B, G, S, D}, "k", dtype),
                 v = normal({B, G, S, D}, "v", dtype), dout = normal({B, H, T, D}, "dout", dtype);
    const AttentionOptions whole{.causal = true, .dropout = {.p = 0.3, .seed = 5}};
    const Attention all = attend(context, q, k, v, whole, {.lse = true});
    const AttentionGradients back = attend_backward(context, q, k, v, whole, {.output = dout});
    for (std::int64_t b = 0; b < B; b += 2) {
      for (std::int64_t g = 0; g < G; ++g) {
        const std::int64_t each = H / G, h = each * g;
        AttentionOptions options = whole;
        options.dropout.origin = {.sequence = b, .head = h};
        const auto queries = [&](const auto& x) { return x.view().slice(0, b, b + 2).slice(1, h, h + each); };
        const auto keys = [&](const auto& x) { return x.view().slice(0, b, b + 2).slice(1, g, g + 1); };
        const Attention part = attend(context, queries(q), keys(k), keys(v), options, {.lse = true});
        EXPECT_TRUE(same_bits("output", part.output, packed(queries(all.output))));
        const AttentionGradients some =
            attend_backward(context, queries(q), keys(k), keys(v), options, {.output = queries(dout)});
        EXPECT_TRUE(same_bits("dq", some.dq, packed(queries(back.dq))));
        EXPECT_TRUE(same_bits("dk", some.dk, packed(keys(back.dk))));
        EXPECT_TRUE(same_bits("dv", some.dv, packed(keys(back.dv))));
      }
    }
  }
}

TEST(Origin, SequencesAndRowsOfALayersOutput) {
  constexpr std::int64_t B = 4, T = 37, D = 16;
  Context context(1);
  const Tensor x = normal({B, T, D}, "x", DType::f32);
  Tensor whole = Tensor::empty(x.shape(), DType::f32), part = Tensor::empty({2, T - 5, D}, DType::f32);
  ops::drop(context, x, {.p = 0.3, .seed = 5}, whole);
  const auto of = [](const Tensor& all) { return all.view().slice(0, 1, 3).slice(1, 5, T); };
  ops::drop(context, of(x), {.p = 0.3, .seed = 5, .origin = {.sequence = 1, .row = 5}}, part);
  EXPECT_TRUE(same_bits("output", part, packed(of(whole))));
}

}  // namespace
}  // namespace polyhead::test
