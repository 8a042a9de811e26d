#include "train/parts.h"

#include <algorithm>

#include "core/numbers.h"
#include "ops/elementwise.h"

namespace polyhead::train {
namespace {

constexpr std::int64_t kBlock = std::int64_t{1} << 16;  // numbers that stay in a cache between two ops

TensorView flat(Tensor& tensor) { return tensor.view().reshape({tensor.view().count()}); }

}  // namespace

PartSums::PartSums(Context& context, std::vector<autograd::Parameter*> parameters, std::int64_t parts, Ranks& ranks)
    : context_(context), parameters_(std::move(parameters)), tree_(parts, ranks.size()), ranks_(ranks) {
  for (const autograd::Parameter* parameter : parameters_) count_ += parameter->value.view().count();
  block_ = Tensor::empty({kBlock}, DType::f32, context.allocator());
}

Tensor PartSums::taken() {
  if (free_.empty()) return Tensor::empty({count_}, DType::f32, context_.allocator());
  Tensor memory = std::move(free_.back());
  free_.pop_back();
  return memory;
}

void PartSums::add(Tensor& into, Tensor& more) {
  ops::elementwise(context_, ops::Elementwise::add, into, more, into);
  free_.push_back(std::move(more));
}

// All gradients, one after the other.
Tensor PartSums::packed(double factor) {
  Tensor all = taken();
  std::int64_t at = 0;
  for (const autograd::Parameter* parameter : parameters_) {
    const TensorView gradient = flat(gradients_->of(*parameter));
    ops::elementwise(context_, ops::Elementwise::scale, gradient, {}, all.view().slice(0, at, at + gradient.count()),
                     factor);
    at += gradient.count();
  }
  return all;
}

void PartSums::unpack(const Tensor& all) {
  std::int64_t at = 0;
  for (const autograd::Parameter* parameter : parameters_) {
    const TensorView gradient = flat(gradients_->of(*parameter));
    copy(context_, all.view().slice(0, at, at + gradient.count()), gradient);
    at += gradient.count();
  }
}

// What is packed one by one and added then has the same bits, but goes through memory twice.
void PartSums::add_packed(Tensor& into, double factor) {
  std::int64_t at = 0;
  for (const autograd::Parameter* parameter : parameters_) {
    const TensorView gradient = flat(gradients_->of(*parameter));
    for (std::int64_t begin = 0; begin < gradient.count(); begin += kBlock) {
      const std::int64_t count = std::min(kBlock, gradient.count() - begin);
      const TensorView block = block_.view().slice(0, 0, count), sum = into.view().slice(0, at, at + count);
      ops::elementwise(context_, ops::Elementwise::scale, gradient.slice(0, begin, begin + count), {}, block, factor);
      ops::elementwise(context_, ops::Elementwise::add, sum, block, sum);
      at += count;
    }
  }
}

Tensor PartSums::computed(const Range& range) {
  if (range.second - range.first == 1) return packed((*compute_)(range.first));
  Tensor left = computed(PartTree::left(range));
  if (const Range last = PartTree::right(range); last.second - last.first == 1) {
    add_packed(left, (*compute_)(last.first));
    return left;
  }
  Tensor right = computed(PartTree::right(range));
  add(left, right);
  return left;
}

void PartSums::compute_own(const Range& range) {
  if (tree_.is_one_ranks(range)) {
    if (tree_.owner(range.first) == ranks_.rank()) sums_[range] = computed(range);
    return;
  }
  compute_own(PartTree::left(range));
  compute_own(PartTree::right(range));
}

int PartSums::reduce(const Range& range) {
  const auto holder = static_cast<int>(tree_.owner(range.first));
  if (tree_.is_one_ranks(range)) return holder;
  const Range left = PartTree::left(range), right = PartTree::right(range);
  reduce(left);
  const int other = reduce(right);
  if (other != holder && other == ranks_.rank()) {
    Tensor& mine = sums_.at(right);
    ranks_.send(bytes_of(mine), holder);
    free_.push_back(std::move(mine));
  }
  if (holder == ranks_.rank()) {
    if (other != holder) ranks_.receive(bytes_of(sums_[right] = taken()), other);
    add(sums_.at(left), sums_.at(right));
    sums_[range] = std::move(sums_.at(left));
  }
  return holder;
}

void PartSums::sum(autograd::Gradients& gradients, const std::function<double(std::int64_t)>& compute) {
  gradients_ = &gradients;
  compute_ = &compute;
  const Range all = tree_.all();
  compute_own(all);
  reduce(all);
  Tensor total = ranks_.rank() == 0 ? std::move(sums_.at(all)) : taken();
  sums_.clear();
  ranks_.broadcast(bytes_of(total), 0);
  unpack(total);
  free_.push_back(std::move(total));
}

}  // namespace polyhead::train
