// Draws of tokens on the CPU, a row at a time.
#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cpu/kernels.h"
#include "kernels/bad_value.h"

namespace polyhead::cpu {
namespace {

using Token = std::int32_t;
using Weight = std::uint64_t;

class Row {
 public:
  Row(const float* logits, std::int64_t count, const kernels::SampleProblem& problem)
      : logits_(logits), count_(count), problem_(problem), largest_(*std::max_element(logits, logits + count)) {}

  Token likeliest() const { return static_cast<Token>(std::find(logits_, logits_ + count_, largest_) - logits_); }

  Token draw(double at) const {
    std::vector<Weight> weights(static_cast<std::size_t>(count_));
    std::transform(logits_, logits_ + count_, weights.begin(), [&](float logit) { return weight_of(logit); });
    const std::vector<Token> tokens = candidates(weights);
    Weight total = 0;
    for (const Token token : tokens) total += weights[static_cast<std::size_t>(token)];
    const auto end = static_cast<Weight>(at * static_cast<double>(total));
    Weight sum = 0;
    for (const Token token : tokens) {
      sum += weights[static_cast<std::size_t>(token)];
      if (sum > end) return token;
    }
    return tokens.back();
  }

 private:
  Weight weight_of(float logit) const {
    const double e = std::exp((static_cast<double>(logit) - static_cast<double>(largest_)) / problem_.temperature);
    return static_cast<Weight>(std::llrint(e * kernels::kWholeWeight));
  }

  // The tokens to draw from, by number.
  std::vector<Token> candidates(const std::vector<Weight>& weights) const {
    std::vector<Token> tokens(weights.size());
    std::iota(tokens.begin(), tokens.end(), 0);
    const bool some = problem_.top_k > 0 && problem_.top_k < count_;
    if (!some && problem_.top_p >= 1) return tokens;
    if (!some) {  // all that are lighter than this together have less than what top_p leaves
      const Weight total = std::accumulate(weights.begin(), weights.end(), Weight{0});
      const double light = static_cast<double>(total) * (1 - problem_.top_p) / static_cast<double>(count_);
      std::erase_if(tokens,
                    [&](Token token) { return static_cast<double>(weights[static_cast<std::size_t>(token)]) < light; });
      sort(tokens, tokens.end());
      cut(tokens, weights, kernels::share_of(total, problem_.top_p));
    } else {
      sort(tokens, tokens.begin() + problem_.top_k);
      tokens.resize(static_cast<std::size_t>(problem_.top_k));
      Weight total = 0;
      for (const Token token : tokens) total += weights[static_cast<std::size_t>(token)];
      if (problem_.top_p < 1) cut(tokens, weights, kernels::share_of(total, problem_.top_p));
    }
    std::sort(tokens.begin(), tokens.end());
    return tokens;
  }
  void sort(std::vector<Token>& tokens, std::vector<Token>::iterator end) const {
    std::partial_sort(tokens.begin(), end, tokens.end(),
                      [&](Token a, Token b) { return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b); });
  }
  // Keeps the first that together have `share`.
  static void cut(std::vector<Token>& tokens, const std::vector<Weight>& weights, Weight share) {
    Weight sum = 0;
    const auto last = std::find_if(tokens.begin(), tokens.end(), [&](Token token) {
      return (sum += weights[static_cast<std::size_t>(token)]) >= share;
    });
    if (last != tokens.end()) tokens.erase(last + 1, tokens.end());
  }

  const float* logits_;
  const std::int64_t count_;
  const kernels::SampleProblem& problem_;
  const float largest_;
};

}  // namespace

void sample(Team&, std::string_view op, const kernels::SampleProblem& problem) {
  const ConstTensorView& logits = problem.logits;
  const std::int64_t V = logits.shape(1);
  for (std::int64_t b = 0; b < logits.shape(0); ++b) {
    const float* const numbers = data_of<float>(logits) + b * logits.stride(0);
    if (std::any_of(numbers, numbers + V, [](float logit) { return !std::isfinite(logit); })) {
      throw kernels::error_of(op, {.kind = kernels::BadValue::Kind::logits});
    }
    const Row row(numbers, V, problem);
    data_of<Token>(problem.tokens)[b] =
        problem.temperature > 0 ? row.draw(data_of<double>(problem.draws)[b]) : row.likeliest();
  }
}

}  // namespace polyhead::cpu
