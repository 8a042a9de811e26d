// What decoding adds: draws of tokens, tokens on their way into a cache, and generation, whose steps are recorded and
// replayed where a device can.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/items.h"
#include "kernels/table.h"
#include "model/sample.h"
#include "ops/sample.h"
#include "support/random.h"

namespace polyhead::test::gpu {
namespace {

// Logits of a quarter's steps, so that many are equal.
Tensor stepped_logits(std::int64_t rows, std::int64_t count) {
  test::Random random("logits");
  Tensor logits = Tensor::empty({rows, count}, DType::f32);
  test::fill_with(logits.view(), [&] { return std::round(8 * random.normal()) / 4; });
  return logits;
}

std::vector<std::int32_t> tokens_of(Context& context, const ConstTensorView& logits, const ops::SampleOptions& options,
                                    const ConstTensorView& draws) {
  Tensor tokens = Tensor::empty({logits.shape(0)}, DType::i32, context.allocator());
  ops::sample(context, "sample", clone(context, logits), options, clone(context, draws), tokens);
  const Tensor host = to_host(context, tokens);
  return {host.as<std::int32_t>(), host.as<std::int32_t>() + host.view().count()};
}

// The CPU's tokens, all of them: weights are summed without rounding.
std::string draws_are_the_same(Context& context, std::int64_t count) {
  constexpr std::int64_t kRows = 12;
  const Tensor logits = stepped_logits(kRows, count);
  test::Random random("draws");
  Tensor draws = Tensor::empty({kRows}, DType::f64);
  test::fill_with(draws.view(), [&] { return random.uniform(); });
  draws.as<double>()[0] = 0;
  draws.as<double>()[1] = 1 - 0x1p-53;
  Context cpu(1);
  std::string wrong;
  for (const double temperature : {0.0, 0.5, 1.5}) {
    for (const std::int64_t top_k : {0, 1, 7, 300}) {
      for (const double top_p : {1.0, 0.9, 0.3, 1e-9}) {
        const ops::SampleOptions options{temperature, top_k, top_p};
        if (tokens_of(context, logits, options, draws) == tokens_of(cpu, logits, options, draws)) continue;
        wrong += "temperature " + std::to_string(temperature) + ", top_k " + std::to_string(top_k) + ", top_p " +
                 std::to_string(top_p) + ": other tokens\n";
      }
    }
  }
  return wrong;
}

std::string unusable_logits_are_refused(Context& context) {
  Tensor logits = stepped_logits(2, 40);
  logits.as<float>()[63] = std::numeric_limits<float>::quiet_NaN();
  const Tensor draws = Tensor::zeros({2}, DType::f64);
  for (const double temperature : {0.0, 1.0}) {
    try {
      tokens_of(context, logits, {.temperature = temperature}, draws);
      context.synchronise();
      return "NaN was drawn from at temperature " + std::to_string(temperature);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::input) return error.what();
    }
  }
  return {};
}

model::Config decoder(std::int64_t context) {
  model::Config config = model::make_config(model::Kind::gpt, 2, 128, 4);
  config.layers = {{4, 2}, {4, 1, 100}};
  config.head_dim = 64;
  config.vocabulary = 97;
  config.context = context;
  config.positions = model::Positions::rotary;
  config.norm = model::Norm::rms;
  config.feed_forward = model::FeedForward::swiglu;
  config.bias = false;
  return config;
}

// What the CPU says after prompts of different lengths: past the bounds that steps are recorded for, and past the end
// of the context, where everything is read again.
std::string generation_is_the_same(Context& context, std::int64_t room, std::int64_t prompt, int count,
                                   const Sampling& sampling) {
  const model::Config config = decoder(room);
  const model::Transformer host(config, 3), device(config, 3, DType::f32, context.allocator());
  test::Random random("prompts");
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::int64_t length : {prompt, prompt / 2, std::int64_t{1}}) {
    auto& tokens = prompts.emplace_back();
    for (std::int64_t n = 0; n < length; ++n) {
      tokens.push_back(static_cast<std::int32_t>(random.below(config.vocabulary)));
    }
  }
  Context cpu(1);
  model::Generator wanted(cpu, host, prompts, sampling), got(context, device, prompts, sampling);
  for (int n = 0; n < count; ++n) {
    if (wanted.next() != got.next()) return "token " + std::to_string(n) + " is another";
  }
  return {};
}

}  // namespace

std::vector<Item> decoding_items() {
  std::vector<Item> items;
  for (const std::int64_t count : {1, 40, 5000, 50000}) {
    items.push_back({"decoding/draws_of_" + std::to_string(count),
                     [=](Context& context) { return draws_are_the_same(context, count); }});
  }
  items.push_back({"decoding/unusable_logits", unusable_logits_are_refused});
  const auto generate = [&](const std::string& name, std::int64_t room, std::int64_t prompt, int count) {
    items.push_back({"decoding/" + name + "_likeliest", [=](Context& context) {
                       return generation_is_the_same(context, room, prompt, count, {.temperature = 0});
                     }});
    items.push_back({"decoding/" + name + "_drawn", [=](Context& context) {
                       return generation_is_the_same(context, room, prompt, count,
                                                     {.temperature = 0.8, .seed = 5, .top_k = 20, .top_p = 0.95});
                     }});
  };
  generate("short", 12, 5, 9);
  generate("long", 600, 200, 410);
  return items;
}

}  // namespace polyhead::test::gpu
