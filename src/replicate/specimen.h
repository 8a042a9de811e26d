// A model at hand, and what several results need of it, made when the first asks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heads/importance.h"
#include "heads/standard_probe.h"
#include "heads/survey.h"
#include "model/score.h"
#include "text/tokenizer.h"

namespace polyhead::replicate {

// How much is measured; --quick takes less.
struct Effort {
  std::int64_t windows = 6;     // of each of the standard probe's texts
  std::int64_t sequences = 24;  // of random tokens that repeat
  std::int64_t heads = 90;      // that are taken out one at a time
  std::int64_t words = 96;      // that circuits are asked about
  std::int64_t prompts = 120;
  std::int64_t needles = 24;    // sentences hidden in long texts
  std::int64_t longest = 1024;  // tokens of those
  std::int64_t seeds = 3;       // of models that are trained here
};
Effort effort_of(bool quick);

class Specimen {
 public:
  Specimen(Context& context, std::string name, std::unique_ptr<model::Transformer> model, text::Tokenizer tokenizer,
           const Effort& effort);

  const std::string& name() const noexcept { return name_; }
  const model::Transformer& model() const noexcept { return *model_; }
  const model::Config& config() const noexcept { return model_->config(); }
  const text::Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  const Effort& effort() const noexcept { return effort_; }
  Context& context() const noexcept { return context_; }
  bool reads_on() const { return config().kind == model::Kind::gpt; }  // a language model

  // Windows of the standard texts, whose marked keys are the special tokens after the first if `special` and
  // separators otherwise; random tokens that repeat.
  const heads::Survey& on_texts();
  const heads::Survey& on_repeats();
  // Of a model of the same shape with fresh weights.
  const heads::Survey& untrained_on_texts();
  const heads::Survey& untrained_on_repeats();

  const std::vector<Examples>& texts();    // every next token is a target
  const std::vector<Examples>& repeats();  // those are that can be known from an earlier copy

  // The tokens of both, to compute what is said of them by other means.
  std::vector<std::vector<std::int32_t>> text_tokens(), repeat_tokens();

  // By gradient and damage on the texts: of as many heads as the effort has time for.
  const std::vector<HeadImportance>& importance();

  // The loss of every sequence without these heads.
  std::vector<double> losses(const std::vector<Examples>& examples, const std::vector<HeadId>& without);
  // Logits f32 [rows,V] after token t of sequence b, for every row (b, t) of i32 [B,T].
  struct Row {
    std::int64_t b, t;
  };
  Tensor logits_at(const Tensor& tokens, const std::vector<Row>& rows, const std::vector<HeadId>& without = {});

  // As a text is read: with the tokens in front.
  std::vector<std::int32_t> tokens_of(const std::string& text) const;
  // The token of " word", if it is one.
  std::optional<std::int32_t> one_token(const std::string& word) const;

 private:
  heads::Probes& probes();
  heads::Survey survey_of(const model::Transformer& model, const std::vector<heads::Probe>& some);
  const model::Transformer& untrained();

  Context& context_;
  std::string name_;
  std::unique_ptr<model::Transformer> model_, untrained_;
  text::Tokenizer tokenizer_;
  Effort effort_;
  std::optional<heads::Probes> probes_;
  std::optional<heads::Survey> on_texts_, on_repeats_, untrained_on_texts_, untrained_on_repeats_;
  std::optional<std::vector<Examples>> texts_, repeats_;
  std::optional<std::vector<HeadImportance>> importance_;
};

// One number of a head in every sequence: a mean over its rows.
std::vector<double> by_sequence(const heads::HeadSurvey& head, Statistic value, Statistic count);
// On the keys that a slot of the probe's targets names.
std::vector<double> by_sequence(const heads::HeadSurvey& head, heads::Slot slot);

// Even and odd sequences: heads are chosen on the first, and what is said of them was measured on the second.
std::vector<double> chosen_on(const std::vector<double>& of_sequences);
std::vector<double> told_on(const std::vector<double>& of_sequences);
double mean_of(const std::vector<double>& values);

// As many heads of the same layers that are not among them, as far as there are any; another draw by the number.
std::vector<HeadId> others_like(const std::vector<HeadId>& heads, const model::Config& config, std::uint64_t draw);

// b - a, one by one.
std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b);

// Tokens of different lengths as i32 [B,T], 0 behind the shorter ones, which tokens before do not see.
Tensor rows_of(const std::vector<std::vector<std::int32_t>>& sequences);

}  // namespace polyhead::replicate
