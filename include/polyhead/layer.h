// Multi-head attention as a layer: projections, attention and W_O as one op.
//
//   q, k, v = query W_Q^T + b_Q, key W_K^T + b_K, value W_V^T + b_V      split into heads, a view; q and k may be
//                                                                        normalised (RMSNorm) and rotated
//   heads   = attention of every head, side by side                      [B,T,H*D]
//   output  = heads W_O^T + b_O
//
// Letters: B batch, T queries, S keys, C width, H heads, G key/value heads, D head dim.
// Shapes:  query [B,T,C], key [B,S,key_width], value [B,S,value_width], output [B,T,C]; the last stride is 1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "polyhead/attention.h"
#include "polyhead/export.h"
#include "polyhead/rotary.h"

namespace POLYHEAD_PUBLIC polyhead {

// The sizes of a layer, each below 2^31, and so is heads * head_dim. 0 stands for the default: kv_heads = heads,
// head_dim = width / heads, key_width and value_width = width.
struct MultiHeadShape {
  std::int64_t width = 0, heads = 1, kv_heads = 0, head_dim = 0, key_width = 0, value_width = 0;
  bool bias = true;
  bool qk_norm = false;  // RMSNorm of every head of q and k, before rotary; f32 or f64

  // With every 0 replaced. Throws Error (value) if a size is out of range, heads does not divide width (and head_dim is
  // 0) or kv_heads does not divide heads.
  MultiHeadShape resolved() const;
  // Whether one in_proj_weight holds W_Q, W_K and W_V: query, key and value are equally wide.
  bool packed() const;
};

// Names and layouts of torch.nn.MultiheadAttention. Either in_proj_weight [(H+2G)*D,C], the rows of q, k and v in that
// order, or one weight for each: q_proj_weight [H*D,C], k_proj_weight [G*D,key_width], v_proj_weight
// [G*D,value_width]. in_proj_bias [(H+2G)*D], out_proj_weight [C,H*D] (there "out_proj.weight"), out_proj_bias [C].
// q_norm_weight and k_norm_weight [D], which torch's layer does not have, serve all heads. All in the type of the
// inputs; beside f32 the matrices may have 16 bits, as in linear.h.
template <class Value>
struct MultiHeadParameters {
  Value in_proj_weight{}, q_proj_weight{}, k_proj_weight{}, v_proj_weight{}, in_proj_bias{}, out_proj_weight{},
      out_proj_bias{}, q_norm_weight{}, k_norm_weight{};
};
// Numbers of norms are f32 where others have 16 bits.
enum class ParameterKind : std::uint8_t { matrix, bias, norm };
// visit(name, kind, parameter of each set...) for all parameters in order, by their names in torch's state_dict.
template <class Visit, class... Sets>
void for_each_parameter(const Visit& visit, Sets&... sets) {
  visit("in_proj_weight", ParameterKind::matrix, sets.in_proj_weight...);
  visit("q_proj_weight", ParameterKind::matrix, sets.q_proj_weight...);
  visit("k_proj_weight", ParameterKind::matrix, sets.k_proj_weight...);
  visit("v_proj_weight", ParameterKind::matrix, sets.v_proj_weight...);
  visit("in_proj_bias", ParameterKind::bias, sets.in_proj_bias...);
  visit("out_proj.weight", ParameterKind::matrix, sets.out_proj_weight...);
  visit("out_proj.bias", ParameterKind::bias, sets.out_proj_bias...);
  visit("q_norm.weight", ParameterKind::norm, sets.q_norm_weight...);
  visit("k_norm.weight", ParameterKind::norm, sets.k_norm_weight...);
}
// The shapes of a layer's parameters; of rank 0 where it does not have one.
inline MultiHeadParameters<Dims> parameter_shapes(const MultiHeadShape& given) {
  const MultiHeadShape shape = given.resolved();
  const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  MultiHeadParameters<Dims> shapes{.out_proj_weight = {shape.width, q}};
  if (shape.packed()) {
    shapes.in_proj_weight = {q + 2 * kv, shape.width};
  } else {
    shapes.q_proj_weight = {q, shape.width};
    shapes.k_proj_weight = {kv, shape.key_width};
    shapes.v_proj_weight = {kv, shape.value_width};
  }
  if (shape.bias) {
    shapes.in_proj_bias = {q + 2 * kv};
    shapes.out_proj_bias = {shape.width};
  }
  if (shape.qk_norm) shapes.q_norm_weight = shapes.k_norm_weight = {shape.head_dim};
  return shapes;
}
using MultiHeadViews = MultiHeadParameters<ConstTensorView>;
using MultiHeadTensors = MultiHeadParameters<Tensor>;

// key absent: the query (self-attention). value absent: the key.
struct MultiHeadInputs {
  ConstTensorView query{}, key{}, value{};
};

struct MultiHeadOptions {
  AttentionOptions attention{};  // masks, gates, dropout of the weights and so on
  Dropout output_dropout{};      // of the output, after W_O
  double qk_norm_epsilon = 1e-6;
  std::optional<Rotary> rotary{};
  // For rotary: i32 [T] or [B,T]. Absent: 0, 1, 2 ...; in self-attention keys have the positions of the queries.
  ConstTensorView query_positions{}, key_positions{};
};

struct MultiHeadWants {
  AttentionWants attention{};
  bool heads = false;        // the concatenated heads, after the gates and before W_O
  bool projections = false;  // q, k and v
  // What multihead_backward needs.
  static MultiHeadWants training() { return {.attention = {.lse = true}, .heads = true, .projections = true}; }
};

// q [B,H,T,D], k and v [B,G,S,D] as attention saw them (after norm and rotary): views of the buffers, some of which
// hold what the norms' gradients need. What was moved from is empty.
struct Projections {
  TensorView q{}, k{}, v{};
  std::vector<Tensor> buffers;

