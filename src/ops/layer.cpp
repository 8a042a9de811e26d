// MultiHeadAttention and SingleHeadAttention: parameters, and conversion from one form to the other.
#include "polyhead/layer.h"

#include <cmath>
#include <cstring>

#include "core/numbers.h"
#include "core/philox.h"
#include "ops/check.h"
#include "ops/linear.h"
#include "ops/multihead.h"

namespace polyhead {
namespace {

constexpr std::string_view kOp = "multihead";

// Uniform in [-bound, bound): four numbers per counter, the same on every machine. `stream` tells tensors apart.
void fill_uniform(const TensorView& tensor, double bound, std::uint64_t seed, std::uint32_t stream) {
  const std::int64_t count = tensor.count(), size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  auto* data = static_cast<std::byte*>(tensor.data());
  for (std::int64_t at = 0; at < count; at += 4) {
    const auto low = static_cast<std::uint32_t>(at / 4), high = static_cast<std::uint32_t>((at / 4) >> 32);
    const Philox::Words words = Philox::words(seed, {low, high, stream, 0});
    for (std::int64_t i = at; i < std::min(at + 4, count); ++i) {
      const double unit = 0x1p-31 * static_cast<double>(words[static_cast<std::size_t>(i - at)]) - 1;
      store_number(bound * unit, tensor.dtype(), data + i * size);
    }
  }
}

// Xavier: the bound follows from the rows and columns of the matrix as it is stored.
void fill_xavier(const TensorView& weight, std::uint64_t seed, std::uint32_t stream) {
  const double fans = static_cast<double>(weight.shape(0) + weight.shape(1));
  fill_uniform(weight, std::sqrt(6 / fans), seed, stream);
}

void fill_ones(const TensorView& tensor) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
  auto* data = static_cast<std::byte*>(tensor.data());
  for (std::int64_t n = 0; n < tensor.count(); ++n) store_number(1, tensor.dtype(), data + n * size);
}

// A copy of rows [begin, end) of `from`.
Tensor rows_of(const Tensor& from, std::int64_t begin, std::int64_t end) {
  const ConstTensorView part = from.view().slice(0, begin, end);
  Tensor rows = Tensor::empty(part.shape(), part.dtype(), from.allocator());
  from.allocator()->copy(rows.view().data(), part.data(),
                         static_cast<std::size_t>(part.count()) * size_of(part.dtype()));
  return rows;
}

// Copies from [n] or [n,K], of any row stride, to rows [row, row + n) of `to`, which is row-major.
void put_rows(const ops::Argument& from, const Dims& shape, const TensorView& to, std::int64_t row) {
  from.expect_input(shape, to.dtype());
  from.expect_last_stride_one();
  const auto size = static_cast<std::int64_t>(size_of(to.dtype()));
  const bool matrix = shape.rank() == 2;
  const std::int64_t rows = matrix ? shape[0] : 1, bytes = (matrix ? shape[1] : shape[0]) * size;
  auto* data = static_cast<std::byte*>(to.data()) + row * to.stride(0) * size;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(data + r * bytes,
                static_cast<const std::byte*>(from.view.data()) + r * from.view.stride(0) * size * matrix,
                static_cast<std::size_t>(bytes));
  }
}

}  // namespace

std::vector<ParameterCount> count_parameters(const MultiHeadShape& given) {
  const MultiHeadShape shape = given.resolved();
  const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  const MultiHeadParameters<Dims> shapes = parameter_shapes(shape);
  std::vector<ParameterCount> counts{{"query weight", q * shape.width},
                                     {"key weight", kv * shape.key_width},
                                     {"value weight", kv * shape.value_width}};
  if (shape.bias) counts.push_back({"query, key and value bias", count_of(shapes.in_proj_bias)});
  counts.push_back({"output weight", count_of(shapes.out_proj_weight)});
  if (shape.bias) counts.push_back({"output bias", count_of(shapes.out_proj_bias)});
  std::int64_t norms = 0;
  const auto add = [&](const char*, ParameterKind kind, const Dims& one) {
    if (kind == ParameterKind::norm && one.rank() > 0) norms += count_of(one);
  };
  for_each_parameter(add, shapes);
  if (norms > 0) counts.push_back({"query and key norm", norms});
  return counts;
}

Tensor SingleHeadAttention::forward(Context& context, const ConstTensorView& x, const AttentionOptions& options) const {
  if (x.rank() != 3)
    ops::Argument{{"single head", context.device()}, "x", x}.refuse(ErrorCode::shape,
                                                                    "[B,T," + std::to_string(width) + "]");
  const Tensor q = linear(context, x, query_weight, query_bias), k = linear(context, x, key_weight, key_bias),
               v = linear(context, x, value_weight, value_bias);
  const auto one_head = [](const ConstTensorView& view) { return view.split(2, 1).transpose(1, 2); };
  Tensor output = Tensor::empty(q.shape(), x.dtype(), context.allocator());
  attend_into(context, one_head(q), one_head(k), one_head(v), options, {},
              {.output = output.view().split(2, 1).transpose(1, 2)});
  return output;
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadShape& shape, DType dtype, std::uint64_t seed,
                                       const std::shared_ptr<Allocator>& memory)
    : shape_(shape.resolved()), dtype_(dtype) {
  if (!is_float(dtype))
    throw Error(ErrorCode::dtype, kOp, "expected a float type, found " + std::string(name_of(dtype)));
  const MultiHeadParameters<Dims> shapes = parameter_shapes(shape_);
  std::uint32_t stream = 0;
  // On the host. Every matrix has a stream of its own, whether it is there or not.
  const auto make = [&](std::string_view name, ParameterKind kind, Tensor& made, const Dims& size) {
    const std::uint32_t own = kind == ParameterKind::matrix ? stream++ : 0;
    if (size.rank() == 0) return;
    Tensor tensor = Tensor::zeros(size, dtype);
    if (&made == &tensors_.out_proj_weight) {
      fill_uniform(tensor, 1 / std::sqrt(static_cast<double>(size[1])), seed, own);
    } else if (kind == ParameterKind::matrix) {
      fill_xavier(tensor, seed, own);
    } else if (!name.ends_with("bias")) {
      fill_ones(tensor);
    }
    made = moved_to(memory, std::move(tensor));
  };
  for_each_parameter(make, tensors_, shapes);
}

