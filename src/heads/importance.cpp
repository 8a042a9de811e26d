#include "heads/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "core/numbers.h"
#include "heads/intervals.h"
#include "heads/knockout.h"
#include "ops/on_host.h"

namespace polyhead::heads {
namespace {

// The 0.975 quantile of Student's t; from 3 degrees of freedom on by Cornish and Fisher's expansion, good to 1 %.
double student(std::int64_t freedom) {
  if (freedom <= 2) return freedom == 1 ? 12.706 : 4.303;
  constexpr double kNormal = 1.959964;
  const auto n = static_cast<double>(freedom);
  const double z = kNormal, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / 4 / n + (5 * z5 + 16 * z3 + 3 * z) / 96 / (n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384 / (n * n * n);
}

// Per layer [B,H]: 1, or 0 for heads that are gone. A gate per sequence gives a gradient per sequence.
std::vector<Tensor> gates_per_sequence(const model::Config& config, std::int64_t batch,
                                       const std::vector<HeadId>& gone) {
  std::vector<Tensor> gates;
  for (const model::LayerHeads& layer : config.layers) {
    gates.push_back(layer.heads == 0 ? Tensor() : Tensor::empty({batch, layer.heads}, DType::f32));
    if (layer.heads > 0) std::fill_n(gates.back().as<float>(), batch * layer.heads, 1.0f);
  }
  for (const HeadId& id : gone) {
    const std::int64_t H = config.layers[id.layer].heads;
    for (std::int64_t b = 0; b < batch; ++b) gates[id.layer].as<float>()[b * H + id.head] = 0;
  }
  return gates;
}

// Heads that are gone do not count in the norm: it is that of the model without them.
void normalise_by_layer(std::vector<HeadImportance>& heads, const std::vector<HeadId>& gone) {
  std::vector<double> squares;
  for (const HeadImportance& head : heads) {
    if (std::find(gone.begin(), gone.end(), head.id) != gone.end()) continue;
    squares.resize(std::max(squares.size(), head.id.layer + 1));
    squares[head.id.layer] += head.gradient * head.gradient;
  }
  for (HeadImportance& head : heads) {
    const double norm = head.id.layer < squares.size() ? std::sqrt(squares[head.id.layer]) : 0;
    head.normalised = norm > 0 ? head.gradient / norm : 0;
  }
}

std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), std::minus<>());
  return result;
}

std::string without_text(const HeadId& id) { return "the model without head " + to_string(id); }

void knock_out_all(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                   const DamageOptions& options, const std::function<void(const KnockedOut&)>& visit) {
  std::vector<Tensor> means;
  if (options.means) means = mean_outputs(context, model, examples);
  knock_out_each(context, model, examples,
                 {.means = options.means ? &means : nullptr,
                  .products = options.products,
                  .order = options.order,
                  .go_on = options.go_on,
                  .on_head = options.on_head},
                 visit, *options.ranks);
}

void leave_out(HeadImportance& head) {
  const double nan = std::nan("");
  head.zero = head.mean = head.logit = {nan, nan, nan};
  head.accuracy_loss = nan;
}

// Results that are each on one rank, now on all of them.
template <class Result, class Pack, class Unpack>
void exchange(Ranks& among, std::vector<Result>& results, const Pack& pack, const Unpack& unpack) {
  if (among.size() == 1) return;
  std::vector<std::string> texts;
  for (const Result& result : results) texts.push_back(std::invoke(pack, result));
  complete(among, texts);
  std::transform(texts.begin(), texts.end(), results.begin(), unpack);
}

std::string bytes_of(const std::vector<std::vector<double>>& rows) {
  std::string bytes;
  for (const std::vector<double>& row : rows) {
    bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof row[0]);
  }
  return bytes;
}

std::vector<std::vector<double>> rows_in(const std::string& bytes, std::int64_t columns) {
  const std::size_t each = static_cast<std::size_t>(columns) * sizeof(double);
  std::vector<std::vector<double>> rows(bytes.size() / each, std::vector<double>(static_cast<std::size_t>(columns)));
  for (std::size_t n = 0; n < rows.size(); ++n) std::memcpy(rows[n].data(), bytes.data() + n * each, each);
  return rows;
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t n = begin; n < end; ++n) result[order[n]] = 0.5 * static_cast<double>(begin + end - 1);
  }
  return result;
}

}  // namespace

Estimate estimate(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return {};
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() == 1) return {mean, mean, mean};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double half = student(static_cast<std::int64_t>(values.size()) - 1) * std::sqrt(squares / (n - 1) / n);
  return {mean, mean - half, mean + half};
}

std::vector<bool> damage_findings(const std::vector<HeadImportance>& heads, std::int64_t sequences) {
  std::vector<double> p;
  const std::int64_t freedom = std::max<std::int64_t>(sequences - 1, 1);
  for (const HeadImportance& head : heads) {
    p.push_back(student_p(head.zero.mean, (head.zero.high - head.zero.mean) / student(freedom), freedom));
  }
  return findings(p);
}

