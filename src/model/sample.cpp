#include "model/sample.h"

#include <algorithm>
#include <utility>

#include "core/philox.h"
#include "ops/on_host.h"
#include "ops/sample.h"
#include "polyhead/error.h"

namespace polyhead::model {
namespace {

constexpr std::uint32_t kDomain = 0x73616d70u;  // differs from those of weights and dropout, whose seed may be the same

// In [0,1), with 53 bits.
double uniform(std::uint64_t seed, std::uint64_t index, std::uint32_t stream) {
  const Philox::Words words = Philox::words(
      seed, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream, kDomain});
  return static_cast<double>((std::uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

ops::SampleOptions options_of(const Sampling& sampling) {
  return {sampling.temperature, sampling.top_k, sampling.top_p};
}

void expect_prompt(const Transformer& model, std::span<const std::int32_t> tokens, const Sampling& sampling) {
  if (!(sampling.temperature >= 0)) {
    throw Error(ErrorCode::value, "next_token",
                "expected a temperature of 0 or more, found " + std::to_string(sampling.temperature));
  }
  if (sampling.top_k < 0 || !(sampling.top_p > 0 && sampling.top_p <= 1)) {
    throw Error(ErrorCode::value, "next_token",
                "expected a top_k of 0 or more and a top_p above 0 and up to 1, found " +
                    std::to_string(sampling.top_k) + " and " + std::to_string(sampling.top_p));
  }
  if (model.config().kind != Kind::gpt) {
    throw Error(ErrorCode::value, "next_token",
                "expected a language model, found one that does not predict the next token");
  }
  if (tokens.empty()) {
    throw Error(ErrorCode::value, "next_token", "prompts: expected at least one token to go on from, found none");
  }
  const std::int64_t most = model.config().vocabulary - 1;
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token <= most) continue;
    throw Error(ErrorCode::value, "next_token",
                "prompts: expected tokens from 0 to " + std::to_string(most) + ", found " + std::to_string(token));
  }
}

}  // namespace

std::int32_t next_token(Context& context, const Transformer& model, std::span<const std::int32_t> tokens,
                        const Sampling& sampling, std::uint64_t index) {
  expect_prompt(model, tokens, sampling);
  const auto length = std::min(tokens.size(), static_cast<std::size_t>(model.config().context));
  const std::span<const std::int32_t> seen = tokens.last(length);
  autograd::Tape tape(context, false);
  const ConstTensorView input(seen.data(), {1, static_cast<std::int64_t>(length)});
  const ConstTensorView logits = tape.value(model.forward(tape, input, {.last_only = true}));
  const double at = uniform(sampling.seed, index, 0);
  Tensor chosen = Tensor::empty({1}, DType::i32, context.allocator());
  ops::sample(context, "next_token", logits.reshape({1, model.config().vocabulary}), options_of(sampling),
              tape.here(ConstTensorView(&at, {1})), chosen);
  return *OnHost(context, chosen).as<std::int32_t>();
}

Generator::Generator(Context& context, const Transformer& model, std::vector<std::vector<std::int32_t>> prompts,
                     const Sampling& sampling)
    : context_(context),
      model_(model),
      tokens_(std::move(prompts)),
      sampling_(sampling),
      tape_(context, false),
      caches_(context, model, static_cast<std::int64_t>(tokens_.size()), model.config().context) {
  for (const std::vector<std::int32_t>& prompt : tokens_) expect_prompt(model, prompt, sampling);
  tape_.pack_weights();
  last_ = Tensor::empty({caches_.batch(), 1}, DType::i32, context.allocator());
  if (sampling.temperature > 0) draws_ = Tensor::empty({caches_.batch()}, DType::f64, context.allocator());
}

void Generator::read() {
  const auto context = static_cast<std::size_t>(model_.config().context);
  std::size_t longest = 0;
  for (const auto& tokens : tokens_) longest = std::max(longest, std::min(tokens.size(), context));
  Tensor input = Tensor::zeros({caches_.batch(), static_cast<std::int64_t>(longest)}, DType::i32);
  std::vector<std::int32_t> padding;
  std::int32_t* row = input.as<std::int32_t>();
  for (const auto& tokens : tokens_) {
    const std::size_t length = std::min(tokens.size(), context);
    padding.push_back(static_cast<std::int32_t>(longest - length));
    row = std::copy(tokens.end() - static_cast<std::ptrdiff_t>(length), tokens.end(), row + padding.back());
  }
  caches_.clear(context_, padding);
  recording_ = nullptr;  // it refers to memory that is placed anew
  tried_ = 0;
  choose(tape_.value(model_.forward(tape_, input, {.caches = &caches_, .last_only = true})));
}

// A step's memory is there once it has run; then it is recorded, for as long as the bound of the caches stays.
void Generator::step() {
  Executor& executor = context_.executor();
  const auto pass = [&](bool recorded) {
    tape_.clear();
    choose(tape_.value(model_.forward(tape_, last_, {.caches = &caches_, .recorded = recorded})));
  };
  if (!executor.records()) return pass(false);
  const std::int64_t bound = caches_.bound();
  caches_.place(context_, 1);
  if (recorded_ != bound || recording_ == nullptr || !recording_->replay()) {
    recording_ = nullptr;
    if (std::exchange(tried_, bound) != bound) {
      pass(true);
    } else {
      recording_ = executor.record([&] { pass(true); });
      recorded_ = bound;
    }
  }
  caches_.advance(1);
}

void Generator::place_draws() {
  if (!draws_.present()) return;
  Tensor draws = Tensor::empty({caches_.batch()}, DType::f64);
  for (std::int64_t b = 0; b < caches_.batch(); ++b) {
    draws.as<double>()[b] = uniform(sampling_.seed, index_, static_cast<std::uint32_t>(b));
  }
  copy(context_, draws, draws_);
}

void Generator::choose(const ConstTensorView& logits) {
  const std::int64_t B = caches_.batch();
  ops::sample(context_, "next_token", logits.reshape({B, model_.config().vocabulary}), options_of(sampling_), draws_,
              last_.view().reshape({B}));
}

std::vector<std::int32_t> Generator::next() {
  place_draws();
  if (caches_.length() == 0 || caches_.length() == caches_.capacity()) {
    tape_.clear();
    read();
  } else {
    step();
  }
  const OnHost last(context_, last_);
  const std::vector<std::int32_t> chosen(last.as<std::int32_t>(), last.as<std::int32_t>() + caches_.batch());
  for (std::size_t b = 0; b < tokens_.size(); ++b) tokens_[b].push_back(chosen[b]);
  ++index_;
  return chosen;
}

}  // namespace polyhead::model
