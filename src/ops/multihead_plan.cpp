#include "ops/multihead_plan.h"

#include <algorithm>
#include <limits>

#include "ops/check.h"
#include "ops/rotary.h"

namespace polyhead {

MultiHeadShape MultiHeadShape::resolved() const {
  MultiHeadShape full = *this;
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::value, "multihead", what); };
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t size : {width, heads, kv_heads, head_dim, key_width, value_width}) {
    if (size > kMost) refuse("expected sizes below 2^31, found " + std::to_string(size));
  }
  if (width < 1) refuse("width: expected 1 or more, found " + std::to_string(width));
  if (heads < 1) refuse("heads: expected 1 or more, found " + std::to_string(heads));
  if (head_dim == 0 && width % heads != 0) {
    refuse("heads: expected a number that divides the width " + std::to_string(width) + ", found " +
           std::to_string(heads) + "; or give head_dim");
  }
  if (head_dim == 0) full.head_dim = width / heads;
  if (kv_heads == 0) full.kv_heads = heads;
  if (key_width == 0) full.key_width = width;
  if (value_width == 0) full.value_width = width;
  if (heads * full.head_dim > kMost) {
    refuse("heads * head_dim: expected less than 2^31, found " + std::to_string(heads * full.head_dim));
  }
  if (full.kv_heads < 1 || heads % full.kv_heads != 0) {
    refuse("kv_heads: expected a number that divides the heads " + std::to_string(heads) + ", found " +
           std::to_string(full.kv_heads));
  }
  for (const auto& [name, value] :
       {std::pair{"head_dim", full.head_dim}, {"key_width", full.key_width}, {"value_width", full.value_width}}) {
    if (value < 1) refuse(std::string(name) + ": expected 1 or more, found " + std::to_string(value));
  }
  return full;
}

bool MultiHeadShape::packed() const {
  const MultiHeadShape full = resolved();
  return full.key_width == full.width && full.value_width == full.width;
}

