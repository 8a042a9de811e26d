#include <algorithm>
#include <cstring>

#include "core/numbers.h"
#include "heads/pruning.h"

namespace polyhead::heads {
namespace {

using autograd::Parameter;

// Which heads of a layer stay, and which key/value head each reads.
struct Staying {
  std::vector<std::int64_t> heads, kv_heads;  // old numbers, in the new order
  std::int64_t window;

  Staying(const model::LayerHeads& layer, std::size_t number, const std::vector<HeadId>& gone) : window(layer.window) {
    for (std::int64_t h = 0; h < layer.heads; ++h) {
      if (std::find(gone.begin(), gone.end(), HeadId{number, h}) == gone.end()) heads.push_back(h);
    }
    if (heads.empty()) return;
    const std::int64_t size = layer.heads / layer.kv_heads;  // heads that read one key/value head
    std::vector<std::int64_t> readers(static_cast<std::size_t>(layer.kv_heads));
    for (const std::int64_t h : heads) ++readers[static_cast<std::size_t>(h / size)];
    const std::int64_t most = *std::max_element(readers.begin(), readers.end());
    const bool regular = std::all_of(readers.begin(), readers.end(), [&](auto n) { return n == 0 || n == most; });
    for (const std::int64_t h : heads) {
      const std::int64_t g = h / size;
      if (!regular || kv_heads.empty() || kv_heads.back() != g) kv_heads.push_back(g);
    }
  }
  model::LayerHeads count() const {
    return {static_cast<std::int64_t>(heads.size()), static_cast<std::int64_t>(kv_heads.size()), window};
  }
};

// Copies blocks of `size` bytes: block n of `to` is block from_blocks[n] of `from`. Returns the end of what it wrote.
std::byte* copy_blocks(const std::byte* from, const std::vector<std::int64_t>& from_blocks, std::int64_t size,
                       std::byte* to) {
  for (const std::int64_t block : from_blocks) to = std::copy_n(from + block * size, size, to);
  return to;
}

// Memory for what stays of a parameter, in this type.
std::byte* room_for(Parameter& smaller, DType dtype) {
  smaller.value = Tensor::empty(smaller.value.shape(), dtype);
  return static_cast<std::byte*>(smaller.value.view().data());
}

const std::byte* bytes_of(const Tensor& tensor) { return static_cast<const std::byte*>(tensor.view().data()); }

// The rows of in_proj_weight that stay, if it has blocks and they can stay so; else an absent tensor.
Tensor blocks_of_projection(const Tensor& from, const model::LayerHeads& old, const Staying& staying, std::int64_t D) {
  std::vector<std::int64_t> rows;
  const auto keep = [&](const std::vector<std::int64_t>& heads, std::int64_t before) {
    for (const std::int64_t head : heads) {
      for (std::int64_t r = 0; r < D; ++r) rows.push_back((before + head) * D + r);
    }
  };
  keep(staying.heads, 0);
  for (int part = 0; part < 2; ++part) keep(staying.kv_heads, old.heads + part * old.kv_heads);
  const BlockMatrix matrix(from);
  std::vector<BlockType> types;
  for (const std::int64_t row : rows) types.push_back(matrix.format_of_row(row).type);
  const std::vector<BlockType> strips = types_of_strips(types);
  if (strips.empty()) return {};
  BlockWriter writer({std::ssize(rows), matrix.columns()}, strips);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    writer.put(static_cast<std::int64_t>(row), matrix.row(rows[row]).data());
  }
  return std::move(writer).finish();
}

// The columns of out_proj.weight [C,H*D] that stay, likewise: if heads are whole blocks.
Tensor blocks_of_output(const Tensor& from, const Staying& staying, std::int64_t D) {
  const BlockMatrix matrix(from);
  std::vector<BlockType> strips;
  for (std::int64_t row = 0; row < matrix.rows(); row += kStripRows) {
    strips.push_back(matrix.format_of_row(row).type);
    if (D % format_of(strips.back()).elements != 0) return {};
  }
  BlockWriter writer({matrix.rows(), std::ssize(staying.heads) * D}, strips);
  std::vector<std::uint8_t> kept;
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    const std::vector<std::uint8_t> whole = matrix.row(row);
    const std::int64_t bytes = matrix.format_of_row(row).row_bytes(D);
    kept.clear();
    for (const std::int64_t head : staying.heads) {
      kept.insert(kept.end(), whole.begin() + head * bytes, whole.begin() + (head + 1) * bytes);
    }
    writer.put(row, kept.data());
  }
  return std::move(writer).finish();
}

