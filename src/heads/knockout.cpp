#include "heads/knockout.h"

#include <algorithm>

#include "heads/importance.h"

namespace polyhead::heads {
namespace {

// Rows of a pass: enough for products to run at full speed, and few enough for a layer's results to stay in cache.
constexpr std::int64_t kRows = 2048;

// An i32 tensor [B,..], repeated n times: [n*B,..].
Tensor repeated(const Tensor& some, std::int64_t n) {
  if (!some.present()) return {};
  Dims shape = some.shape();
  shape[0] *= n;
  Tensor all = Tensor::empty(shape, DType::i32);
  const std::int64_t count = some.view().count();
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(some.as<std::int32_t>(), count, all.as<std::int32_t>() + i * count);
  }
  return all;
}

class Walk {
 public:
  Walk(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
       const std::vector<Tensor>* means, ops::Products products)
      : context_(context), model_(model), examples_(examples), means_(means), tape_(context, false) {
    tape_.pack_weights(products);
    for (const Examples& some : examples) {
      tape_.clear();
      streams_.push_back(kept(model.read(tape_, some.tokens, {.lengths = some.lengths})));
    }
  }

  std::int64_t per_head() const { return means_ == nullptr ? 1 : 2; }

  // How many knock-outs fit into a pass.
  std::size_t at_once() const {
    std::int64_t most = 1;
    for (const Tensor& stream : streams_) most = std::max(most, stream.shape()[0] * stream.shape()[1]);
    return static_cast<std::size_t>(knock_outs_at_once(most));
  }

  // Knock-outs [begin, end) of the layer, whose first one is number `first` of all.
  void knock_out(std::size_t layer, std::size_t begin, std::size_t end, std::size_t first,
                 const std::function<void(const KnockedOut&)>& visit) {
    const auto n = static_cast<std::int64_t>(end - begin);
    for (std::size_t e = 0; e < examples_.size(); ++e) {
      Examples some{{}, repeated(examples_[e].targets, n), repeated(examples_[e].lengths, n)};
      tape_.clear();
      std::vector<Tensor> gates(model_.config().layers.size()), shifts(gates.size());
      gates[layer] = gates_of(layer, begin, n, streams_[e].shape()[0]);
      if (means_ != nullptr) shifts[layer] = shifts_of_each(layer, begin, n, streams_[e].shape());
      const autograd::Variable x = model_.through(tape_, stacked(streams_[e], n), layer, gates.size(),
                                                  {.lengths = some.lengths, .gates = &gates, .shifts = &shifts});
      visit({tape_, x, std::move(some), first + begin, end - begin});
    }
  }

  // After the last layer: the whole model, as knock-out `number`.
  void visit_whole(std::size_t number, const std::function<void(const KnockedOut&)>& visit) {
    for (std::size_t e = 0; e < examples_.size(); ++e) {
      tape_.clear();
      Examples some{{}, repeated(examples_[e].targets, 1), repeated(examples_[e].lengths, 1)};
      visit({tape_, tape_.constant(streams_[e]), std::move(some), number, 1});
    }
  }

  // Advances the whole model by a layer.
  void pass(std::size_t layer) {
    for (std::size_t e = 0; e < examples_.size(); ++e) {
      tape_.clear();
      streams_[e] =
          kept(model_.through(tape_, tape_.constant(streams_[e]), layer, layer + 1, {.lengths = examples_[e].lengths}));
    }
  }

 private:
  Tensor kept(autograd::Variable x) const {
    Tensor result = Tensor::empty(tape_.value(x).shape(), tape_.value(x).dtype(), context_.allocator());
    copy(context_, tape_.value(x), result);
    return result;
  }
  autograd::Variable stacked(const Tensor& stream, std::int64_t n) {
    const std::int64_t B = stream.shape()[0];
    const TensorView all = tape_.take({n * B, stream.shape()[1], stream.shape()[2]}, stream.dtype());
    for (std::int64_t i = 0; i < n; ++i) copy(context_, stream, all.slice(0, i * B, (i + 1) * B));
    return tape_.result(all);
  }

