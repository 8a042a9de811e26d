#include "polyhead/heads.h"

#include <algorithm>

#include "core/row_major.h"
#include "heads/importance.h"
#include "heads/kept_roles.h"
#include "heads/patching.h"
#include "heads/pruning.h"
#include "heads/roles.h"
#include "ops/on_host.h"
#include "text/marks.h"
#include "text/speech.h"

namespace polyhead {
namespace {

constexpr std::int64_t kBatch = 32;  // sequences of one pass

// The host reads these numbers to make probes, so they are checked here and not by a kernel.
void expect_numbers(const char* name, const ConstTensorView& numbers, const Dims& shape, std::int64_t least,
                    std::int64_t most) {
  if (numbers.dtype() != DType::i32 || numbers.shape() != shape || !is_row_major(numbers)) {
    throw Error(ErrorCode::shape, "survey_heads",
                std::string(name) + ": expected row-major i32 " + to_string(shape) + ", found " + describe(numbers));
  }
  const std::int32_t* first = numbers.as<std::int32_t>();
  const std::int32_t* bad =
      std::find_if(first, first + numbers.count(), [&](std::int32_t n) { return n < least || n > most; });
  if (bad != first + numbers.count()) {
    throw Error(ErrorCode::value, "survey_heads",
                std::string(name) + ": expected " + std::to_string(least) + " to " + std::to_string(most) + ", found " +
                    std::to_string(*bad));
  }
}

void expect_sequences(const Model& model, const ConstTensorView& tokens, const ConstTensorView& lengths) {
  if (tokens.rank() != 2 || tokens.shape(0) < 1 || tokens.shape(1) < 2 || tokens.shape(1) > model.context_length()) {
    throw Error(ErrorCode::shape, "survey_heads",
                "tokens: expected [B,T] with T from 2 to " + std::to_string(model.context_length()) + ", found " +
                    describe(tokens));
  }
  expect_numbers("tokens", tokens, tokens.shape(), 0, model.vocabulary() - 1);
  if (lengths.present()) expect_numbers("lengths", lengths, {tokens.shape(0)}, 1, tokens.shape(1));
}

void expect_examples(const char* op, const std::vector<Examples>& examples) {
  if (examples.empty()) throw Error(ErrorCode::value, op, "expected at least one batch of examples, found none");
}

// How often each token occurs.
std::vector<std::int64_t> count_tokens(const Model& model, const ConstTensorView& tokens,
                                       const ConstTensorView& lengths) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(model.vocabulary()));
  const std::int64_t B = tokens.shape(0), T = tokens.shape(1);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int32_t* row = tokens.as<std::int32_t>() + b * T;
    const std::int64_t length = lengths.present() ? lengths.as<std::int32_t>()[b] : T;
    for (std::int64_t t = 0; t < length; ++t) ++counts[static_cast<std::size_t>(row[t])];
  }
  return counts;
}

// The token that every sequence begins with, if there is one.
std::vector<std::int32_t> common_beginning(const ConstTensorView& tokens) {
  const std::int32_t* first = tokens.as<std::int32_t>();
  for (std::int64_t b = 1; b < tokens.shape(0); ++b) {
    if (first[b * tokens.shape(1)] != *first) return {};
  }
  return {*first};
}

// `tokenizer`: of a model that reads text, whose roles the standard probe finds; null: these sequences do.
std::vector<SurveyedHead> survey_on(Context& context, const Model& model, const ConstTensorView& tokens,
                                    const SurveyOptions& options, const std::vector<std::int32_t>& special,
                                    const text::Tokenizer* tokenizer) {
  const OnHost on_host(context, tokens), lengths_on_host(context, options.lengths);
  const ConstTensorView all = on_host.view(), lengths = lengths_on_host.view();
  expect_sequences(model, all, lengths);
  const std::int64_t B = all.shape(0);
  heads::Probes probes{{}, {}, count_tokens(model, all, lengths)};
  for (std::int64_t b = 0; b < B; b += kBatch) {
    const std::int64_t end = std::min(b + kBatch, B);
    probes.plain.push_back(heads::make_probe(all.slice(0, b, end),
                                             lengths.present() ? lengths.slice(0, b, end) : lengths, options.separators,
                                             options.seed + probes.plain.size(), special));
  }
  heads::SurveyedRoles found;
  if (tokenizer != nullptr) found.roles = heads::standard_roles(context, model.transformer(), *tokenizer);
  if (!found.roles.empty()) {
    found.plain = heads::survey(context, model.transformer(), probes.plain, probes.counts);
  } else {
    heads::add_repeats(
        probes, options.separators,
        {.beginning = common_beginning(all), .batch = kBatch, .length = all.shape(1), .seed = options.seed}, B);
    found = heads::survey_roles(context, model.transformer(), probes);
  }
  std::vector<SurveyedHead> heads;
  for (std::size_t n = 0; n < found.roles.size(); ++n) {
    const heads::RoleScore* role = found.roles[n].role();
    heads.push_back({found.roles[n].id, found.plain.heads[n].sums, role == nullptr ? "" : role->role,
                     role == nullptr ? 0 : role->score});
  }
  return heads;
}

