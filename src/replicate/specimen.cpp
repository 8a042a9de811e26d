#include "replicate/specimen.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/draws.h"
#include "core/numbers.h"
#include "ops/on_host.h"
#include "text/marks.h"

namespace polyhead::replicate {
namespace {

// The next token at every row; where `of` has slots, only at those whose induction key is known.
Examples examples_of(const heads::Probe& probe, bool known_only) {
  const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
  Examples made{Tensor::empty({B, T}, DType::i32), Tensor::empty({B, T}, DType::i32), Tensor()};
  std::copy_n(probe.tokens.as<std::int32_t>(), B * T, made.tokens.as<std::int32_t>());
  for (std::int64_t n = 0; n < B * T; ++n) {
    const bool last = n % T == T - 1;
    const bool known = probe.targets.as<std::int32_t>()[4 * n + heads::kInduction] >= 0;
    made.targets.as<std::int32_t>()[n] = last || (known_only && !known) ? -1 : probe.tokens.as<std::int32_t>()[n + 1];
  }
  return made;
}

std::vector<std::vector<std::int32_t>> rows_in(const std::vector<Examples>& examples) {
  std::vector<std::vector<std::int32_t>> rows;
  for (const Examples& some : examples) {
    const std::int64_t T = some.tokens.shape()[1];
    for (std::int64_t b = 0; b < some.tokens.shape()[0]; ++b) {
      const std::int32_t* row = some.tokens.as<std::int32_t>() + b * T;
      rows.emplace_back(row, row + T);
    }
  }
  return rows;
}

constexpr std::int64_t kRepeats = 128;  // tokens of a sequence that repeats

std::vector<double> every_second(const std::vector<double>& all, std::size_t first) {
  std::vector<double> some;
  for (std::size_t n = first; n < all.size(); n += 2) some.push_back(all[n]);
  return some;
}

}  // namespace

Effort effort_of(bool quick) {
  if (!quick) return {};
  return {
      .windows = 3, .sequences = 8, .heads = 24, .words = 48, .prompts = 60, .needles = 8, .longest = 512, .seeds = 1};
}

Specimen::Specimen(Context& context, std::string name, std::unique_ptr<model::Transformer> model,
                   text::Tokenizer tokenizer, const Effort& effort)
    : context_(context),
      name_(std::move(name)),
      model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      effort_(effort) {}

heads::Probes& Specimen::probes() {
  if (probes_) return *probes_;
  const heads::StandardProbe options{
      .windows = effort_.windows, .repeats = effort_.sequences, .repeat_lengths = {kRepeats}, .seed = 7};
  probes_ = heads::standard_probes(tokenizer_, config(), heads::standard_texts(), options);
  if (probes_->plain.empty()) {
    throw Error(ErrorCode::input, "replicate", name_ + ": its tokenizer reads none of the standard texts");
  }
  return *probes_;
}

const model::Transformer& Specimen::untrained() {
  if (!untrained_) {
    untrained_ = std::make_unique<model::Transformer>(config(), 1, model_->dtype(), model_->allocator(),
                                                      context_.threads(), model::Drawn::uniform);
  }
  return *untrained_;
}

heads::Survey Specimen::survey_of(const model::Transformer& model, const std::vector<heads::Probe>& some) {
  return heads::survey(context_, model, some);
}

const heads::Survey& Specimen::on_texts() {
  if (!on_texts_) on_texts_ = survey_of(*model_, probes().plain);
  return *on_texts_;
}
const heads::Survey& Specimen::on_repeats() {
  if (!on_repeats_) on_repeats_ = survey_of(*model_, probes().repeats);
  return *on_repeats_;
}
const heads::Survey& Specimen::untrained_on_texts() {
  if (!untrained_on_texts_) untrained_on_texts_ = survey_of(untrained(), probes().plain);
  return *untrained_on_texts_;
}
const heads::Survey& Specimen::untrained_on_repeats() {
  if (!untrained_on_repeats_) untrained_on_repeats_ = survey_of(untrained(), probes().repeats);
  return *untrained_on_repeats_;
}

const std::vector<Examples>& Specimen::texts() {
  if (!texts_) {
    texts_.emplace();
    for (const heads::Probe& probe : probes().plain) texts_->push_back(examples_of(probe, false));
  }
  return *texts_;
}
const std::vector<Examples>& Specimen::repeats() {
  if (!repeats_) {
    repeats_.emplace();
    for (const heads::Probe& probe : probes().repeats) repeats_->push_back(examples_of(probe, true));
  }
  return *repeats_;
}

const std::vector<HeadImportance>& Specimen::importance() {
  if (importance_) return *importance_;
  importance_ = heads::gradient_importance(context_, *model_, texts());
  constexpr std::uint32_t kDomain = 0x696d706fu;  // separate from other users of a seed
  std::vector<HeadId> some = model::all_heads(config());
  const std::int64_t count = std::min(effort_.heads, std::ssize(some));
  Draws(1, 0, 0, kDomain).shuffle(some, count);
  some.resize(static_cast<std::size_t>(count));
  heads::DamageOptions options{.means = false, .products = ops::Products::coarse};
  options.order = std::move(some);
  heads::add_damage(context_, *model_, texts(), options, *importance_);
  std::erase_if(*importance_, [](const HeadImportance& head) { return !heads::has_damage(head); });
  return *importance_;
}

std::vector<std::vector<std::int32_t>> Specimen::text_tokens() { return rows_in(texts()); }
std::vector<std::vector<std::int32_t>> Specimen::repeat_tokens() { return rows_in(repeats()); }

std::vector<double> Specimen::losses(const std::vector<Examples>& examples, const std::vector<HeadId>& without) {
  model::Gates gates(config());
  gates.shut(without);
  const model::SequenceScores scores = model::score(context_, *model_, examples, gates.get());
  scores.expect_finite(name_);
  return scores.losses;
}

Tensor Specimen::logits_at(const Tensor& tokens, const std::vector<Row>& rows, const std::vector<HeadId>& without) {
  constexpr std::int64_t kTokensAtOnce = 2048;
  const std::int64_t B = tokens.shape()[0], T = tokens.shape()[1], C = config().width, V = config().vocabulary;
  model::Gates gates(config());
  gates.shut(without);
  autograd::Tape tape(context_, false);
  tape.pack_weights();
  Tensor made = Tensor::empty({std::ssize(rows), V}, DType::f32);
  const std::int64_t batch = std::max<std::int64_t>(kTokensAtOnce / T, 1);
  for (std::int64_t first = 0; first < B; first += batch) {
    std::vector<std::size_t> here;
    for (std::size_t n = 0; n < rows.size(); ++n) {
      if (rows[n].b >= first && rows[n].b < first + batch) here.push_back(n);
    }
    if (here.empty()) continue;
    tape.clear();
    const model::PassOptions options{.gates = gates.get()};
    const ConstTensorView some = tokens.view().slice(0, first, std::min(first + batch, B));
    const OnHost last(context_, tape.value(model_->through(tape, model_->read(tape, some, options), 0,
                                                           config().layers.size(), options)));
    Tensor picked = Tensor::empty({std::ssize(here), C}, last.view().dtype());
    const std::size_t bytes = static_cast<std::size_t>(C) * size_of(last.view().dtype());
    for (std::size_t n = 0; n < here.size(); ++n) {
      const auto [b, t] = rows[here[n]];
      std::memcpy(static_cast<char*>(picked.view().data()) + n * bytes,
                  static_cast<const char*>(last.view().data()) + static_cast<std::size_t>((b - first) * T + t) * bytes,
                  bytes);
    }
    tape.clear();
    const OnHost logits(context_, tape.value(model_->answer(tape, tape.constant(picked), {})));
    for (std::size_t n = 0; n < here.size(); ++n) {
      std::copy_n(logits.as<float>() + static_cast<std::int64_t>(n) * V, V,
                  made.as<float>() + static_cast<std::int64_t>(here[n]) * V);
    }
  }
  return made;
}

std::vector<std::int32_t> Specimen::tokens_of(const std::string& text) const {
  std::vector<std::int32_t> tokens = tokenizer_.beginning();
  for (const text::Token& token : tokenizer_.encode(text, false)) tokens.push_back(token.id);
  return tokens;
}

std::optional<std::int32_t> Specimen::one_token(const std::string& word) const {
  const std::vector<text::Token> tokens = tokenizer_.encode(" " + word, false);
  if (tokens.size() != 1) return {};
  return tokens[0].id;
}

std::vector<double> by_sequence(const heads::HeadSurvey& head, Statistic value, Statistic count) {
  std::vector<double> all;
  for (const heads::SequenceSurvey& in : head.sequences) {
    const auto at = [&](Statistic which) { return static_cast<double>(in.sums[static_cast<std::size_t>(which)]); };
    if (at(count) > 0) all.push_back(at(value) / at(count));
  }
  return all;
}

std::vector<double> by_sequence(const heads::HeadSurvey& head, heads::Slot slot) {
  const auto at = [&](Statistic first) { return static_cast<Statistic>(static_cast<int>(first) + slot); };
  return by_sequence(head, at(Statistic::target_weight), at(Statistic::target_rows));
}

std::vector<double> chosen_on(const std::vector<double>& of_sequences) { return every_second(of_sequences, 0); }
std::vector<double> told_on(const std::vector<double>& of_sequences) { return every_second(of_sequences, 1); }

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

std::vector<HeadId> others_like(const std::vector<HeadId>& heads, const model::Config& config, std::uint64_t draw) {
  constexpr std::uint32_t kDomain = 0x6f746872u;  // separate from other users of a seed
  std::vector<HeadId> all = model::all_heads(config), found;
  Draws draws(draw, 0, 0, kDomain);
  draws.shuffle(all);
  for (const HeadId& head : heads) {
    const auto fits = std::find_if(all.begin(), all.end(), [&](const HeadId& other) {
      return other.layer == head.layer && std::find(heads.begin(), heads.end(), other) == heads.end() &&
             std::find(found.begin(), found.end(), other) == found.end();
    });
    if (fits != all.end()) found.push_back(*fits);
  }
  return found;
}

std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  for (std::size_t n = 0; n < a.size(); ++n) all.push_back(b[n] - a[n]);
  return all;
}

Tensor rows_of(const std::vector<std::vector<std::int32_t>>& sequences) {
  std::size_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.size());
  Tensor tokens = Tensor::zeros({std::ssize(sequences), static_cast<std::int64_t>(longest)}, DType::i32);
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    std::copy(sequences[b].begin(), sequences[b].end(), tokens.as<std::int32_t>() + b * longest);
  }
  return tokens;
}

}  // namespace polyhead::replicate
