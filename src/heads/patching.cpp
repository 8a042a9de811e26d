#include "heads/patching.h"

#include <algorithm>
#include <cstring>

#include "core/numbers.h"
#include "heads/circuits.h"
#include "model/memory.h"
#include "model/score.h"
#include "ops/on_host.h"

namespace polyhead::heads {
namespace {

using Tokens = std::span<const std::int32_t>;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::value, "patch", what); }

// The logits at the last token. Throws Error (value) if one is not finite.
std::vector<double> last_logits(Context& context, autograd::Tape& tape, const model::Transformer& model, Tokens tokens,
                                const model::PassOptions& options = {}) {
  tape.clear();
  const auto T = std::ssize(tokens);
  const ConstTensorView logits = tape.value(model.forward(tape, ConstTensorView(tokens.data(), {1, T}), options));
  const OnHost row(context, logits.slice(1, T - 1, T));
  std::vector<double> numbers(row.as<float>(), row.as<float>() + model.config().vocabulary);
  model::expect_finite(numbers, "the model: after the last token, the logit of token");
  return numbers;
}

void check(const model::Transformer& model, Tokens clean, Tokens corrupted) {
  if (model.config().kind != model::Kind::gpt) refuse("expected a language model");
  if (clean.empty() || clean.size() != corrupted.size()) {
    refuse("expected two texts with the same number of tokens, one at least, found " + std::to_string(clean.size()) +
           " and " + std::to_string(corrupted.size()));
  }
}

}  // namespace

Likeliest likeliest_after(Context& context, const model::Transformer& model, Tokens clean, Tokens corrupted) {
  check(model, clean, corrupted);
  model::expect_memory("patch", model.config(), 0, {.tokens = std::ssize(clean)});
  autograd::Tape tape(context, false);
  const auto likeliest = [&](Tokens tokens) {
    const std::vector<double> logits = last_logits(context, tape, model, tokens);
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  };
  return {likeliest(clean), likeliest(corrupted)};
}

Patching patch(Context& context, const model::Transformer& model, Tokens clean, Tokens corrupted,
               const Question& question, const std::function<void(std::int64_t)>& on_head, Ranks& ranks,
               const std::function<bool()>& go_on) {
  check(model, clean, corrupted);
  const model::Config& config = model.config();
  for (const std::int32_t token : {question.answer, question.instead}) {
    if (token < 0 || token >= config.vocabulary) refuse("no token " + std::to_string(token));
  }
  const std::int64_t T = std::ssize(clean), inner = config.head_count() * config.head_dim;
  // The packed weights, and for every layer W_O and the outputs of its heads.
  model::expect_memory("patch", config, 1, {.tokens = T}, 4.0 * static_cast<double>(inner * (config.width + T)));
  autograd::Tape tape(context, false);
  tape.pack_weights();
  const auto difference = [&](Tokens tokens, const model::PassOptions& options) {
    const std::vector<double> logits = last_logits(context, tape, model, tokens, options);
    return logits[static_cast<std::size_t>(question.answer)] - logits[static_cast<std::size_t>(question.instead)];
  };
  Patching found{.answer = question.answer, .instead = question.instead, .clean = 0, .corrupted = 0, .heads = {}};
  model::PassOptions keep;
  keep.wants.heads = true;
  found.clean = difference(clean, keep);
  std::vector<Tensor> outputs, weights;  // of the clean run, per layer [1,T,H*D]; W_O
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const bool heads = config.layers[layer].heads > 0;
    outputs.push_back(heads ? widened(to_host(context, model.attention(tape, layer).forward.heads)) : Tensor());
    weights.push_back(heads ? widened(copied_to_host(model.attention_parameters(layer).out_proj_weight->value))
                            : Tensor());
  }
  found.corrupted = difference(corrupted, {});
  if (found.clean == found.corrupted) refuse("the two texts give the same logits: there is nothing to restore");
  const std::vector<HeadId> ids = model::all_heads(config);
  std::vector<std::string> differences(ids.size());  // the bytes of one each
  bool going = true;
  ranks.share(std::ssize(ids), [&](std::int64_t job) {
    going = going && (!go_on || go_on());
    if (!going) return;
    const HeadId& id = ids[static_cast<std::size_t>(job)];
    model::Gates gates(config);
    gates.set(id, 0);
    std::vector<Tensor> shifts(config.layers.size());
    shifts[id.layer] = written_by(id.head, outputs[id.layer], weights[id.layer], config.head_dim);
    const double patched = difference(corrupted, {.gates = gates.get(), .shifts = &shifts});
    differences[static_cast<std::size_t>(job)].assign(reinterpret_cast<const char*>(&patched), sizeof patched);
    if (on_head) on_head(job + 1);
  });
  complete(ranks, differences);
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (differences[n].empty()) continue;
    double patched = 0;
    std::memcpy(&patched, differences[n].data(), sizeof patched);
    found.heads.push_back({ids[n], patched, (patched - found.corrupted) / (found.clean - found.corrupted)});
  }
  return found;
}

}  // namespace polyhead::heads