  // [n*B,H]: 1, or 0 for the head that is knocked out.
  Tensor gates_of(std::size_t layer, std::size_t begin, std::int64_t n, std::int64_t B) const {
    const std::int64_t H = model_.config().layers[layer].heads;
    Tensor gates = Tensor::empty({n * B, H}, DType::f32);
    std::fill_n(gates.as<float>(), n * B * H, 1.0f);
    for (std::int64_t row = 0; row < n * B; ++row) gates.as<float>()[row * H + head_of(begin, row / B)] = 0;
    return gates;
  }
  // [n*B,T,C]: W_O times the head's mean in every second knock-out, 0 in the others.
  Tensor shifts_of_each(std::size_t layer, std::size_t begin, std::int64_t n, const Dims& stream) const {
    const std::int64_t rows = stream[0] * stream[1], C = stream[2];
    Tensor shifts = Tensor::zeros({n * stream[0], stream[1], C}, DType::f32);
    for (std::int64_t i = 0; i < n; ++i) {
      if ((begin + static_cast<std::size_t>(i)) % 2 == 0) continue;
      const std::vector<Tensor> shift = shifts_of(model_, *means_, {{layer, head_of(begin, i)}});
      float* to = shifts.as<float>() + i * rows * C;
      for (std::int64_t row = 0; row < rows; ++row) std::copy_n(shift[layer].as<float>(), C, to + row * C);
    }
    return shifts;
  }
  std::int64_t head_of(std::size_t begin, std::int64_t i) const {
    return (static_cast<std::int64_t>(begin) + i) / per_head();
  }

  Context& context_;
  const model::Transformer& model_;
  const std::vector<Examples>& examples_;
  const std::vector<Tensor>* means_;
  autograd::Tape tape_;
  std::vector<Tensor> streams_;  // per batch, what the next layer reads: [B,T,C]
};

// Knock-outs [begin, end) of a layer, whose first one is number `first` of all.
struct Job {
  std::size_t layer, begin, end, first;
};

std::vector<Job> jobs_of(const model::Config& config, std::size_t per_head, std::size_t at_once) {
  std::vector<Job> jobs;
  std::size_t first = 0;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const std::size_t count = per_head * static_cast<std::size_t>(config.layers[layer].heads);
    for (std::size_t begin = 0; begin < count; begin += at_once) {
      jobs.push_back({layer, begin, std::min(begin + at_once, count), first});
    }
    first += count;
  }
  jobs.push_back({config.layers.size(), 0, 0, first});  // the whole model
  return jobs;
}

}  // namespace

std::int64_t knock_outs_at_once(std::int64_t rows) { return std::max<std::int64_t>(kRows / rows, 1); }

// Jobs come in rising order, so that a rank walks up the layers once.
void knock_out_each(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                    const std::vector<Tensor>* means, ops::Products products,
                    const std::function<void(const KnockedOut&)>& visit,
                    const std::function<void(std::int64_t)>& on_head, Ranks& ranks) {
  Walk walk(context, model, examples, means, products);
  const auto per_head = static_cast<std::size_t>(walk.per_head());
  const std::vector<Job> jobs = jobs_of(model.config(), per_head, walk.at_once());
  std::size_t layer = 0, done = 0;
  ranks.share(std::ssize(jobs), [&](std::int64_t number) {
    const Job& job = jobs[static_cast<std::size_t>(number)];
    for (; layer < job.layer; ++layer) walk.pass(layer);
    if (job.begin == job.end) return walk.visit_whole(job.first, visit);
    walk.knock_out(job.layer, job.begin, job.end, job.first, visit);
    while (done < (job.first + job.end) / per_head) {
      ++done;
      if (on_head) on_head(static_cast<std::int64_t>(done));
    }
  });
}

}  // namespace polyhead::heads
