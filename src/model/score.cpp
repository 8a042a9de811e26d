#include "model/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/on_host.h"
#include "ops/cross_entropy.h"

namespace polyhead::model {

double SequenceScores::mean_loss() const {
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(losses.size(), 1));
}
double SequenceScores::accuracy() const {
  const auto hits = std::accumulate(right.begin(), right.end(), std::int64_t{0});
  const auto all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return static_cast<double>(hits) / static_cast<double>(std::max<std::int64_t>(all, 1));
}

void SequenceScores::expect_finite(const std::string& what) const {
  const auto bad = std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
  if (bad == losses.end()) return;
  throw Error(ErrorCode::value, "score",
              what + ": the loss of sequence " + std::to_string(bad - losses.begin()) +
                  " is not finite: its weights are numbers, but what it computes with them overflows");
}

namespace {

// logits [B,(T,)V] against targets [B(,T)].
void add_sequences(const ConstTensorView& logits, const ConstTensorView& targets, const float* losses,
                   SequenceScores& to) {
  const std::int64_t V = logits.shape(logits.rank() - 1), batch = targets.shape(0), rows = targets.count() / batch;
  const float* row = logits.as<float>();
  const std::int32_t* target = targets.as<std::int32_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    double loss = 0, logit = 0;
    std::int64_t right = 0, count = 0;
    for (std::int64_t t = 0; t < rows; ++t, row += V, ++target, ++losses) {
      if (*target < 0) continue;
      ++count;
      loss += static_cast<double>(*losses);
      logit += static_cast<double>(row[*target]) - std::accumulate(row, row + V, 0.0) / static_cast<double>(V);
      if (std::isfinite(*losses) && std::max_element(row, row + V) - row == *target) ++right;  // NaN is never right
    }
    to.losses.push_back(count == 0 ? 0 : loss / static_cast<double>(count));
    to.logits.push_back(count == 0 ? 0 : logit / static_cast<double>(count));
    to.right.push_back(right);
    to.counts.push_back(count);
  }
}

}  // namespace

SequenceScores score(Context& context, const Transformer& model, const std::vector<Examples>& examples,
                     std::vector<Tensor>* gates, std::vector<Tensor>* shifts) {
  if (model.config().kind == Kind::encoder) {
    throw Error(ErrorCode::value, "score",
                "expected a language model or a classifier, found an encoder: it has no answers");
  }
  SequenceScores scores;
  autograd::Tape tape(context, false);
  for (const Examples& some : examples) {
    tape.clear();
    const autograd::Variable logits =
        model.forward(tape, some.tokens, {.lengths = some.lengths, .gates = gates, .shifts = shifts});
    const TensorView losses = tape.take(some.targets.shape(), DType::f32);
    const TensorView shares = tape.take(some.targets.shape(), DType::f32);
    ops::cross_entropy(context, tape.value(logits), tape.here(some.targets), ops::Share::sequences, losses, shares);
    add_sequences(OnHost(context, tape.value(logits)).view(), some.targets, OnHost(context, losses).as<float>(),
                  scores);
  }
  return scores;
}

std::vector<std::vector<double>> embeddings(Context& context, const Transformer& model,
                                            const std::vector<Examples>& examples, std::vector<Tensor>* gates,
                                            std::vector<Tensor>* shifts) {
  std::vector<std::vector<double>> all;
  autograd::Tape tape(context, false);
  for (const Examples& some : examples) {
    tape.clear();
    const PassOptions options{.lengths = some.lengths, .gates = gates, .shifts = shifts};
    const autograd::Variable pooled = pool(tape, model.forward(tape, some.tokens, options), tape.here(some.lengths));
    const OnHost rows(context, tape.value(pooled));  // [B,C]
    const std::int64_t C = model.config().width;
    for (std::int64_t b = 0; b < rows.view().shape(0); ++b) {
      all.emplace_back(rows.as<float>() + b * C, rows.as<float>() + (b + 1) * C);
    }
  }
  return all;
}

}  // namespace polyhead::model