// 'The' ' cat'
std::string in_pieces(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
  std::string pieces;
  for (const std::int32_t token : tokens) pieces += (pieces.empty() ? "'" : " '") + tokenizer.text_of(token) + "'";
  return pieces;
}

std::optional<std::int32_t> one_token(const Tokenizer& tokenizer, const std::optional<std::string>& text,
                                      const char* name) {
  if (!text) return std::nullopt;
  std::vector<std::int32_t> tokens;
  for (const Token& token : tokenizer.encode(*text, false)) tokens.push_back(token.id);
  if (tokens.size() == 1) return tokens[0];
  throw Error(ErrorCode::value, "patch_heads",
              std::string(name) + ": expected a text of one token, found " + std::to_string(tokens.size()) + " (" +
                  in_pieces(tokenizer, tokens) + "); a word within a text usually begins with a space");
}

}  // namespace

std::vector<SurveyedHead> survey_heads(Context& context, const Model& model, const ConstTensorView& tokens,
                                       const SurveyOptions& options) {
  return survey_on(context, model, tokens, options, {}, nullptr);
}

std::vector<SurveyedHead> survey_heads(Context& context, const Model& model, const std::vector<std::string>& texts,
                                       const SurveyOptions& options) {
  const text::Tokenizer& tokenizer = model.tokenizer().speech().tokenizer;
  SurveyOptions chosen = options;
  if (chosen.separators.empty()) chosen.separators = text::marks_of(tokenizer);
  const Examples rows = model.examples(texts);
  chosen.lengths = rows.lengths;
  return survey_on(context, model, rows.tokens, chosen, text::special_of(tokenizer), &tokenizer);
}

Patching patch_heads(Context& context, const Model& model, std::string_view clean, std::string_view corrupted,
                     const std::optional<std::string>& answer, const std::optional<std::string>& instead) {
  const std::vector<std::int32_t> from = model.tokens_of(clean), to = model.tokens_of(corrupted);
  if (from.size() != to.size()) {
    throw Error(ErrorCode::shape, "patch_heads",
                "corrupted: expected as many tokens as clean has, " + std::to_string(from.size()) + ", found " +
                    std::to_string(to.size()) + "\n  " + in_pieces(model.tokenizer(), from) + "\n  " +
                    in_pieces(model.tokenizer(), to));
  }
  return patch_heads(context, model, from, to, one_token(model.tokenizer(), answer, "answer"),
                     one_token(model.tokenizer(), instead, "instead"));
}

Patching patch_heads(Context& context, const Model& model, std::span<const std::int32_t> clean,
                     std::span<const std::int32_t> corrupted, std::optional<std::int32_t> answer,
                     std::optional<std::int32_t> instead) {
  heads::Question question{answer.value_or(0), instead.value_or(0)};
  if (!answer || !instead) {
    const heads::Likeliest likeliest = heads::likeliest_after(context, model.transformer(), clean, corrupted);
    question = {answer.value_or(likeliest.clean), instead.value_or(likeliest.corrupted)};
  }
  if (question.answer == question.instead) {
    throw Error(ErrorCode::value, "patch_heads",
                "expected two texts with different next tokens, found token " + std::to_string(question.answer) +
                    " after both; name what to compare, answer and instead");
  }
  return heads::patch(context, model.transformer(), clean, corrupted, question);
}

std::vector<HeadImportance> head_importance(Context& context, const Model& model,
                                            const std::vector<Examples>& examples) {
  expect_examples("head_importance", examples);
  return heads::importance(context, model.transformer(), examples);
}

std::vector<HeadId> PruneCurve::removed() const {
  std::vector<HeadId> heads;
  for (std::size_t n = 0; n < within_budget; ++n) heads.push_back(steps[n].removed);
  return heads;
}

PruneCurve prune(Context& context, const Model& model, const std::vector<Examples>& ranking,
                 const std::vector<Examples>& judging, double budget, PruneOrder order, std::uint64_t seed) {
  expect_examples("prune", ranking);
  expect_examples("prune", judging);
  if (!(budget >= 0)) {
    throw Error(ErrorCode::value, "prune", "budget: expected 0 or more, found " + std::to_string(budget));
  }
  return heads::prune(context, model.transformer(), ranking, judging, {.order = order, .seed = seed, .budget = budget});
}

Model without_heads(const Model& model, const std::vector<HeadId>& heads) {
  model::Gates(model.transformer().config()).shut(heads, "heads");  // refuses heads that the model does not have
  return model.with(heads::without_heads(model.transformer(), heads));
}

}  // namespace polyhead
