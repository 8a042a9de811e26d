#include "polyhead/model.h"

#include <algorithm>
#include <span>

#include "core/numbers.h"
#include "io/fetched.h"
#include "model/checkpoint.h"
#include "model/head.h"
#include "model/rows.h"
#include "model/sample.h"
#include "model/score.h"
#include "model/tokenizer_of.h"
#include "text/speech.h"

namespace polyhead {
namespace {

constexpr std::int64_t kBatchTokens = 4096;  // of texts that are read together
constexpr std::size_t kBatchTexts = 32;

// Texts that are cut into rows of up to `length` tokens; 0: of the context.
model::Rows rows_of(const Model& model, const std::vector<std::string>& texts, std::int64_t length) {
  const text::Tokenizer& read = model.tokenizer().speech().tokenizer;
  model::Rows rows(read.beginning(), model.is_encoder() ? read.ending() : std::vector<std::int32_t>{},
                   length == 0 ? model.context_length() : std::min(length, model.context_length()));
  for (const std::string& text : texts) {
    std::vector<std::int32_t> tokens;
    for (const Token& token : read.encode(text, false)) tokens.push_back(token.id);
    rows.add(tokens);
  }
  return rows;
}

// Texts that each fill one row.
Examples whole_texts(const Model& model, std::span<const std::string> texts) {
  model::Rows rows({}, {}, model.context_length());
  for (std::size_t n = 0; n < texts.size(); ++n) {
    const std::vector<std::int32_t> tokens = model.tokens_of(texts[n]);
    if (tokens.empty() || std::ssize(tokens) > model.context_length()) {
      throw Error(ErrorCode::value, "model",
                  "texts: expected 1 to " + std::to_string(model.context_length()) +
                      " tokens, as many as the model's context holds, found " + std::to_string(tokens.size()) +
                      " in text " + std::to_string(n));
    }
    rows.add(tokens);
  }
  if (rows.size() == 0) throw Error(ErrorCode::value, "model", "texts: expected at least one, found none");
  return rows.padded();
}

}  // namespace

Model Model::load(const std::filesystem::path& named, const Context& context) {
  const std::filesystem::path folder = io::model_meant(named);
  if (folder.empty()) throw Error(ErrorCode::input, "load", io::nothing_at(named));
  Model loaded(model::load(folder, context));
  loaded.tokenizer_ = std::make_shared<model::TokenizerOf>(std::filesystem::absolute(folder), loaded.vocabulary());
  return loaded;
}
void Model::save(const std::filesystem::path& folder) const {
  if (tokenizer_ != nullptr) tokenizer_->save(folder);
  model::save(*transformer_, folder);
}
Model Model::with(std::shared_ptr<const model::Transformer> transformer) const {
  Model made(std::move(transformer));
  made.tokenizer_ = tokenizer_;
  return made;
}

bool Model::is_classifier() const noexcept { return transformer_->config().kind == model::Kind::classifier; }
bool Model::is_encoder() const noexcept { return transformer_->config().kind == model::Kind::encoder; }
std::int64_t Model::vocabulary() const noexcept { return transformer_->config().vocabulary; }
std::int64_t Model::context_length() const noexcept { return transformer_->config().context; }
std::vector<HeadId> Model::heads() const { return model::all_heads(transformer_->config()); }
std::int64_t Model::parameter_count() const { return transformer_->parameter_count(); }

Tensor Model::forward(Context& context, const ConstTensorView& tokens, const ModelOptions& options) const {
  model::Gates gates(transformer_->config());
  gates.shut(options.knocked_out);
  autograd::Tape tape(context, false);
  return clone(context,
               tape.value(transformer_->forward(tape, tokens, {.lengths = options.lengths, .gates = gates.get()})));
}

Tensor Model::embed(Context& context, const ConstTensorView& tokens, const ModelOptions& options) const {
  if (!is_encoder()) {
    throw Error(ErrorCode::value, "embed",
                "expected an encoder (bert, roberta or distilbert), found another kind of model");
  }
  model::Gates gates(transformer_->config());
  gates.shut(options.knocked_out);
  autograd::Tape tape(context, false);
  const model::PassOptions pass{.lengths = options.lengths, .gates = gates.get()};
  const autograd::Variable x = transformer_->through(tape, transformer_->read(tape, tokens, pass), 0,
                                                     transformer_->config().layers.size(), pass);
  std::vector<std::vector<double>> rows;
  model::add_embeddings(tape, *transformer_, x, options.lengths, rows);
  Tensor made = Tensor::empty({std::ssize(rows), transformer_->config().width}, DType::f32);
  float* to = made.as<float>();
  for (const std::vector<double>& row : rows) {
    to = std::transform(row.begin(), row.end(), to, [](double x_) { return static_cast<float>(x_); });
  }
  return made;
}

std::vector<Tensor> Model::weights(Context& context, const ConstTensorView& tokens, const ModelOptions& options) const {
  model::Gates gates(transformer_->config());
  gates.shut(options.knocked_out);
  autograd::Tape tape(context, false);
  model::PassOptions pass{.lengths = options.lengths, .gates = gates.get()};
  pass.wants.attention.weights = true;
  transformer_->forward(tape, tokens, pass);
  const std::vector<model::LayerHeads>& layers = transformer_->config().layers;
  std::vector<Tensor> found(layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].heads == 0) continue;
    found[layer] = clone(context, transformer_->attention(tape, layer).forward.weights);
  }
  return found;
}

