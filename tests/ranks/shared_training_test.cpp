// Steps of models that the command cannot make, by ranks that share every pass: the bits of one process.
#include <gtest/gtest.h>

#include "core/numbers.h"
#include "ranks/joined.h"
#include "support/bits.h"
#include "train/tasks.h"
#include "train/trainer.h"

namespace polyhead::test {
namespace {

using model::Config;

struct Kind {
  std::string name, task;
  Config config;
};

// As pruning leaves it: layers of different sizes, one without heads.
Config pruned(Config config) {
  config.layers = {{.heads = 4, .kv_heads = 2}, {.heads = 1, .kv_heads = 1}, {.heads = 0}, {.heads = 3, .kv_heads = 3}};
  return config;
}

std::vector<Kind> kinds() {
  const Config gpt = model::make_config(model::Kind::gpt, 2, 40, 4);
  Config llama = pruned(gpt), gemma = gpt, bert = gpt, neox = gpt;
  llama.norm = model::Norm::rms;
  llama.positions = model::Positions::rotary;
  llama.feed_forward = model::FeedForward::swiglu;
  llama.bias = false;
  llama.head_dim = 10;
  llama.qk_norm = llama.tied = true;
  gemma.layers = {{.heads = 4, .kv_heads = 1, .window = 3}, {.heads = 4, .kv_heads = 2}};
  gemma.positions = model::Positions::rotary;
  gemma.norm = model::Norm::rms;
  gemma.feed_forward = model::FeedForward::geglu;
  gemma.bias = false;
  gemma.sandwich = true;
  gemma.attention_softcap = 20;
  gemma.logit_softcap = 30;
  bert.post_norm = bert.embedding_norm = true;
  bert.feed_forward = model::FeedForward::erf_gelu;
  neox.parallel = true;
  neox.positions = model::Positions::rotary;
  neox.rotary_dim = 4;
  return {{"pruned", "copy", pruned(gpt)},
          {"llama", "dyck", llama},
          {"gemma", "copy", gemma},
          {"bert", "classify", bert},
          {"neox", "recall", neox}};
}

// The weights after two steps with dropout, in so many parts.
std::vector<Tensor> trained(const Kind& kind, std::int64_t parts, const train::RankGrid& grid) {
  Context context(1);
  const std::unique_ptr<train::Task> task = train::make_task({.name = kind.task});
  Config config = kind.config;
  config.dropout = 0.1;
  train::fit_to_task(config, *task);
  model::Transformer model(config, 3);
  train::Trainer trainer(context, model, *task, {.steps = 2, .batch = 6, .warmup = 1, .parts = parts}, grid);
  while (!trainer.done()) trainer.step();
  std::vector<Tensor> weights;
  for (const autograd::Parameter* parameter : model.parameters()) weights.push_back(clone(context, parameter->value));
  return weights;
}

TEST(SharedTraining, HasTheBitsOfOneProcess) {
  std::vector<std::pair<std::string, train::RankGrid>> grids{{"one group", {ranks(), ranks().size()}}};
  if (ranks().size() == 4) grids.emplace_back("two groups", train::RankGrid(ranks(), 2));
  for (const Kind& kind : kinds()) {
    for (const auto& [name, grid] : grids) {
      const std::int64_t parts = grid.data().size() > 1 || kind.name == "llama" ? 3 : 1;
      SCOPED_TRACE(kind.name + " in " + name);
      const std::vector<Tensor> many = trained(kind, parts, grid);
      std::vector<Tensor> one;  // which rank 0 computes for all
      for (const Tensor& some : many) one.push_back(Tensor::zeros(some.shape(), some.dtype()));
      if (ranks().rank() == 0) one = trained(kind, parts, alone());
      for (Tensor& some : one) ranks().broadcast(bytes_of(some), 0);
      for (std::size_t n = 0; n < one.size(); ++n) {
        EXPECT_TRUE(same_bits("parameter " + std::to_string(n), many[n], one[n]));
      }
    }
  }
}

}  // namespace
}  // namespace polyhead::test