  Projections() = default;
  Projections(Projections&& other) noexcept { swap(other); }
  Projections& operator=(Projections&& other) noexcept {
    Projections(std::move(other)).swap(*this);
    return *this;
  }
  void swap(Projections& other) noexcept {
    std::swap(q, other.q);
    std::swap(k, other.k);
    std::swap(v, other.v);
    buffers.swap(other.buffers);
  }
};

// heads [B,T,H*D]; the others as in Attention. Only what was wanted is present.
struct MultiHeadResults {
  Tensor output, heads, lse, weights, logits, statistics, row_statistics;
  Projections projections;
};

// Memory that results holds from an earlier call is reused where the shapes match; it must not be among the inputs.
void multihead_into(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                    const MultiHeadInputs& inputs, const MultiHeadOptions& options, const MultiHeadWants& wants,
                    MultiHeadResults& results);
MultiHeadResults multihead(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                           const MultiHeadInputs& inputs, const MultiHeadOptions& options = {},
                           const MultiHeadWants& wants = {});

// dkey and dvalue are present if key and value were; the gradient of an absent one is added to the input it stood for.
struct MultiHeadGradients {
  Tensor dquery, dkey, dvalue;
  MultiHeadTensors dparameters;
  Tensor dbias, dsink_logit, dgates;
};

// `forward` is the result of a call with MultiHeadWants::training() and the same arguments; upstream.output is [B,T,C].
void multihead_backward_into(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                             const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                             const MultiHeadResults& forward, const UpstreamGradients& upstream,
                             const GradientWants& wants, MultiHeadGradients& gradients);
MultiHeadGradients multihead_backward(Context& context, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                                      const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                                      const MultiHeadResults& forward, const UpstreamGradients& upstream,
                                      const GradientWants& wants = {});

// Parameters itemised: "query weight", 16384 and so on.
struct ParameterCount {
  std::string name;
  std::int64_t count;
};
std::vector<ParameterCount> count_parameters(const MultiHeadShape& shape);

// One head as textbooks have it: its own W_Q, W_K, W_V [D,C] (and biases [D]), output [B,T,D].
struct SingleHeadAttention {
  std::int64_t width = 0, head_dim = 0;
  Tensor query_weight, key_weight, value_weight, query_bias, key_bias, value_bias;  // biases may be absent

  Tensor forward(Context& context, const ConstTensorView& x, const AttentionOptions& options = {}) const;
};

struct PackedWeights;

// The layer with its parameters.
class MultiHeadAttention {
 public:
  // Initialised from the seed as torch.nn.MultiheadAttention is: W_Q, W_K, W_V Xavier-uniform, W_O uniform within
  // 1/sqrt(inputs), biases 0. Parameters lie in `memory`: that of the context's allocator, or of the host.
  explicit MultiHeadAttention(const MultiHeadShape& shape, DType dtype = DType::f32, std::uint64_t seed = 0,
                              const std::shared_ptr<Allocator>& memory = host_allocator());

  // N single heads on the same x, concatenated and projected, as one layer, and back. The outputs are equal.
  static MultiHeadAttention from_heads(const std::vector<SingleHeadAttention>& heads,
                                       const ConstTensorView& out_proj_weight,
                                       const ConstTensorView& out_proj_bias = {});
  std::vector<SingleHeadAttention> to_heads() const;

  const MultiHeadShape& shape() const noexcept { return shape_; }
  DType dtype() const noexcept { return dtype_; }
  MultiHeadViews parameters() const;
  // The entries of a torch state dict, in its order, for reading and writing.
  std::vector<std::pair<std::string, TensorView>> state();

  // Packs the weights for forward once, which pays off where calls bring few tokens, as in decoding. Serves
  // self-attention and W_O, and takes as much memory again. Calling state() drops the packed weights; do not write to
  // views from an earlier state() while they exist.
  void pack(Context& context);

  MultiHeadResults forward(Context& context, const MultiHeadInputs& inputs, const MultiHeadOptions& options = {},
                           const MultiHeadWants& wants = {}) const;
  void forward_into(Context& context, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                    const MultiHeadWants& wants, MultiHeadResults& results) const;
  MultiHeadGradients backward(Context& context, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                              const MultiHeadResults& results, const UpstreamGradients& upstream,
                              const GradientWants& wants = {}) const {
    return multihead_backward(context, shape_, parameters(), inputs, options, results, upstream, wants);
  }

 private:
  MultiHeadShape shape_;
  DType dtype_;
  MultiHeadTensors tensors_;
  std::shared_ptr<const PackedWeights> packed_;
};

}  // namespace polyhead