std::vector<std::vector<std::int32_t>> Model::generate(Context& context,
                                                       const std::vector<std::vector<std::int32_t>>& prompts,
                                                       std::int64_t count, const Sampling& sampling) const {
  Generation generation(context, *this, prompts, count, sampling);
  std::vector<std::vector<std::int32_t>> said(prompts.size());
  while (!generation.done()) {
    for (const Addition& addition : generation.next()) {
      if (addition.token) said[addition.prompt].push_back(*addition.token);
    }
  }
  return said;
}

const Tokenizer& Model::tokenizer() const {
  if (tokenizer_ != nullptr) return tokenizer_->get();
  throw Error(ErrorCode::input, "tokenizer",
              "expected a model that was loaded from files, found one without a tokenizer");
}

std::vector<std::int32_t> Model::tokens_of(std::string_view text) const {
  const text::Tokenizer& read = tokenizer().speech().tokenizer;
  std::vector<std::int32_t> tokens = read.beginning();
  for (const Token& token : read.encode(text, false)) tokens.push_back(token.id);
  if (is_encoder()) tokens.insert(tokens.end(), read.ending().begin(), read.ending().end());
  return tokens;
}

Tensor Model::forward(Context& context, const std::vector<std::string>& texts,
                      const std::vector<HeadId>& knocked_out) const {
  const Examples rows = whole_texts(*this, texts);
  return forward(context, rows.tokens, {.lengths = rows.lengths, .knocked_out = knocked_out});
}

Tensor Model::embed(Context& context, const std::vector<std::string>& texts,
                    const std::vector<HeadId>& knocked_out) const {
  Tensor made = Tensor::empty({std::ssize(texts), transformer_->config().width}, DType::f32);
  float* to = made.as<float>();
  for (std::size_t n = 0; n < std::max<std::size_t>(texts.size(), 1); n += kBatchTexts) {
    const Examples rows = whole_texts(*this, std::span(texts).subspan(n, std::min(kBatchTexts, texts.size() - n)));
    const Tensor some = embed(context, rows.tokens, {.lengths = rows.lengths, .knocked_out = knocked_out});
    to = std::copy_n(some.as<float>(), some.view().count(), to);
  }
  return made;
}

std::vector<Tensor> Model::weights(Context& context, const std::vector<std::string>& texts,
                                   const std::vector<HeadId>& knocked_out) const {
  const Examples rows = whole_texts(*this, texts);
  return weights(context, rows.tokens, {.lengths = rows.lengths, .knocked_out = knocked_out});
}

Examples Model::examples(const std::vector<std::string>& texts, std::int64_t length) const {
  return rows_of(*this, texts, length).padded();
}

std::vector<Examples> Model::batches(const std::vector<std::string>& texts, std::int64_t length) const {
  if (is_classifier()) {
    throw Error(ErrorCode::value, "model", "texts: expected Examples, since a classifier's answers are classes");
  }
  const model::Rows rows = rows_of(*this, texts, length);
  if (!is_encoder() && !rows.all_have_targets()) {
    throw Error(ErrorCode::value, "model",
                "texts: expected at least two tokens in each, one to predict another from, found fewer");
  }
  return rows.batches(kBatchTokens);
}

Score Model::score(Context& context, const std::vector<std::string>& texts,
                   const std::vector<HeadId>& knocked_out) const {
  return score(context, batches(texts), knocked_out);
}

Score Model::score(Context& context, const std::vector<Examples>& examples,
                   const std::vector<HeadId>& knocked_out) const {
  model::Gates gates(transformer_->config());
  gates.shut(knocked_out);
  const model::SequenceScores scores = model::score(context, *transformer_, examples, gates.get());
  return {scores.mean_loss(), scores.accuracy()};
}

}  // namespace polyhead
