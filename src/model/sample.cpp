#include "model/sample.h"

#include <algorithm>
#include <cmath>

#include "core/on_host.h"
#include "core/philox.h"
#include "polyhead/error.h"

namespace polyhead::model {
namespace {

constexpr std::uint32_t kDomain = 0x73616d70u;  // apart from weights and dropout, which may have the same seed

// In [0,1), with 53 bits.
double uniform(std::uint64_t seed, std::uint64_t index) {
  const Philox::Words words =
      Philox::words(seed, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, kDomain});
  return static_cast<double>((std::uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

// Draws from softmax(logits / temperature).
std::int32_t draw(std::span<const float> logits, double temperature, double at) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((static_cast<double>(logit) - most) / temperature);
    sums.push_back(sum);
  }
  const auto found = std::upper_bound(sums.begin(), sums.end(), at * sum);
  return static_cast<std::int32_t>(std::min<std::ptrdiff_t>(found - sums.begin(), std::ssize(sums) - 1));
}

}  // namespace

std::int32_t next_token(Context& context, const Transformer& model, std::span<const std::int32_t> tokens,
                        const Sampling& sampling, std::uint64_t index) {
  if (model.config().kind != Kind::gpt || tokens.empty()) {
    throw Error(ErrorCode::value, "next_token", "expected a language model and at least one token to go on from");
  }
  const auto length = std::min(tokens.size(), static_cast<std::size_t>(model.config().context));
  const std::span<const std::int32_t> seen = tokens.last(length);
  autograd::Tape tape(context, false);
  const ConstTensorView input(seen.data(), {1, static_cast<std::int64_t>(length)});
  const ConstTensorView logits = tape.value(model.forward(tape, input));  // [1,T,V]
  const auto T = static_cast<std::int64_t>(length);
  const OnHost row(context, logits.slice(1, T - 1, T));
  const std::span<const float> last(row.as<float>(), static_cast<std::size_t>(model.config().vocabulary));
  if (std::any_of(last.begin(), last.end(), [](float logit) { return !std::isfinite(logit); })) {
    throw Error(ErrorCode::input, "next_token", "the model's logits are not finite: its weights are no good");
  }
  if (sampling.temperature <= 0)
    return static_cast<std::int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
  return draw(last, sampling.temperature, uniform(sampling.seed, index));
}

}  // namespace polyhead::model
