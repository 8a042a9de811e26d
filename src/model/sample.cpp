#include "model/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/on_host.h"
#include "core/philox.h"
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

// The tokens to draw from, the likeliest first if top_k or top_p limits them.
std::vector<std::int32_t> candidates(std::span<const float> logits, const Sampling& sampling) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const bool some = sampling.top_k > 0 && sampling.top_k < std::ssize(tokens);
  if (!some && sampling.top_p >= 1) return tokens;
  const auto end = some ? tokens.begin() + sampling.top_k : tokens.end();
  std::partial_sort(tokens.begin(), end, tokens.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  tokens.erase(end, tokens.end());
  return tokens;
}

std::int32_t draw(std::span<const float> logits, const Sampling& sampling, double at) {
  const std::vector<std::int32_t> tokens = candidates(logits, sampling);
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums;
  double sum = 0;
  for (const std::int32_t token : tokens) {
    sum += std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - most) / sampling.temperature);
    sums.push_back(sum);
  }
  if (sampling.top_p < 1) {  // up to the token that reaches the share
    const auto last = std::lower_bound(sums.begin(), sums.end() - 1, sampling.top_p * sum);
    sums.erase(last + 1, sums.end());
  }
  const auto found = std::upper_bound(sums.begin(), sums.end() - 1, at * sums.back());
  return tokens[static_cast<std::size_t>(found - sums.begin())];
}

std::int32_t choose(std::span<const float> logits, const Sampling& sampling, std::uint64_t index,
                    std::uint32_t stream) {
  if (std::any_of(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); })) {
    throw Error(ErrorCode::input, "next_token", "the model's logits are not finite: its weights are unusable");
  }
  if (sampling.temperature <= 0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  return draw(logits, sampling, uniform(sampling.seed, index, stream));
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
                "expected a language model, found one that does not say what comes next");
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
  const OnHost row(context, tape.value(model.forward(tape, input, {.last_only = true})));
  const std::span<const float> last(row.as<float>(), static_cast<std::size_t>(model.config().vocabulary));
  return choose(last, sampling, index, 0);
}

Generator::Generator(Context& context, const Transformer& model, std::vector<std::vector<std::int32_t>> prompts,
                     const Sampling& sampling)
    : context_(context),
      model_(model),
      tokens_(std::move(prompts)),
      sampling_(sampling),
      tape_(context, false),
      memory_(context, model, static_cast<std::int64_t>(tokens_.size()), model.config().context) {
  for (const std::vector<std::int32_t>& prompt : tokens_) expect_prompt(model, prompt, sampling);
  tape_.pack_weights();
}

void Generator::read() {
  const auto context = static_cast<std::size_t>(model_.config().context);
  std::size_t longest = 0;
  for (const auto& tokens : tokens_) longest = std::max(longest, std::min(tokens.size(), context));
  Tensor input = Tensor::zeros({memory_.batch(), static_cast<std::int64_t>(longest)}, DType::i32);
  std::vector<std::int32_t> padding;
  std::int32_t* row = input.as<std::int32_t>();
  for (const auto& tokens : tokens_) {
    const std::size_t length = std::min(tokens.size(), context);
    padding.push_back(static_cast<std::int32_t>(longest - length));
    row = std::copy(tokens.end() - static_cast<std::ptrdiff_t>(length), tokens.end(), row + padding.back());
  }
  memory_.clear(context_, padding);
  logits_ = tape_.value(model_.forward(tape_, input, {.memory = &memory_, .last_only = true}));
}

std::vector<std::int32_t> Generator::next() {
  tape_.clear();
  if (memory_.length() == 0 || memory_.length() == memory_.capacity()) {
    read();
  } else {
    Tensor input = Tensor::empty({memory_.batch(), 1}, DType::i32);
    std::transform(tokens_.begin(), tokens_.end(), input.as<std::int32_t>(), [](const auto& t) { return t.back(); });
    logits_ = tape_.value(model_.forward(tape_, input, {.memory = &memory_}));
  }
  const OnHost last(context_, logits_);
  const auto V = static_cast<std::size_t>(model_.config().vocabulary);
  std::vector<std::int32_t> chosen;
  for (std::size_t b = 0; b < tokens_.size(); ++b) {
    const float* row = last.as<float>() + static_cast<std::int64_t>(b) * last.view().stride(0);
    chosen.push_back(choose({row, V}, sampling_, index_, static_cast<std::uint32_t>(b)));
    tokens_[b].push_back(chosen.back());
  }
  ++index_;
  return chosen;
}

}  // namespace polyhead::model
