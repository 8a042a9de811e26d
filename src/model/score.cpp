#include "model/score.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/check.h"
#include "ops/cross_entropy.h"
#include "ops/on_host.h"

namespace polyhead::model {

double SequenceScores::mean_loss() const {
  double sum = 0;
  std::int64_t all = 0;
  for (std::size_t n = 0; n < losses.size(); ++n) {
    sum += losses[n] * static_cast<double>(counts[n]);
    all += counts[n];
  }
  return sum / static_cast<double>(std::max<std::int64_t>(all, 1));
}
double SequenceScores::accuracy() const {
  const auto hits = std::accumulate(right.begin(), right.end(), std::int64_t{0});
  const auto all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return static_cast<double>(hits) / static_cast<double>(std::max<std::int64_t>(all, 1));
}

void expect_finite(std::span<const double> numbers, const std::string& what) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(), [](double number) { return !std::isfinite(number); });
  if (bad == numbers.end()) return;
  throw Error(ErrorCode::value, "score",
              what + " " + std::to_string(bad - numbers.begin()) +
                  " is not finite: the weights are finite, but the computation overflows");
}

void SequenceScores::expect_finite(const std::string& what) const {
  model::expect_finite(losses, what + ": the loss of sequence");
  model::expect_finite(logits, what + ": the logit of what is right in sequence");
}

void SequenceScores::add(const SequenceScores& more, std::size_t begin, std::size_t end) {
  const auto append = [&](auto& to, const auto& from) {
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
              from.begin() + static_cast<std::ptrdiff_t>(end));
  };
  append(losses, more.losses);
  append(logits, more.logits);
  append(right, more.right);
  append(counts, more.counts);
}

// Four columns, of as many numbers of eight bytes each.
std::string SequenceScores::packed() const {
  std::string bytes;
  const auto append = [&](const auto& column) {
    bytes.append(reinterpret_cast<const char*>(column.data()), column.size() * sizeof column[0]);
  };
  append(losses);
  append(logits);
  append(right);
  append(counts);
  return bytes;
}

SequenceScores SequenceScores::unpacked(const std::string& bytes) {
  SequenceScores scores;
  const std::size_t each = bytes.size() / 4;
  std::size_t at = 0;
  const auto take = [&](auto& column) {
    column.resize(each / sizeof column[0]);
    std::memcpy(column.data(), bytes.data() + at, each);
    at += each;
  };
  take(scores.losses);
  take(scores.logits);
  take(scores.right);
  take(scores.counts);
  return scores;
}

namespace {

// How many logits are made at a time.
constexpr std::int64_t kLogits = 1 << 24;

struct RowScore {
  double loss, logit;
  bool right;  // NaN never is
};

// rows[n] belongs to element n of targets [B(,T)].
void add_sequences(const std::vector<RowScore>& rows, const Tensor& targets, SequenceScores& to) {
  const std::int64_t batch = targets.shape()[0], T = std::ssize(rows) / std::max<std::int64_t>(batch, 1);
  const auto* target = targets.as<std::int32_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    double loss = 0, logit = 0;
    std::int64_t right = 0, count = 0;
    for (std::int64_t n = b * T; n < (b + 1) * T; ++n) {
      const RowScore& row = rows[static_cast<std::size_t>(n)];
      count += target[n] >= 0;
      loss += row.loss;
      logit += row.logit;
      right += row.right;
    }
    to.losses.push_back(count == 0 ? 0 : loss / static_cast<double>(count));
    to.logits.push_back(count == 0 ? 0 : logit / static_cast<double>(count));
    to.right.push_back(right);
    to.counts.push_back(count);
  }
}

// Rows [begin, end) of all.
void score_rows(autograd::Tape& tape, autograd::Variable logits, const Tensor& targets, std::int64_t begin,
                std::int64_t end, std::vector<RowScore>& to) {
  Context& context = tape.context();
  const ConstTensorView all = tape.value(logits);
  const std::int64_t V = all.shape(all.rank() - 1);
  const ConstTensorView wanted = targets.view().reshape({targets.view().count()}).slice(0, begin, end);
  const TensorView losses = tape.take({end - begin}, DType::f32), shares = tape.take({end - begin}, DType::f32),
                   totals = tape.take({2}, DType::f64), target_scores = tape.take({end - begin, 2}, DType::f32);
  ops::cross_entropy(context, all.reshape({end - begin, V}), tape.here(wanted), ops::Share::all, losses, shares, totals,
                     {}, target_scores);
  const OnHost lost(context, losses), seen(context, target_scores);
  for (std::int64_t n = 0; n < end - begin; ++n) {
    const float loss = lost.as<float>()[n], *scores = seen.as<float>() + 2 * n;
    to.push_back({static_cast<double>(loss), static_cast<double>(scores[0]), std::isfinite(loss) && scores[1] > 0});
  }
}

}  // namespace

