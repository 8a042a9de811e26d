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

// Heads of one layer that go through it together.
struct Job {
  std::size_t layer;
  std::vector<std::int64_t> heads;   // none: the whole model
  std::vector<std::size_t> numbers;  // of the knock-outs
  std::size_t done;                  // heads, when this job is
};

class Walk {
 public:
  // `back`: jobs may come for a layer below; else what lower layers read is forgotten.
  Walk(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
       const std::vector<Tensor>* means, ops::Products products, bool back)
      : context_(context),
        model_(model),
        examples_(examples),
        means_(means),
        back_(back),
        tape_(context, false),
        streams_(model.config().layers.size() + 1) {
    tape_.pack_weights(products);
    for (const Examples& some : examples) {
      tape_.clear();
      streams_[0].push_back(kept(model.read(tape_, some.tokens, {.lengths = some.lengths})));
    }
  }

  std::size_t per_head() const { return means_ == nullptr ? 1 : 2; }

  // How many heads fit into a pass.
  std::size_t heads_at_once() const {
    std::int64_t most = 1;
    for (const Tensor& stream : streams_[0]) most = std::max(most, stream.shape()[0] * stream.shape()[1]);
    return std::max<std::size_t>(static_cast<std::size_t>(knock_outs_at_once(most)) / per_head(), 1);
  }

  void knock_out(const Job& job, const std::function<void(const KnockedOut&)>& visit) {
    climb(job.layer);
    const auto n = std::ssize(job.numbers);
    for (std::size_t e = 0; e < examples_.size(); ++e) {
      const Tensor& stream = streams_[job.layer][e];
      Examples some{{}, repeated(examples_[e].targets, n), repeated(examples_[e].lengths, n)};
      tape_.clear();
      std::vector<Tensor> gates(model_.config().layers.size()), shifts(gates.size());
      gates[job.layer] = gates_of(job, stream.shape()[0]);
      if (means_ != nullptr) shifts[job.layer] = shifts_of_each(job, stream.shape());
      const autograd::Variable x = model_.through(tape_, stacked(stream, n), job.layer, gates.size(),
                                                  {.lengths = some.lengths, .gates = &gates, .shifts = &shifts});
      visit({tape_, x, std::move(some), job.numbers});
    }
  }

  void visit_whole(const Job& job, const std::function<void(const KnockedOut&)>& visit) {
    climb(job.layer);
    for (std::size_t e = 0; e < examples_.size(); ++e) {
      tape_.clear();
      Examples some{{}, repeated(examples_[e].targets, 1), repeated(examples_[e].lengths, 1)};
      visit({tape_, tape_.constant(streams_[job.layer][e]), std::move(some), job.numbers});
    }
  }

 private:
  // Takes the whole model up to what this layer reads.
  void climb(std::size_t layer) {
    for (; top_ < layer; ++top_) {
      for (std::size_t e = 0; e < examples_.size(); ++e) {
        tape_.clear();
        const autograd::Variable x = tape_.constant(streams_[top_][e]);
        streams_[top_ + 1].push_back(kept(model_.through(tape_, x, top_, top_ + 1, {.lengths = examples_[e].lengths})));
      }
      if (!back_) streams_[top_].clear();
    }
  }
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

  // The head that is knock-out i of the job.
  std::int64_t head_of(const Job& job, std::int64_t i) const {
    return job.heads[static_cast<std::size_t>(i) / per_head()];
  }
  // [n*B,H]: 1, or 0 for the head that is knocked out.
  Tensor gates_of(const Job& job, std::int64_t B) const {
    const std::int64_t H = model_.config().layers[job.layer].heads, n = std::ssize(job.numbers);
    Tensor gates = Tensor::empty({n * B, H}, DType::f32);
    std::fill_n(gates.as<float>(), n * B * H, 1.0f);
    for (std::int64_t row = 0; row < n * B; ++row) gates.as<float>()[row * H + head_of(job, row / B)] = 0;
    return gates;
  }
  // [n*B,T,C]: W_O times the head's mean in every second knock-out, 0 in the others.
  Tensor shifts_of_each(const Job& job, const Dims& stream) const {
    const std::int64_t rows = stream[0] * stream[1], C = stream[2], n = std::ssize(job.numbers);
    Tensor shifts = Tensor::zeros({n * stream[0], stream[1], C}, DType::f32);
    for (std::int64_t i = 1; i < n; i += 2) {
      const std::vector<Tensor> shift = shifts_of(model_, *means_, {{job.layer, head_of(job, i)}});
      float* to = shifts.as<float>() + i * rows * C;
      for (std::int64_t row = 0; row < rows; ++row) std::copy_n(shift[job.layer].as<float>(), C, to + row * C);
    }
    return shifts;
  }

  Context& context_;
  const model::Transformer& model_;
  const std::vector<Examples>& examples_;
  const std::vector<Tensor>* means_;
  bool back_;
  autograd::Tape tape_;
  std::size_t top_ = 0;                       // the highest layer that the whole model has come to
  std::vector<std::vector<Tensor>> streams_;  // per layer and batch, what it reads: [B,T,C]
};

std::vector<Job> jobs_of(const model::Config& config, const std::vector<HeadId>& order, std::size_t per_head,
                         std::size_t at_once) {
  const std::vector<HeadId> all = model::all_heads(config);
  std::vector<Job> jobs;
  std::vector<bool> taken(order.size());
  std::size_t done = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (taken[n]) continue;
    Job job{order[n].layer, {}, {}, 0};
    for (std::size_t other = n; other < order.size() && job.heads.size() < at_once; ++other) {
      if (taken[other] || order[other].layer != job.layer) continue;
      taken[other] = true;
      job.heads.push_back(order[other].head);
      const auto number = static_cast<std::size_t>(std::find(all.begin(), all.end(), order[other]) - all.begin());
      for (std::size_t kind = 0; kind < per_head; ++kind) job.numbers.push_back(per_head * number + kind);
    }
    job.done = done += job.heads.size();
    jobs.push_back(std::move(job));
  }
  jobs.push_back({config.layers.size(), {}, {per_head * all.size()}, done});
  return jobs;
}

}  // namespace

std::int64_t knock_outs_at_once(std::int64_t rows) { return std::max<std::int64_t>(kRows / rows, 1); }

// Without an order, layers rise from job to job, so that a rank walks up them once.
void knock_out_each(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                    const KnockOutOptions& options, const std::function<void(const KnockedOut&)>& visit, Ranks& ranks) {
  Walk walk(context, model, examples, options.means, options.products, options.order.has_value());
  const std::vector<Job> jobs = jobs_of(model.config(), options.order.value_or(model::all_heads(model.config())),
                                        walk.per_head(), walk.heads_at_once());
  std::size_t done = 0;
  bool going = true;
  ranks.share(std::ssize(jobs), [&](std::int64_t number) {
    const Job& job = jobs[static_cast<std::size_t>(number)];
    if (job.heads.empty()) return walk.visit_whole(job, visit);
    going = going && (!options.go_on || options.go_on());
    if (!going) return;
    walk.knock_out(job, visit);
    while (done < job.done) {
      ++done;
      if (options.on_head) options.on_head(static_cast<std::int64_t>(done));
    }
  });
}

}  // namespace polyhead::heads
