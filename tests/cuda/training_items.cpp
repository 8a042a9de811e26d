// Passes forward and back of small models, rounded to bf16 and not: what is rounded must stay near, and be rounded.
#include <cmath>

#include "autograd/functions.h"
#include "cuda/items.h"
#include "model/transformer.h"
#include "support/random.h"

namespace polyhead::test::gpu {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 24;

struct Pass {
  double loss = 0;
  std::vector<Tensor> gradients;  // of the parameters, on the host
};

Pass pass_of(Context& context, const model::Transformer& model, Precision products, autograd::Tape& tape) {
  test::Random random("training");
  const bool classifies = model.config().kind == model::Kind::classifier;
  Tensor tokens = Tensor::empty({kBatch, kTokens}, DType::i32),
         targets = Tensor::empty(classifies ? Dims{kBatch} : Dims{kBatch, kTokens}, DType::i32);
  for (const TensorView& indices : {tokens.view(), targets.view()}) {
    test::fill_with(indices, [&] { return static_cast<double>(random.below(model.config().outputs())); });
  }
  context.set_precision(products);
  tape.clear();
  const autograd::Variable logits = model.forward(tape, tokens, {.training = true, .seed = 7});
  Pass found{autograd::cross_entropy(tape, logits, tape.here(targets)).read().loss, {}};
  tape.backward();
  for (const autograd::Parameter* parameter : model.parameters()) {
    found.gradients.push_back(to_host(context, tape.gradients().of(*parameter)));
  }
  context.set_precision(Precision::f32);
  return found;
}

// |a - b| and |b|, both f32.
struct Distance {
  double off = 0, size = 0;

  void add(const Tensor& a, const Tensor& b) {
    for (std::int64_t n = 0; n < b.view().count(); ++n) {
      const double x = static_cast<double>(a.as<float>()[n]), y = static_cast<double>(b.as<float>()[n]);
      off = std::hypot(off, x - y);
      size = std::hypot(size, y);
    }
  }
};

std::string rounding_stays_near(Context& context, const model::Config& config) {
  const model::Transformer model(config, 5, DType::f32, context.allocator());
  autograd::Tape exact_tape(context), tape(context);
  const Pass exact = pass_of(context, model, Precision::f32, exact_tape),
             got = pass_of(context, model, Precision::bf16, tape);
  std::string wrong;
  const auto expect = [&](const std::string& what, double off, double least, double most) {
    if (!(off >= least && off <= most)) wrong += what + " is off by " + std::to_string(off) + "\n";
  };
  expect("the loss", std::abs(got.loss / exact.loss - 1), 1e-7, 1e-2);
  const auto parameters = model.parameters();
  Distance whole;
  for (const Tensor& gradient : exact.gradients) whole.add(gradient, gradient);
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    Distance one;
    one.add(got.gradients[n], exact.gradients[n]);
    // Keys' biases get no gradient but rounding: they are part of a tensor whose other parts are larger.
    expect(parameters[n]->name, one.off / (one.size + 1e-4 * whole.size), 1e-5, 0.1);
  }
  return wrong;
}

// A tape is used again after the products have changed, and again as it was.
std::string tapes_can_be_used_again(Context& context, const model::Config& config) {
  const model::Transformer model(config, 5, DType::f32, context.allocator());
  autograd::Tape tape(context);
  const Pass first = pass_of(context, model, Precision::f32, tape),
             rounded = pass_of(context, model, Precision::bf16, tape),
             again = pass_of(context, model, Precision::f32, tape);
  if (rounded.loss == first.loss) return "nothing was rounded";
  if (again.loss != first.loss) return "the loss is another one";
  for (std::size_t n = 0; n < first.gradients.size(); ++n) {
    Distance one;
    one.add(again.gradients[n], first.gradients[n]);
    if (one.off != 0) return model.parameters()[n]->name + " has another gradient";
  }
  return {};
}

model::Config small(model::Kind kind) {
  model::Config config = model::make_config(kind, 2, 64, 2);
  config.vocabulary = 29;
  config.context = kTokens;
  config.classes = kind == model::Kind::classifier ? 5 : 0;
  return config;
}

}  // namespace

std::vector<Item> training_items() {
  std::vector<Item> items;
  const auto add = [&](const std::string& name, const model::Config& config) {
    items.push_back({"training/" + name, [=](Context& context) { return rounding_stays_near(context, config); }});
  };
  const model::Config plain = small(model::Kind::gpt);
  add("plain", plain);
  model::Config wide = model::make_config(model::Kind::gpt, 1, 128, 2);  // heads that Hopper has kernels for
  wide.vocabulary = plain.vocabulary;
  wide.context = plain.context;
  add("heads_of_64", wide);
  items.push_back(
      {"training/tapes_can_be_used_again", [=](Context& context) { return tapes_can_be_used_again(context, plain); }});
  model::Config llama = plain, post = plain, other = plain, gemma = plain;
  llama.positions = model::Positions::rotary;
  llama.norm = model::Norm::rms;
  llama.feed_forward = model::FeedForward::swiglu;
  llama.bias = false;
  llama.tied = true;
  llama.dropout = 0.1;
  add("rotary_rms_swiglu_dropout", llama);
  post.post_norm = true;
  post.feed_forward = model::FeedForward::erf_gelu;
  add("post_norm", post);
  other.parallel = true;
  other.norm = model::Norm::none;
  other.feed_forward = model::FeedForward::geglu;
  add("parallel_without_norms", other);
  gemma.sandwich = gemma.qk_norm = true;
  gemma.norm = model::Norm::rms;
  gemma.logit_softcap = 5;
  add("sandwich_qk_norm", gemma);
  add("classifier", small(model::Kind::classifier));
  return items;
}

}  // namespace polyhead::test::gpu