void add_scores(autograd::Tape& tape, autograd::Variable logits, const Examples& examples, SequenceScores& to) {
  std::vector<RowScore> rows;
  score_rows(tape, logits, examples.targets, 0, examples.targets.view().count(), rows);
  add_sequences(rows, examples.targets, to);
}

void add_scores(autograd::Tape& tape, const Transformer& model, autograd::Variable x, const Examples& examples,
                SequenceScores& to) {
  const PassOptions options{.lengths = examples.lengths};
  if (model.config().kind == Kind::classifier) return add_scores(tape, model.answer(tape, x, options), examples, to);
  const std::int64_t count = examples.targets.view().count(), C = model.config().width;
  const std::int64_t step = std::max<std::int64_t>(kLogits / model.config().outputs(), 1);
  const ConstTensorView all = tape.value(x).reshape({count, C});
  const autograd::Pool::Mark before = tape.mark();
  std::vector<RowScore> rows;
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t end = std::min(begin + step, count);
    const autograd::Variable logits = model.answer(tape, tape.constant(all.slice(0, begin, end)), options);
    score_rows(tape, logits, examples.targets, begin, end, rows);
    tape.recycle(before, x);
  }
  add_sequences(rows, examples.targets, to);
}

void expect_examples(std::string_view op, const Config& config, const std::vector<Examples>& examples) {
  if (config.kind == Kind::encoder) {
    throw Error(ErrorCode::value, op,
                "expected a language model or a classifier, found an encoder, which has no answers to score");
  }
  const ops::Op on_host{op, Device{}};
  for (const Examples& some : examples) {
    const ops::Argument tokens{on_host, "tokens", some.tokens};
    if (some.tokens.view().rank() != 2) tokens.refuse(ErrorCode::shape, "[B,T]");
    const Dims each{some.tokens.shape()[0]};
    tokens.expect_input(some.tokens.shape(), DType::i32);
    const bool classes = config.kind == Kind::classifier;
    const Dims expected = classes ? each : some.tokens.shape();
    if (some.targets.shape() != expected || some.targets.dtype() != DType::i32) {
      ops::Argument{on_host, "targets", some.targets}.refuse(
          ErrorCode::shape, "i32 " + to_string(expected),
          classes ? "a classifier takes the class of each sequence"
                  : "a language model takes the token that comes next at every place, -1 where none counts");
    }
    if (some.lengths.present()) ops::Argument{on_host, "lengths", some.lengths}.expect_input(each, DType::i32);
  }
}

SequenceScores score(Context& context, const Transformer& model, const std::vector<Examples>& examples,
                     std::vector<Tensor>* gates, std::vector<Tensor>* shifts) {
  expect_examples("score", model.config(), examples);
  SequenceScores scores;
  autograd::Tape tape(context, false);
  for (const Examples& some : examples) {
    tape.clear();
    const PassOptions options{.lengths = some.lengths, .gates = gates, .shifts = shifts};
    const autograd::Variable x =
        model.through(tape, model.read(tape, some.tokens, options), 0, model.config().layers.size(), options);
    add_scores(tape, model, x, some, scores);
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
    const autograd::Variable x =
        model.through(tape, model.read(tape, some.tokens, options), 0, model.config().layers.size(), options);
    add_embeddings(tape, model, x, some.lengths, all);
  }
  return all;
}

void add_embeddings(autograd::Tape& tape, const Transformer& model, autograd::Variable x,
                    const ConstTensorView& lengths, std::vector<std::vector<double>>& to) {
  const autograd::Variable pooled = pool(tape, model.answer(tape, x, {}), tape.here(lengths));
  const OnHost rows(tape.context(), tape.value(pooled));  // [B,C]
  const std::int64_t C = model.config().width;
  for (std::int64_t b = 0; b < rows.view().shape(0); ++b) {
    to.emplace_back(rows.as<float>() + b * C, rows.as<float>() + (b + 1) * C);
  }
}

}  // namespace polyhead::model