// in_proj_weight [(H+2G)*D,C] or in_proj_bias [(H+2G)*D], with `row` numbers per row.
void copy_projection(const Parameter* from, const model::LayerHeads& old, const Staying& staying, std::int64_t D,
                     std::int64_t row, Parameter* to) {
  if (from == nullptr || to == nullptr) return;
  if (from->value.dtype() == DType::blocks) {
    if (Tensor kept = blocks_of_projection(from->value, old, staying, D); kept.present()) {
      to->value = std::move(kept);
      return;
    }
  }
  const Tensor held = numbers_on_host(from->value);
  const std::byte* source = bytes_of(held);
  const std::int64_t head = D * row * static_cast<std::int64_t>(size_of(held.dtype()));
  std::byte* target = copy_blocks(source, staying.heads, head, room_for(*to, held.dtype()));
  for (int part = 0; part < 2; ++part) {  // keys, then values
    target = copy_blocks(source + (old.heads + part * old.kv_heads) * head, staying.kv_heads, head, target);
  }
}

void copy_attention(const model::Transformer& from, std::size_t layer, const Staying& staying, model::Transformer& to) {
  const model::Config& config = from.config();
  const std::int64_t D = config.head_dim, inner = config.layers[layer].heads * D;
  const auto &old = from.attention_parameters(layer), &made = to.attention_parameters(layer);
  if (old.out_proj_bias != nullptr) {
    made.out_proj_bias->value = copied_to_host(old.out_proj_bias->value);
  }
  if (staying.heads.empty()) return;
  const auto copy_norm = [](const char*, ParameterKind kind, const Parameter* one, Parameter* copy) {
    if (kind == ParameterKind::norm && one != nullptr) copy->value = copied_to_host(one->value);
  };
  for_each_parameter(copy_norm, old, made);
  copy_projection(old.in_proj_weight, config.layers[layer], staying, D, config.width, made.in_proj_weight);
  copy_projection(old.in_proj_bias, config.layers[layer], staying, D, 1, made.in_proj_bias);
  if (old.out_proj_weight->value.dtype() == DType::blocks) {
    if (Tensor kept = blocks_of_output(old.out_proj_weight->value, staying, D); kept.present()) {
      made.out_proj_weight->value = std::move(kept);
      return;
    }
  }
  const Tensor out = numbers_on_host(old.out_proj_weight->value);
  const auto size = static_cast<std::int64_t>(size_of(out.dtype()));
  std::byte* target = room_for(*made.out_proj_weight, out.dtype());
  for (std::int64_t c = 0; c < config.width; ++c) {
    target = copy_blocks(bytes_of(out) + c * inner * size, staying.heads, D * size, target);
  }
}

// Everything but attention keeps its shape; biases that the old model does not have stay 0.
void copy_the_rest(const model::Transformer& from, model::Transformer& to) {
  for (Parameter* parameter : to.parameters()) {
    if (parameter->name.find(".attention.") != std::string::npos) continue;
    for (const Parameter* old : from.parameters()) {
      if (old->name != parameter->name) continue;
      parameter->value = copied_to_host(old->value);
    }
  }
}

}  // namespace

std::unique_ptr<model::Transformer> without_heads(const model::Transformer& model, const std::vector<HeadId>& heads,
                                                  const std::vector<Tensor>* means) {
  model::Config config = model.config();
  std::vector<Staying> staying;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    staying.emplace_back(config.layers[layer], layer, heads);
    config.layers[layer] = staying.back().count();
  }
  if (means != nullptr) config.bias = true;
  // Assembled on the host, then moved to the old model's memory.
  auto smaller = model::Transformer::unfilled(config, model.dtype(), model.allocator());
  for (Parameter* parameter : smaller->parameters()) {  // a bias may be new
    if (parameter->value.shape().rank() > 1) continue;
    parameter->value = Tensor::zeros(parameter->value.shape(), parameter->value.dtype());
  }
  copy_the_rest(model, *smaller);
  for (std::size_t layer = 0; layer < staying.size(); ++layer) copy_attention(model, layer, staying[layer], *smaller);
  const std::vector<Tensor> shifts = means == nullptr ? std::vector<Tensor>{} : shifts_of(model, *means, heads);
  for (std::size_t layer = 0; layer < shifts.size(); ++layer) {
    if (!shifts[layer].present()) continue;
    float* bias = smaller->attention_parameters(layer).out_proj_bias->value.as<float>();
    for (std::int64_t c = 0; c < config.width; ++c) bias[c] += shifts[layer].as<float>()[c];
  }
  for (Parameter* parameter : smaller->parameters()) {
    parameter->value = moved_to(model.allocator(), std::move(parameter->value));
  }
  return smaller;
}

}  // namespace polyhead::heads
