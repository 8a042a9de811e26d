// Whole models on a GPU, for bench/gpu/laboratory.py: a pass over a text, with what every head does or without; the
// damage of every head; decoding.
#include <memory>
#include <optional>

#include "gpu/calls.h"
#include "heads/importance.h"
#include "model/checkpoint.h"
#include "model/head.h"
#include "model/sample.h"

namespace polyhead::bench::gpu {
namespace {

// One model at a time.
struct Loaded {
  std::unique_ptr<model::Transformer> model;
  autograd::Tape tape{context(), false};
  std::optional<model::Generator> generator{};
  Tensor tokens{};  // of the last pass, which may still read them
};
std::unique_ptr<Loaded> loaded;

Tensor tokens_of(const std::int32_t* numbers, std::int64_t batch, std::int64_t length) {
  Tensor tokens = Tensor::empty({batch, length}, DType::i32);
  std::copy_n(numbers, batch * length, tokens.as<std::int32_t>());
  return tokens;
}

void unload() {
  loaded.reset();
  context().release_memory();
}

// The logits of the last token, [B,V], into `logits` if it is not null. A pass may still be queued on return.
void prefill(Tensor tokens, StatisticsSet statistics, float* logits) {
  autograd::Tape& tape = loaded->tape;
  tape.clear();
  loaded->tokens = std::move(tokens);
  model::PassOptions options{.last_only = true};
  options.wants.attention.statistics = statistics;
  const autograd::Variable last = loaded->model->forward(tape, loaded->tokens, options);
  if (logits == nullptr) return;
  const Tensor host = to_host(context(), tape.value(last));
  std::copy_n(host.as<float>(), host.view().count(), logits);
}

void damage(const Tensor& tokens, double* damages) {
  const std::int64_t B = tokens.shape()[0], T = tokens.shape()[1];
  Examples examples{tokens_of(tokens.as<std::int32_t>(), B, T), Tensor::empty({B, T}, DType::i32), {}};
  for (std::int64_t n = 0; n < B * T; ++n) {
    examples.targets.as<std::int32_t>()[n] = n % T == T - 1 ? -1 : tokens.as<std::int32_t>()[n + 1];
  }
  std::vector<Examples> all;
  all.push_back(std::move(examples));
  std::vector<HeadImportance> heads;
  for (const HeadId& id : model::all_heads(loaded->model->config())) heads.emplace_back().id = id;
  heads::add_damage(context(), *loaded->model, all, {.means = false, .products = ops::Products::coarse}, heads);
  for (const HeadImportance& head : heads) *damages++ = head.zero.mean;
}

}  // namespace
}  // namespace polyhead::bench::gpu

using namespace polyhead::bench::gpu;

extern "C" {

// A folder or a GGUF file; precision: a polyhead::Precision.
POLYHEAD_PUBLIC const char* polyhead_gpu_model(const char* path, std::int64_t precision) {
  return said([&] {
    unload();
    context().set_precision(static_cast<polyhead::Precision>(precision));
    loaded = std::make_unique<Loaded>();
    loaded->model = polyhead::model::load(path, context());
    context().synchronise();
  });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_model_end() {
  return said([] {
    unload();
    context().set_precision(polyhead::Precision::f32);
  });
}
// statistics: a polyhead::StatisticsSet.
POLYHEAD_PUBLIC const char* polyhead_gpu_prefill(const std::int32_t* tokens, std::int64_t batch, std::int64_t length,
                                                 std::int64_t statistics, float* logits) {
  return said(
      [&] { prefill(tokens_of(tokens, batch, length), static_cast<polyhead::StatisticsSet>(statistics), logits); });
}
// One number for every head.
POLYHEAD_PUBLIC const char* polyhead_gpu_damage(const std::int32_t* tokens, std::int64_t batch, std::int64_t length,
                                                double* damages) {
  return said([&] { damage(tokens_of(tokens, batch, length), damages); });
}
// Reads the prompts; polyhead_gpu_decode then makes the likeliest tokens, [count,B].
POLYHEAD_PUBLIC const char* polyhead_gpu_prompt(const std::int32_t* tokens, std::int64_t batch, std::int64_t length) {
  return said([&] {
    std::vector<std::vector<std::int32_t>> prompts;
    for (std::int64_t b = 0; b < batch; ++b) prompts.emplace_back(tokens + b * length, tokens + (b + 1) * length);
    loaded->generator.reset();
    loaded->generator.emplace(context(), *loaded->model, std::move(prompts), polyhead::Sampling{.temperature = 0});
    loaded->generator->next();
  });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_decode(std::int64_t count, std::int32_t* tokens) {
  return said([&] {
    for (std::int64_t n = 0; n < count; ++n) {
      for (const std::int32_t token : loaded->generator->next()) *tokens++ = token;
    }
  });
}

}  // extern "C"
