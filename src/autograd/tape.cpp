#include "autograd/tape.h"

#include <algorithm>
#include <utility>

#include "core/executor.h"
#include "ops/call.h"
#include "ops/elementwise.h"

namespace polyhead::autograd {
namespace {

std::size_t bytes_of(const ConstTensorView& view) {
  return static_cast<std::size_t>(view.count()) * size_of(view.dtype());
}

}  // namespace

TensorView Pool::take(const Dims& shape, DType dtype) {
  Shelf& shelf = shelves_[{dtype, count_of(shape)}];
  if (shelf.used == shelf.pieces.size()) shelf.pieces.push_back(Tensor::empty(shape, dtype, memory_));
  return shelf.pieces[shelf.used++].view().reshape(shape);
}

void Pool::take_back(const TensorView& taken) {
  Shelf& shelf = shelves_.at({taken.dtype(), taken.count()});
  const auto end = shelf.pieces.begin() + static_cast<std::ptrdiff_t>(shelf.used);
  const auto found =
      std::find_if(shelf.pieces.begin(), end, [&](const Tensor& piece) { return piece.view().data() == taken.data(); });
  std::swap(*found, *(end - 1));
  --shelf.used;
}

void Pool::take_back_all() {
  for (auto& [bytes, shelf] : shelves_) shelf.used = 0;
}

Pool::Mark Pool::mark() const {
  Mark taken;
  for (const auto& [size, shelf] : shelves_) taken[size] = shelf.used;
  return taken;
}

void Pool::take_back_since(const Mark& mark, const void* but) {
  for (auto& [size, shelf] : shelves_) {
    const auto found = mark.find(size);
    std::size_t kept = found == mark.end() ? 0 : found->second;
    for (std::size_t n = kept; n < shelf.used; ++n) {
      if (shelf.pieces[n].view().data() != but) continue;
      std::swap(shelf.pieces[kept++], shelf.pieces[n]);
      break;
    }
    shelf.used = kept;
  }
}

Tensor& Gradients::of(const Parameter& parameter) {
  Tensor& gradient = tensors_[&parameter];
  const Tensor& value = parameter.value;
  if (value.dtype() == DType::blocks) {
    throw Error(ErrorCode::unsupported, "gradient",
                parameter.name + ": expected numbers, found quantised blocks, which cannot be learnt; load the model " +
                    "from a file in f32, f16 or bf16");
  }
  const DType dtype = size_of(value.dtype()) == 2 ? DType::f32 : value.dtype();
  if (!gradient.present()) gradient = Tensor::zeros(value.shape(), dtype, value.allocator());
  return gradient;
}

ConstTensorView Tape::here(const ConstTensorView& x) {
  if (!x.present() || x.device() == context_.device()) return x;
  const TensorView copied = take(x.shape(), x.dtype());
  copy(context_, x, copied);
  return copied;
}

DType Tape::inner_type(DType stream) const {
  if (stream != DType::f32 || !ops::mixes_types(context_)) return stream;
  if (context_.precision() == Precision::bf16) return DType::bf16;
  return context_.precision() == Precision::f16 && !recording_ ? DType::f16 : stream;
}

ConstTensorView Tape::as(const ConstTensorView& x, DType dtype) {
  if (!x.present() || x.dtype() == dtype) return x;
  const TensorView copied = take(x.shape(), dtype);
  copy(context_, x, copied);
  return copied;
}

ConstTensorView Tape::value_as(Variable x, DType dtype) {
  if (value(x).dtype() == dtype) return value(x);
  ConstTensorView& copied = nodes_[x.index].copy;
  if (copied.present() && copied.dtype() == dtype) return copied;
  if (!recording_) return as(value(x), dtype);  // recycle may hand its memory out again
  return copied = as(value(x), dtype);
}

void Tape::copy_parameters(std::span<const Parameter* const> parameters, DType dtype) {
  std::vector<ConstTensorView> from;
  std::vector<TensorView> to;
  for (const Parameter* one : parameters) {
    Node& node = nodes_[parameter(*one).index];
    if (node.value.dtype() != DType::f32 || node.copy.present()) continue;
    from.push_back(node.value);
    to.push_back(take(node.value.shape(), dtype));
    node.copy = to.back();
  }
  ops::round(context_, from, to);
}

Variable Tape::constant(const ConstTensorView& value) {
  nodes_.push_back({.value = value, .result = {}, .gradient = {}, .copy = {}});
  return {nodes_.size() - 1};
}

Variable Tape::parameter(const Parameter& parameter) {
  const auto [place, fresh] = parameters_.try_emplace(&parameter, nodes_.size());
  if (fresh) {
    nodes_.push_back({.value = parameter.value,
                      .result = {},
                      .gradient = {},
                      .copy = {},
                      .parameter = &parameter,
                      .needs_gradient = learns()});
  }
  return {place->second};
}

Variable Tape::result(const TensorView& value) {
  nodes_.push_back({.value = value, .result = value, .gradient = {}, .copy = {}, .needs_gradient = recording_});
  return {nodes_.size() - 1};
}

const kernels::PackedMatrix* Tape::packed(const ConstTensorView& weight) {
  if (!products_ || !weight.present() || weight.dtype() == DType::blocks)
    return nullptr;  // blocks are read as they lie
  const bool rounds = *products_ == ops::Products::coarse && weight.dtype() == DType::f32;
  if (!rounds && !context_.executor().kernels().gains_by_packing) return nullptr;
  const auto found = packed_.find(weight.data());
  if (found != packed_.end()) return &found->second;
  return &packed_.emplace(weight.data(), ops::pack(context_, weight, *products_)).first->second;
}

void Tape::on_backward(Variable result, std::function<void(const TensorView&)> step) {
  if (recording_) steps_.push_back({result.index, std::move(step)});
}

TensorView Tape::memory_for(const Node& node) {
  if (node.parameter != nullptr) return gradients_.of(*node.parameter).view();
  const TensorView memory = pool_.take(node.value.shape(), node.value.dtype());
  held_[memory.data()] = {memory, 1};
  return memory;
}

void Tape::release(const TensorView& gradient) {
  const auto held = held_.find(gradient.data());
  if (held == held_.end() || --held->second.holders > 0) return;
  pool_.take_back(held->second.memory);
  held_.erase(held);
}

void Tape::send(Variable x, const std::function<void(const TensorView&)>& write) {
  send_onto(x, [&](const TensorView& into, const ConstTensorView& plus) {
    if (!plus.present()) return write(into);
    const TensorView more = pool_.take(into.shape(), into.dtype());
    write(more);
    ops::elementwise(context_, ops::Elementwise::add, plus, more, into);
    pool_.take_back(more);
  });
}

void Tape::send_onto(Variable x, const std::function<void(const TensorView&, const ConstTensorView&)>& write) {
  Node& node = nodes_[x.index];
  if (!node.needs_gradient) return;
  const TensorView plus = node.gradient;
  const bool shared = plus.present() && node.shared;
  if (!plus.present() || shared) node.gradient = memory_for(node);
  node.shared = false;
  write(node.gradient, plus);
  if (shared) release(plus);
}

void Tape::send_added(Variable x, const std::function<void(const TensorView&)>& add) {
  send_onto(x, [&](const TensorView& into, const ConstTensorView& plus) {
    if (!plus.present()) {
      context_.allocator()->zero(into.data(), bytes_of(into));
    } else if (plus.data() != into.data()) {
      context_.allocator()->copy(into.data(), plus.data(), bytes_of(into));
    }
    add(into);
  });
}

TensorView Tape::place_for(Variable x) {
  const Node& node = nodes_[x.index];
  if (node.parameter != nullptr && node.needs_gradient && !node.gradient.present())
    return gradients_.of(*node.parameter);
  const DType dtype = node.value.dtype();
  return take(node.value.shape(), node.parameter != nullptr && size_of(dtype) == 2 ? DType::f32 : dtype);
}

void Tape::send_shared(Variable x, const TensorView& gradient) {
  Node& node = nodes_[x.index];
  if (!node.needs_gradient) return;
  if (node.parameter == nullptr && !node.gradient.present()) {
    node.gradient = gradient;
    node.shared = true;
    if (const auto held = held_.find(gradient.data()); held != held_.end()) ++held->second.holders;
    return;
  }
  send_onto(x, [&](const TensorView& into, const ConstTensorView& plus) {
    if (plus.present()) return ops::elementwise(context_, ops::Elementwise::add, plus, gradient, into);
    if (into.data() == gradient.data()) return;
    context_.allocator()->copy(into.data(), gradient.data(), bytes_of(gradient));
  });
}

void Tape::backward() {
  const Executor::Burst burst(context_.executor());
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const TensorView gradient = std::exchange(nodes_[steps_[i].result].gradient, {});
    if (!gradient.present()) continue;
    steps_[i].run(gradient);
    release(gradient);
  }
  if (!learns()) return;
  for (const auto& [parameter, index] : parameters_) {
    if (nodes_[index].gradient.present()) continue;
    const TensorView zero = gradients_.of(*parameter);
    if (zero.count() > 0) context_.allocator()->zero(zero.data(), bytes_of(zero));
  }
}

void Tape::clear() {
  nodes_.clear();
  parameters_.clear();
  steps_.clear();
  held_.clear();
  pool_.take_back_all();
}

}  // namespace polyhead::autograd