namespace ops {
namespace {

void expect(const Op& op, std::string_view name, const ConstTensorView& view, const Dims& shape, DType dtype) {
  const Argument argument{op, name, view};
  argument.expect_input(shape, dtype);
  argument.expect_last_stride_one();
}

std::string why_absent(const MultiHeadShape& shape, ParameterKind kind) {
  if (kind == ParameterKind::bias) return "the shape says bias = false";
  if (kind == ParameterKind::norm) return "the shape says qk_norm = false";
  return shape.packed() ? "with equal widths in_proj_weight holds all three"
                        : "widths differ: give q_proj_weight, k_proj_weight, v_proj_weight";
}

void check_parameters(const Op& op, bool mixes_types, const MultiHeadShape& shape, DType dtype,
                      const MultiHeadViews& parameters) {
  const auto check = [&](const char* in_torch, ParameterKind kind, const ConstTensorView& view, const Dims& expected) {
    const bool has = expected.rank() > 0;
    if (!has && !view.present()) return;
    std::string name = in_torch;
    std::replace(name.begin(), name.end(), '.', '_');
    if (!has) throw Error(ErrorCode::value, op, name + " was given, but " + why_absent(shape, kind));
    const DType numbers = kind == ParameterKind::norm && size_of(dtype) == 2 ? DType::f32 : dtype;
    expect(op, name, view, expected, kind == ParameterKind::matrix ? weight_type(view, dtype) : numbers);
  };
  const MultiHeadParameters<Dims> shapes = parameter_shapes(shape);
  if (shape.qk_norm && size_of(dtype) == 2 && !mixes_types)
    throw Error(ErrorCode::dtype, op, "qk_norm: expected f32 or f64, found " + std::string(name_of(dtype)));
  for_each_parameter(check, parameters, shapes);
}

// If all parameters have one type, it is the query that does not fit them. Matrices, if there is nothing else, may be
// narrower than the query.
void expect_type_of_parameters(const Argument& query, const MultiHeadShape& shape, const MultiHeadViews& p) {
  const DType type = p.out_proj_weight.dtype(), given = query.view.dtype();
  bool alike = true;
  for_each_parameter([&](const char*, ParameterKind,
                         const ConstTensorView& one) { alike = alike && (!one.present() || one.dtype() == type); },
                     p);
  if (!alike) return;  // each is checked on its own
  const bool matrices = !shape.bias && !shape.qk_norm;
  if (type == given || (matrices && weight_type(p.out_proj_weight, given) == type)) return;
  query.refuse(ErrorCode::dtype, std::string(name_of(type)) + " as the parameters are");
}

// k_proj_weight above v_proj_weight: [2*G*D,K].
ConstTensorView stacked(const Call& call, const ConstTensorView& k, const ConstTensorView& v, DType dtype) {
  const DType type = k.dtype() == v.dtype() ? k.dtype() : dtype;
  const TensorView both = call.scratch(ScratchSlot::kv_proj, {k.shape(0) + v.shape(0), k.shape(1)}, type);
  call(&Table::copy, k, both.slice(0, 0, k.shape(0)));
  call(&Table::copy, v, both.slice(0, k.shape(0), both.shape(0)));
  return both;
}

}  // namespace

MultiHeadPlan::MultiHeadPlan(std::string_view name, const Call& call, const MultiHeadShape& given,
                             const MultiHeadViews& parameters, const MultiHeadInputs& inputs)
    : shape(given.resolved()),
      dtype(inputs.query.dtype()),
      op{name, call.executor().device()},
      memory(call.executor().allocator()) {
  const Argument query{op, "query", inputs.query};
  if (!inputs.query.present() || inputs.query.rank() != 3) {
    query.refuse(ErrorCode::shape, "[B,T," + std::to_string(shape.width) + "]");
  }
  if (!is_float(dtype)) query.refuse(ErrorCode::dtype, "a float type");
  if (parameters.out_proj_weight.present()) expect_type_of_parameters(query, shape, parameters);
  const bool self = !inputs.key.present(), shared_value = !inputs.value.present();
  if (self && !shared_value) {
    throw Error(ErrorCode::value, op, "value was given without a key; give both, or neither for self-attention");
  }
  const ConstTensorView key = self ? inputs.query : inputs.key, value = shared_value ? key : inputs.value;
  batch = inputs.query.shape(0);
  queries = inputs.query.shape(1);
  if (key.rank() != 3)
    Argument{op, "key", key}.refuse(ErrorCode::shape, "[B,S," + std::to_string(shape.key_width) + "]");
  keys = key.shape(1);
  expect(op, "query", inputs.query, {batch, queries, shape.width}, dtype);
  expect(op, "key", key, {batch, keys, shape.key_width}, dtype);
  expect(op, "value", value, {batch, keys, shape.value_width}, dtype);
  check_parameters(op, call.executor().kernels().mixes_types, shape, dtype, parameters);

  part_rows[kQuery] = shape.heads * shape.head_dim;
  part_rows[kKey] = part_rows[kValue] = shape.kv_heads * shape.head_dim;
  const ConstTensorView own[3] = {parameters.q_proj_weight, parameters.k_proj_weight, parameters.v_proj_weight};
  const auto add = [&](Part first, int parts, const ConstTensorView& input) {
    std::int64_t begin = 0, end = 0;
    for (int part = 0; part < first + parts; ++part) (part < first ? begin : end) += part_rows[part];
    end += begin;
    ConstTensorView weight;
    if (shape.packed()) {
      weight = parameters.in_proj_weight.slice(0, begin, end);
    } else {
      weight = parts == 1 ? own[first] : stacked(call, own[kKey], own[kValue], dtype);
    }
    const ConstTensorView bias = shape.bias ? parameters.in_proj_bias.slice(0, begin, end) : ConstTensorView{};
    groups.push_back({first, parts, input, weight, bias, end - begin});
  };
  if (self) {
    add(kQuery, 3, inputs.query);
  } else if (shared_value) {
    add(kQuery, 1, inputs.query);
    add(kKey, 2, key);
  } else {
    add(kQuery, 1, inputs.query);
    add(kKey, 1, key);
    add(kValue, 1, value);
  }
  read = {inputs.query, inputs.key, inputs.value};
  for_each_parameter([&](const char*, ParameterKind, const ConstTensorView& one) { read.push_back(one); }, parameters);
  out_weight = parameters.out_proj_weight;
  out_bias = parameters.out_proj_bias;
}

Dims MultiHeadPlan::buffer_shape(const ProjectionGroup& group) const {
  return {batch, group.input.shape(1), group.columns};
}

TensorView MultiHeadPlan::stand_in(const Dims& buffer) const {
  alignas(64) static std::byte nothing[64];
  return TensorView(nothing, dtype, buffer, contiguous_strides(buffer), op.device);
}

void MultiHeadPlan::expect_apart(std::string_view name, const ConstTensorView& result) const {
  for (const ConstTensorView& input : read) {
    if (!overlap(result, input)) continue;
    Argument{op, name, result}.refuse(ErrorCode::layout, "memory apart from the inputs",
                                      "keep results of its own for it");
  }
}

TensorView MultiHeadPlan::place(Tensor& tensor, const Dims& buffer, DType type, bool wanted) const {
  if (!wanted) {
    tensor = Tensor();
  } else if (!tensor.present() || tensor.shape() != buffer || tensor.dtype() != type || tensor.device() != op.device) {
    tensor = Tensor::empty(buffer, type, memory);
  }
  return tensor;
}

std::vector<kernels::RotaryProblem> MultiHeadPlan::rotations(const MultiHeadOptions& options, const TensorView& q,
                                                             const TensorView& k, bool backwards) const {
  if (!options.rotary) {
    if (!options.query_positions.present() && !options.key_positions.present()) return {};
    throw Error(ErrorCode::value, op, "positions were given, but there is no rotary for them");
  }
  const bool self = groups.size() == 1;
  const ConstTensorView& key_positions =
      self && !options.key_positions.present() ? options.query_positions : options.key_positions;
  std::vector<kernels::RotaryProblem> both{resolve(op, q, *options.rotary, options.query_positions),
                                           resolve(op, k, *options.rotary, key_positions)};
  both[0].y = q;
  both[1].y = k;
  for (kernels::RotaryProblem& one : both) one.backwards = backwards;
  return both;
}

}  // namespace ops
}  // namespace polyhead
