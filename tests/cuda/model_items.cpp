// Models of every kind of block, loaded and run in 16 bits: beside the same numbers on the CPU, whole and token by
// token.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "autograd/functions.h"
#include "core/numbers.h"
#include "cuda/items.h"
#include "heads/importance.h"
#include "heads/patching.h"
#include "model/checkpoint.h"
#include "model/decoding.h"
#include "support/random.h"

namespace polyhead::test::gpu {
namespace {

constexpr std::int64_t kTexts = 2, kLength = 40;

// A folder that is gone afterwards.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("polyhead_" + name + "_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Tensor tokens_for(const model::Config& config) {
  test::Random random("models");
  Tensor tokens = Tensor::empty({kTexts, kLength}, DType::i32);
  test::fill_with(tokens.view(), [&] { return static_cast<double>(random.below(config.vocabulary)); });
  return tokens;
}

// What a pass leaves: the model's answer, and of every layer the statistics of the heads.
struct Found {
  Tensor answer;
  std::vector<Tensor> statistics;
};

Found pass_of(Context& context, const model::Transformer& model, bool statistics = true) {
  const Tensor tokens = tokens_for(model.config());
  autograd::Tape tape(context, false);
  model::PassOptions options;
  if (statistics) options.wants.attention.statistics = StatisticsSet::full;
  Found found{to_host(context, tape.value(model.forward(tape, tokens, options))), {}};
  for (std::size_t layer = 0; statistics && layer < model.config().layers.size(); ++layer) {
    found.statistics.push_back(to_host(context, model.attention(tape, layer).forward.statistics));
  }
  return found;
}

// The last rows' logits [B,V], with the first half of the tokens read at once and the others one after another.
Tensor decoded(Context& context, const model::Transformer& model) {
  const Tensor tokens = tokens_for(model.config());
  model::KvCaches caches(context, model, kTexts, kLength);
  caches.clear(context, std::vector<std::int32_t>(kTexts, 0));
  autograd::Tape tape(context, false);
  Tensor last;
  for (std::int64_t t = 0; t < kLength;) {
    const std::int64_t n = t == 0 ? kLength / 2 : 1;
    Tensor some = Tensor::empty({kTexts, n}, DType::i32);
    for (std::int64_t b = 0; b < kTexts; ++b) {
      std::copy_n(tokens.as<std::int32_t>() + b * kLength + t, n, some.as<std::int32_t>() + b * n);
    }
    tape.clear();
    last = to_host(context, tape.value(model.forward(tape, some, {.caches = &caches, .last_only = true})));
    t += n;
  }
  return last;
}

// |a - b| / |b|, of f32 numbers.
double distance(const ConstTensorView& a, const ConstTensorView& b) {
  double off = 0, size = 0;
  for (std::int64_t n = 0; n < b.count(); ++n) {
    const double x = static_cast<double>(a.as<float>()[n]), y = static_cast<double>(b.as<float>()[n]);
    off = std::hypot(off, x - y);
    size = std::hypot(size, y);
  }
  return off / size;
}

// The mean of a statistic over all heads of a layer.
double mean_of(const Tensor& statistics, Statistic which) {
  double sum = 0, rows = 0;
  for (std::int64_t head = 0; head < statistics.view().count() / kFullStatistics; ++head) {
    const float* fields = statistics.as<float>() + head * kFullStatistics;
    sum += static_cast<double>(fields[static_cast<int>(which)]);
    rows += static_cast<double>(fields[static_cast<int>(Statistic::rows)]);
  }
  return sum / rows;
}

// A model saved in 16 bits, or in f32 and rounded when it is loaded, gives what the CPU makes of the same numbers.
std::string halves_stay_near(Context& context, const model::Config& config, Precision precision, bool saved_rounded) {
  const DType half = precision == Precision::bf16 ? DType::bf16 : DType::f16;
  const double most = precision == Precision::bf16 ? 2e-2 : 3e-3;
  model::Transformer host(config, 5);
  const Folder folder("halves");
  if (!saved_rounded) model::save(host, folder.path());
  for (autograd::Parameter* parameter : host.parameters()) {
    if (model::may_be_half(*parameter)) parameter->value = converted(std::move(parameter->value), half);
  }
  if (saved_rounded) model::save(host, folder.path());
  Context cpu(1);
  const Found wanted = pass_of(cpu, host);
  context.set_precision(precision);
  const auto model = model::load(folder.path(), context);
  const Found got = pass_of(context, *model);
  const Tensor last = config.kind == model::Kind::gpt ? decoded(context, *model) : Tensor();
  context.set_precision(Precision::f32);
  const Found exact = pass_of(context, *model);  // the same matrices, with f32 around them

  std::string wrong;
  const auto expect = [&](const std::string& what, double off, double least, double bound) {
    if (!(off >= least && off <= bound)) wrong += what + " is off by " + std::to_string(off) + "\n";
  };
  expect("the answer", distance(got.answer, wanted.answer), 1e-5, most);
  expect("the answer with f32 around the matrices", distance(exact.answer, wanted.answer), 0, 1e-5);
  for (std::size_t layer = 0; layer < wanted.statistics.size(); ++layer) {
    const double entropy =
        mean_of(got.statistics[layer], Statistic::entropy) / mean_of(wanted.statistics[layer], Statistic::entropy);
    expect("the entropy of layer " + std::to_string(layer), std::abs(entropy - 1), 0, most);
  }
  for (const autograd::Parameter* parameter : model->parameters()) {
    const DType type = model::may_be_half(*parameter) ? half : DType::f32;
    if (parameter->value.dtype() != type) wrong += parameter->name + " is " + std::string(name_of(type)) + "\n";
  }
  if (!last.present()) return wrong;
  for (std::int64_t b = 0; b < kTexts; ++b) {
    const ConstTensorView row = got.answer.view().slice(0, b, b + 1).slice(1, kLength - 1, kLength);
    expect("a token at a time", distance(last.view().slice(0, b, b + 1), row), 0, most);
  }
  return wrong;
}

// What the laboratory reads on the host, of a model that computes in bf16: the means of the heads' outputs, and what
// patching each of them restores.
std::string heads_are_read(Context& context, const model::Config& config) {
  const model::Transformer host(config, 5);
  const Folder folder("heads");
  model::save(host, folder.path());
  const Tensor tokens = tokens_for(config);
  Tensor others = tokens_for(config);
  others.as<std::int32_t>()[kLength / 2] =
      (tokens.as<std::int32_t>()[kLength / 2] + 1) % static_cast<std::int32_t>(config.vocabulary);
  const auto first = [](const Tensor& all) { return std::span(all.as<std::int32_t>(), kLength); };
  std::vector<Examples> examples(1);
  examples[0].tokens = tokens_for(config);
  examples[0].targets = tokens_for(config);
  struct Read {
    std::vector<Tensor> means;
    heads::Patching patching;
  };
  const auto read = [&](Context& on, const model::Transformer& model) {
    return Read{heads::mean_outputs(on, model, examples),
                heads::patch(on, model, first(tokens), first(others), {1, 2})};
  };
  Context cpu(1);
  const Read wanted = read(cpu, host);
  context.set_precision(Precision::bf16);
  const Read got = read(context, *model::load(folder.path(), context));
  context.set_precision(Precision::f32);
  std::string wrong;
  for (std::size_t layer = 0; layer < wanted.means.size(); ++layer) {
    const double off = distance(got.means[layer], wanted.means[layer]);
    if (!(off > 1e-5 && off < 3e-2)) wrong += "the means are off by " + std::to_string(off) + "\n";
  }
  for (std::size_t n = 0; n < wanted.patching.heads.size(); ++n) {
    const double off = std::abs(got.patching.heads[n].difference - wanted.patching.heads[n].difference);
    if (!(off < 5e-2)) wrong += "with a head patched the logits are off by " + std::to_string(off) + "\n";
  }
  return wrong;
}

// Gradients are computed in f32 if f16 is asked for: they would be lost.
std::string f16_keeps_gradients(Context& context) {
  context.set_precision(Precision::f16);
  autograd::Tape recorded(context), plain(context, false);
  const DType with = recorded.inner_type(DType::f32), without = plain.inner_type(DType::f32);
  context.set_precision(Precision::f32);
  if (with != DType::f32) return "a pass that is recorded computes in " + std::string(name_of(with));
  return without == DType::f16 ? "" : "a pass computes in " + std::string(name_of(without));
}

model::Config plain(model::Kind kind) {
  model::Config config = model::make_config(kind, 2, 128, 2);
  config.vocabulary = 29;
  config.context = kLength;
  config.classes = kind == model::Kind::classifier ? 5 : 0;
  return config;
}

model::Config llama() {
  model::Config config = plain(model::Kind::gpt);
  config.layers = {{4, 2}, {4, 2, 16}};
  config.head_dim = 64;
  config.positions = model::Positions::rotary;
  config.norm = model::Norm::rms;
  config.feed_forward = model::FeedForward::swiglu;
  config.bias = false;
  config.tied = true;
  return config;
}

model::Config gemma() {
  model::Config config = llama();
  config.feed_forward = model::FeedForward::geglu;
  config.qk_norm = config.sandwich = true;
  config.logit_softcap = 30;
  config.embedding_scale = 11;
  return config;
}

model::Config neox() {
  model::Config config = plain(model::Kind::gpt);
  config.positions = model::Positions::rotary;
  config.rotary_dim = 16;
  config.parallel = true;
  config.feed_forward = model::FeedForward::erf_gelu;
  return config;
}

model::Config bert() {
  model::Config config = plain(model::Kind::encoder);
  config.post_norm = config.embedding_norm = true;
  return config;
}

}  // namespace

std::vector<Item> model_items() {
  std::vector<Item> items;
  const auto add = [&](const std::string& name, const model::Config& config) {
    for (const auto& [word, precision] : {std::pair{"bf16", Precision::bf16}, {"f16", Precision::f16}}) {
      for (const bool rounded : {true, false}) {
        items.push_back({"models/" + name + "_" + word + (rounded ? "_stored" : "_rounded"),
                         [=](Context& context) { return halves_stay_near(context, config, precision, rounded); }});
      }
    }
  };
  add("gpt", plain(model::Kind::gpt));
  add("llama", llama());
  add("gemma", gemma());
  add("neox", neox());
  add("bert", bert());
  add("classifier", plain(model::Kind::classifier));
  items.push_back(
      {"models/heads_of_gpt", [](Context& context) { return heads_are_read(context, plain(model::Kind::gpt)); }});
  items.push_back({"models/heads_of_llama", [](Context& context) { return heads_are_read(context, llama()); }});
  items.push_back({"models/f16_keeps_gradients", f16_keeps_gradients});
  return items;
}

}  // namespace polyhead::test::gpu