std::vector<HeadImportance> gradient_importance(Context& context, const model::Transformer& model,
                                                const std::vector<Examples>& examples, const std::vector<HeadId>& gone,
                                                const std::vector<Tensor>* means, model::SequenceScores* whole) {
  model::expect_examples("importance", model.config(), examples);
  std::vector<Tensor> shifts;
  if (means != nullptr) shifts = shifts_of(model, *means, gone);
  std::vector<HeadImportance> heads;
  for (const HeadId& id : model::all_heads(model.config())) heads.emplace_back().id = id;
  autograd::Tape tape(context);
  tape.freeze_parameters();
  std::int64_t sequences = 0;
  for (const Examples& some : examples) {
    const std::int64_t B = some.tokens.shape()[0];
    std::vector<Tensor> gates = gates_per_sequence(model.config(), B, gone);
    tape.clear();
    const autograd::Variable logits = model.forward(tape, some.tokens,
                                                    {.lengths = some.lengths,
                                                     .gates = &gates,
                                                     .gate_gradients = true,
                                                     .shifts = means == nullptr ? nullptr : &shifts});
    if (whole != nullptr) model::add_scores(tape, logits, some, *whole);
    autograd::cross_entropy(tape, logits, tape.here(some.targets), ops::Share::sequences);
    tape.backward();
    sequences += B;
    for (HeadImportance& head : heads) {
      const OnHost dgates(context, model.attention(tape, head.id.layer).gradients.dgates);
      const std::int64_t H = dgates.view().shape(1);
      for (std::int64_t b = 0; b < B; ++b) {
        head.gradient += std::abs(static_cast<double>(dgates.as<float>()[b * H + head.id.head]));
      }
    }
  }
  if (whole != nullptr) whole->expect_finite("the model");
  for (HeadImportance& head : heads) {
    head.gradient /= static_cast<double>(std::max<std::int64_t>(sequences, 1));
    if (std::isfinite(head.gradient)) continue;
    throw Error(ErrorCode::value, "importance",
                "head " + to_string(head.id) +
                    ": the gradient of its gate is not finite: the model overflows, and its heads cannot be ranked");
  }
  normalise_by_layer(heads, gone);
  return heads;
}

std::vector<HeadImportance> importance(Context& context, const model::Transformer& model,
                                       const std::vector<Examples>& examples, const DamageOptions& options,
                                       model::SequenceScores* whole) {
  std::vector<HeadImportance> heads = gradient_importance(context, model, examples, {}, nullptr, whole);
  add_damage(context, model, examples, options, heads);
  return heads;
}

void add_damage(Context& context, const model::Transformer& model, const std::vector<Examples>& examples,
                const DamageOptions& options, std::vector<HeadImportance>& heads) {
  const std::size_t kinds = options.means ? 2 : 1;
  std::vector<model::SequenceScores> all(kinds * heads.size() + 1);
  const auto add = [&](const KnockedOut& some) {
    model::SequenceScores scores;
    model::add_scores(some.tape, model, some.x, some.examples, scores);
    const std::size_t B = scores.losses.size() / some.numbers.size();
    for (std::size_t n = 0; n < some.numbers.size(); ++n) all[some.numbers[n]].add(scores, n * B, (n + 1) * B);
  };
  knock_out_all(context, model, examples, options, add);
  exchange(*options.ranks, all, &model::SequenceScores::packed, model::SequenceScores::unpacked);
  const model::SequenceScores& whole = all.back();
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const model::SequenceScores& without = all[kinds * n];
    if (without.losses.empty()) {
      leave_out(heads[n]);
      continue;
    }
    for (std::size_t kind = 0; kind < kinds; ++kind) all[kinds * n + kind].expect_finite(without_text(heads[n].id));
    heads[n].zero = estimate(differences(without.losses, whole.losses));
    if (options.means) heads[n].mean = estimate(differences(all[kinds * n + 1].losses, whole.losses));
    heads[n].logit = estimate(differences(whole.logits, without.logits));
    heads[n].accuracy_loss = whole.accuracy() - without.accuracy();
  }
}

