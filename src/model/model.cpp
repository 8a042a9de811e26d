#include "polyhead/model.h"

#include <algorithm>

#include "core/numbers.h"
#include "model/checkpoint.h"
#include "model/head.h"
#include "model/sample.h"
#include "model/score.h"

namespace polyhead {

Model Model::load(const std::filesystem::path& folder, const std::shared_ptr<Allocator>& memory) {
  return Model(model::load(folder, memory));
}
void Model::save(const std::filesystem::path& folder) const { model::save(*transformer_, folder); }

bool Model::is_classifier() const noexcept { return transformer_->config().kind == model::Kind::classifier; }
bool Model::is_encoder() const noexcept { return transformer_->config().kind == model::Kind::encoder; }
std::int64_t Model::vocabulary() const noexcept { return transformer_->config().vocabulary; }
std::int64_t Model::context_length() const noexcept { return transformer_->config().context; }
std::vector<HeadId> Model::heads() const { return model::all_heads(transformer_->config()); }
std::int64_t Model::parameter_count() const { return transformer_->parameter_count(); }

Tensor Model::forward(Context& context, const ConstTensorView& tokens, const ModelOptions& options) const {
  model::Gates gates(transformer_->config());
  gates.shut(options.knocked_out);
  autograd::Tape tape(context, false);
  return clone(context,
               tape.value(transformer_->forward(tape, tokens, {.lengths = options.lengths, .gates = gates.get()})));
}

std::vector<Tensor> Model::weights(Context& context, const ConstTensorView& tokens, const ModelOptions& options) const {
  model::Gates gates(transformer_->config());
  gates.shut(options.knocked_out);
  autograd::Tape tape(context, false);
  model::PassOptions pass{.lengths = options.lengths, .gates = gates.get()};
  pass.wants.attention.weights = true;
  transformer_->forward(tape, tokens, pass);
  const std::vector<model::LayerHeads>& layers = transformer_->config().layers;
  std::vector<Tensor> found(layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].heads == 0) continue;
    found[layer] = clone(context, transformer_->attention(tape, layer).forward.weights);
  }
  return found;
}

std::vector<std::vector<std::int32_t>> Model::generate(Context& context,
                                                       const std::vector<std::vector<std::int32_t>>& prompts,
                                                       std::int64_t count, const Sampling& sampling) const {
  model::Generator generator(context, *transformer_, prompts, sampling);
  std::vector<std::vector<std::int32_t>> said(prompts.size());
  std::vector<bool> ended(prompts.size());
  const auto all_ended = [&] { return std::find(ended.begin(), ended.end(), false) == ended.end(); };
  for (std::int64_t n = 0; n < count && !all_ended(); ++n) {
    const std::vector<std::int32_t> next = generator.next();
    for (std::size_t b = 0; b < said.size(); ++b) {
      ended[b] = ended[b] || std::find(sampling.stop.begin(), sampling.stop.end(), next[b]) != sampling.stop.end();
      if (!ended[b]) said[b].push_back(next[b]);
    }
  }
  return said;
}

Score Model::score(Context& context, const std::vector<Examples>& examples,
                   const std::vector<HeadId>& knocked_out) const {
  model::Gates gates(transformer_->config());
  gates.shut(knocked_out);
  const model::SequenceScores scores = model::score(context, *transformer_, examples, gates.get());
  return {scores.mean_loss(), scores.accuracy()};
}

}  // namespace polyhead
