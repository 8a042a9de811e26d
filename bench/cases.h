// The calls that are timed, by name: "B,H,T,D/option+option", options as listed in cases.cpp; and
// "decode:B,H,G,S,D,TYPE/plain", one new query over S cached keys of G kv heads, stored as f32, f16 or bf16.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "polyhead/cache.h"

namespace polyhead::bench {

struct Sizes {
  std::int64_t batch, heads, length, dim;  // T = S, D = E
};

// Everything that one call needs. Tensors do not move: options, wants and outputs refer to them.
struct Case {
  Case(const Sizes& case_sizes, std::int64_t kv_heads);
  Case(const Sizes& case_sizes, std::int64_t kv_heads, DType storage);  // decoding
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  Tensor& keep(Tensor tensor);     // holds an optional input
  void prepare(Context& context);  // once, before calls
  void call(Context& context) const;
  std::vector<const Tensor*> results() const;  // what checks compare

  Sizes sizes;
  Tensor q, k, v, output, statistics;
  std::optional<KvCache> cache;  // in place of k and v
  std::deque<Tensor> others;
  AttentionOptions options;
  AttentionWants wants;
  AttentionOutputs outputs;
  bool allocates = false;  // the call allocates its results, and they are freed after it
  // With the option "backward" a call is the backward pass, after a forward pass that is not timed.
  bool backward = false;
  Tensor lse, dout, dq, dk, dv, dgates;
  GradientWants gradient_wants;
  AttentionGradientOutputs gradients;
  double visible;  // scores that the call has to compute, over all heads
};

// Throws std::invalid_argument for a name that it does not know.
std::unique_ptr<Case> make_case(const std::string& name);

// Numbers of variance 1 from splitmix64, times `factor`, f32 or rounded to bf16; peers.py makes the same, bit for bit.
void fill_uniform(const TensorView& tensor, std::uint64_t seed, float factor = 1);

}  // namespace polyhead::bench