std::vector<HeadImportance> embedding_importance(Context& context, const model::Transformer& model,
                                                 const std::vector<Examples>& examples, const DamageOptions& options) {
  std::vector<HeadImportance> heads;
  for (const HeadId& id : model::all_heads(model.config())) heads.emplace_back().id = id;
  const std::size_t kinds = options.means ? 2 : 1;
  std::vector<std::vector<std::vector<double>>> all(kinds * heads.size() + 1);
  const auto add = [&](const KnockedOut& some) {
    std::vector<std::vector<double>> found;
    model::add_embeddings(some.tape, model, some.x, some.examples.lengths, found);
    const std::size_t B = found.size() / some.numbers.size();
    for (std::size_t n = 0; n < found.size(); ++n) all[some.numbers[n / B]].push_back(std::move(found[n]));
  };
  knock_out_all(context, model, examples, options, add);
  const auto unpacked = [&](const std::string& bytes) { return rows_in(bytes, model.config().width); };
  exchange(*options.ranks, all, bytes_of, unpacked);
  for (std::size_t n = 0; n < heads.size(); ++n) {
    if (all[kinds * n].empty()) {
      leave_out(heads[n]);
      continue;
    }
    const std::string what = without_text(heads[n].id);
    heads[n].zero = estimate(cosine_distances(all.back(), all[kinds * n], what));
    if (options.means) heads[n].mean = estimate(cosine_distances(all.back(), all[kinds * n + 1], what));
  }
  return heads;
}

std::vector<double> cosine_distances(const std::vector<std::vector<double>>& a,
                                     const std::vector<std::vector<double>>& b, const std::string& what) {
  std::vector<double> result;
  for (std::size_t n = 0; n < a.size(); ++n) {
    const auto product = [](const auto& x, const auto& y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    };
    result.push_back(1 - product(a[n], b[n]) / std::sqrt(product(a[n], a[n]) * product(b[n], b[n])));
  }
  model::expect_finite(result, what + ": the cosine distance of the embedding of sequence");
  return result;
}

std::vector<Tensor> mean_outputs(Context& context, const model::Transformer& model,
                                 const std::vector<Examples>& examples) {
  const model::Config& config = model.config();
  std::vector<std::vector<double>> sums;
  for (const model::LayerHeads& layer : config.layers) {
    sums.emplace_back(static_cast<std::size_t>(layer.heads * config.head_dim));
  }
  std::int64_t rows = 0;
  autograd::Tape tape(context, false);
  for (const Examples& some : examples) {
    tape.clear();
    model::PassOptions options{.lengths = some.lengths};
    options.wants.heads = true;
    model.forward(tape, some.tokens, options);
    const std::int64_t B = some.tokens.shape()[0], T = some.tokens.shape()[1];
    const auto length_of = [&](std::int64_t b) {
      return some.lengths.present() ? some.lengths.as<std::int32_t>()[b] : T;
    };
    for (std::int64_t b = 0; b < B; ++b) rows += length_of(b);
    for (std::size_t layer = 0; layer < sums.size(); ++layer) {
      if (sums[layer].empty()) continue;
      const auto inner = static_cast<std::int64_t>(sums[layer].size());
      const Tensor all = widened(to_host(context, model.attention(tape, layer).forward.heads));
      for (std::int64_t b = 0; b < B; ++b) {
        const float* heads = all.as<float>() + b * T * inner;
        for (std::int64_t n = 0; n < length_of(b) * inner; ++n) {
          sums[layer][static_cast<std::size_t>(n % inner)] += static_cast<double>(heads[n]);
        }
      }
    }
  }
  std::vector<Tensor> means;
  for (const std::vector<double>& layer : sums) {
    means.push_back(Tensor::empty({static_cast<std::int64_t>(layer.size())}, DType::f32));
    std::transform(layer.begin(), layer.end(), means.back().as<float>(), [&](double sum) {
      return static_cast<float>(sum / static_cast<double>(std::max<std::int64_t>(rows, 1)));
    });
  }
  return means;
}

std::vector<Tensor> shifts_of(const model::Transformer& model, const std::vector<Tensor>& means,
                              const std::vector<HeadId>& heads) {
  const model::Config& config = model.config();
  std::vector<Tensor> shifts(config.layers.size());
  for (const HeadId& id : heads) {
    Tensor& shift = shifts[id.layer];
    if (!shift.present()) shift = Tensor::zeros({config.width}, DType::f32);
    const std::int64_t D = config.head_dim, inner = config.layers[id.layer].heads * D;
    const Tensor weights = widened(copied_to_host(model.attention_parameters(id.layer).out_proj_weight->value));
    const float* weight = weights.as<float>();
    const float* mean = means[id.layer].as<float>();
    for (std::int64_t c = 0; c < config.width; ++c) {
      for (std::int64_t n = id.head * D; n < (id.head + 1) * D; ++n)
        shift.as<float>()[c] += weight[c * inner + n] * mean[n];
    }
  }
  return shifts;
}

bool has_damage(const HeadImportance& head) { return !std::isnan(head.zero.mean); }

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto is_nan = [](double value) { return std::isnan(value); };
  if (std::any_of(a.begin(), a.end(), is_nan) || std::any_of(b.begin(), b.end(), is_nan)) return std::nan("");
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double middle = (static_cast<double>(a.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t n = 0; n < x.size(); ++n) {
    xy += (x[n] - middle) * (y[n] - middle);
    xx += (x[n] - middle) * (x[n] - middle);
    yy += (y[n] - middle) * (y[n] - middle);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace polyhead::heads