MultiHeadViews MultiHeadAttention::parameters() const {
  MultiHeadViews views;
  for_each_parameter([](const char*, ParameterKind, ConstTensorView& view, const Tensor& tensor) { view = tensor; },
                     views, tensors_);
  return views;
}

void MultiHeadAttention::pack(Context& context) {
  auto packed = std::make_shared<PackedWeights>();
  if (shape_.packed()) packed->in_proj = ops::pack(context, tensors_.in_proj_weight);
  packed->out_proj = ops::pack(context, tensors_.out_proj_weight);
  packed_ = std::move(packed);
}

MultiHeadResults MultiHeadAttention::forward(Context& context, const MultiHeadInputs& inputs,
                                             const MultiHeadOptions& options, const MultiHeadWants& wants) const {
  MultiHeadResults results;
  forward_into(context, inputs, options, wants, results);
  return results;
}

void MultiHeadAttention::forward_into(Context& context, const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                                      const MultiHeadWants& wants, MultiHeadResults& results) const {
  ops::PackedProjections packed;
  if (packed_ != nullptr) packed = {&packed_->in_proj, &packed_->out_proj};
  ops::multihead(context, shape_, parameters(), packed, inputs, options, wants, {}, results);
}

std::vector<std::pair<std::string, TensorView>> MultiHeadAttention::state() {
  packed_.reset();
  std::vector<std::pair<std::string, TensorView>> entries;
  const auto add = [&](const char* name, ParameterKind, Tensor& tensor) {
    if (tensor.present()) entries.emplace_back(name, tensor);
  };
  for_each_parameter(add, tensors_);
  return entries;
}

MultiHeadAttention MultiHeadAttention::from_heads(const std::vector<SingleHeadAttention>& heads,
                                                  const ConstTensorView& out_proj_weight,
                                                  const ConstTensorView& out_proj_bias) {
  if (heads.empty()) throw Error(ErrorCode::value, kOp, "from_heads: expected one head or more");
  const ops::Op host{kOp, Device{}};
  const SingleHeadAttention& first = heads.front();
  const std::int64_t D = first.head_dim, count = static_cast<std::int64_t>(heads.size()), inner = count * D;
  const bool biased = first.query_bias.present();
  MultiHeadAttention layer(
      {.width = first.width, .heads = count, .head_dim = D, .bias = biased || out_proj_bias.present()},
      first.query_weight.dtype());
  MultiHeadTensors& to = layer.tensors_;
  for (std::int64_t h = 0; h < count; ++h) {
    const SingleHeadAttention& head = heads[static_cast<std::size_t>(h)];
    const Tensor* const weights[] = {&head.query_weight, &head.key_weight, &head.value_weight};
    const Tensor* const biases[] = {&head.query_bias, &head.key_bias, &head.value_bias};
    for (std::int64_t part = 0; part < 3; ++part) {
      const std::int64_t row = part * inner + h * D;
      put_rows({host, "weight of a single head", *weights[part]}, {D, first.width}, to.in_proj_weight, row);
      if (biased != biases[part]->present()) {
        throw Error(ErrorCode::value, kOp, "from_heads: expected biases in all heads or in none, found some");
      }
      if (biased) put_rows({host, "bias of a single head", *biases[part]}, {D}, to.in_proj_bias, row);
    }
  }
  put_rows({host, "out_proj_weight", out_proj_weight}, {first.width, inner}, to.out_proj_weight, 0);
  if (out_proj_bias.present()) put_rows({host, "out_proj_bias", out_proj_bias}, {first.width}, to.out_proj_bias, 0);
  return layer;
}

std::vector<SingleHeadAttention> MultiHeadAttention::to_heads() const {
  if (shape_.qk_norm) throw Error(ErrorCode::value, kOp, "to_heads: expected no qk_norm: a single head has none");
  if (!shape_.packed() || shape_.kv_heads != shape_.heads) {
    throw Error(ErrorCode::value, kOp,
                "to_heads: expected query, key and value of one width and a key/value head per head, found " +
                    std::to_string(shape_.kv_heads) + " key/value heads for " + std::to_string(shape_.heads));
  }
  const std::int64_t D = shape_.head_dim, inner = shape_.heads * D;
  std::vector<SingleHeadAttention> heads(static_cast<std::size_t>(shape_.heads));
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    SingleHeadAttention& head = heads[static_cast<std::size_t>(h)];
    head.width = shape_.width;
    head.head_dim = D;
    Tensor* const weights[] = {&head.query_weight, &head.key_weight, &head.value_weight};
    Tensor* const biases[] = {&head.query_bias, &head.key_bias, &head.value_bias};
    for (std::int64_t part = 0; part < 3; ++part) {
      const std::int64_t row = part * inner + h * D;
      *weights[part] = rows_of(tensors_.in_proj_weight, row, row + D);
      if (shape_.bias) *biases[part] = rows_of(tensors_.in_proj_bias, row, row + D);
    }
  }
  return heads;
}

}  // namespace polyhead
