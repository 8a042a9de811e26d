#include "exam/language.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "exam/reading.h"
#include "polyhead/error.h"
#include "text/marks.h"
#include "train/plan.h"
#include "train/words.h"

namespace polyhead::exam {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kEnough = 4096, kFew = 32;  // ordinary tokens

class Bytes final : public Language {
 public:
  Tokens tokens_of(const std::string& text) const override {
    Tokens tokens;
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  std::string token_text(std::int32_t token) const override { return std::string(1, static_cast<char>(token)); }
  Tokens separators() const override { return {'\n', ' ', '.', ','}; }
  Tokens ordinary() const override {
    Tokens letters;
    for (std::int32_t letter = 'a'; letter <= 'z'; ++letter) letters.push_back(letter);
    return letters;
  }
  Tokens beginning() const override { return {}; }
  std::vector<Suggestion> examples() const override {
    return {{"Repetition", "It was the best of times, it was the worst of times.",
             "The second half says much of the first again. Induction heads look at what came next the first time."},
            {"Letters", "abcdefgabcdefgabcdefg",
             "The same letters, three times. Heads that look back find each of them a fixed number of places before."},
            {"A list", "1. bread\n2. milk\n3. eggs\n",
             "Every line begins in the same way. Heads that look at marks and numbers look from line to line."}};
  }
  std::string hint() const override { return "Any text: this model reads it byte by byte."; }
};

class TaskWords final : public Language {
 public:
  explicit TaskWords(std::unique_ptr<train::Task> task) : task_(std::move(task)), words_(*task_) {}

  Tokens tokens_of(const std::string& text) const override {
    return words_.tokens_of(text, [](const std::string& what) { throw Error(ErrorCode::input, "text", what); });
  }
  std::string token_text(std::int32_t token) const override { return task_->token_text(token); }
  Tokens separators() const override { return task_->special_tokens(); }
  Tokens ordinary() const override {
    const Tokens marks = separators();
    Tokens rest;
    for (std::int32_t token = 0; token < task_->vocabulary(); ++token) {
      if (std::find(marks.begin(), marks.end(), token) == marks.end()) rest.push_back(token);
    }
    return rest;
  }
  Tokens beginning() const override {
    const Tokens marks = separators(), drawn = task_->sequence(train::Split::validation, 1, 0).tokens;
    const bool marked = std::find(marks.begin(), marks.end(), drawn[0]) != marks.end();
    return marked ? Tokens{drawn[0]} : Tokens{};
  }
  std::vector<Suggestion> examples() const override {
    std::vector<Suggestion> some;
    for (std::int64_t n = 0; n < 3; ++n) {
      std::string text;
      for (const std::int32_t token : task_->sequence(train::Split::validation, 1, n).tokens) {
        text += (text.empty() ? "" : " ") + task_->token_text(token);
      }
      some.push_back({"Sequence " + std::to_string(n + 1), text,
                      "A sequence of the task " + task_->name() +
                          " that the model was not trained on. Compare its map with those of the other two: what stays "
                          "is what the head does."});
    }
    return some;
  }
  std::string hint() const override {
    constexpr std::size_t kMost = 40;
    std::string text = "Words of the task " + task_->name() + ", a space between them:";
    for (std::size_t n = 0; n < std::min(kMost, words_.all().size()); ++n) text += " " + words_.all()[n];
    return text + (words_.all().size() > kMost ? " …" : "");
  }

 private:
  std::unique_ptr<train::Task> task_;
  train::Words words_;
};

// Words of letters only, with or without a blank before them.
bool is_word(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return first != text.npos && text.size() - first > 2 &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(first), text.end(), letter);
}

class Tokenized final : public Language {
 public:
  Tokenized(const std::filesystem::path& model, const model::Config& config)
      : tokenizer_(text::load_tokenizer(model)), encoder_(config.kind == model::Kind::encoder) {
    text::expect_fits(tokenizer_, config.vocabulary, model);
  }

  Tokens tokens_of(const std::string& text) const override {
    Tokens tokens = beginning();
    for (const text::Token& token : tokenizer_.encode(text, false)) tokens.push_back(token.id);
    if (encoder_) tokens.insert(tokens.end(), tokenizer_.ending().begin(), tokenizer_.ending().end());
    return tokens;
  }
  std::string token_text(std::int32_t token) const override { return text::shown_alone(tokenizer_, token); }
  Tokens separators() const override { return text::marks_of(tokenizer_); }
  Tokens special() const override { return text::special_of(tokenizer_); }
  // The first tokens of a vocabulary are the commonest. In another alphabet few are such words: then any token will do.
  Tokens ordinary() const override {
    Tokens words;
    for (text::Id id = 0; id < tokenizer_.size() && words.size() < kEnough; ++id) {
      if (is_word(tokenizer_.decode(std::array{id}))) words.push_back(id);
    }
    if (words.size() >= kFew) return words;
    words.resize(static_cast<std::size_t>(tokenizer_.size()));
    std::iota(words.begin(), words.end(), 0);
    return words;
  }
  Tokens beginning() const override { return tokenizer_.beginning(); }
  std::vector<Suggestion> examples() const override {
    const Suggestion repetition{
        "Repetition", "The animal didn't cross the road because it was too tired. The animal didn't cross the road",
        "The sentence begins again. Induction heads look from each word to the one that followed it the first time."};
    if (encoder_) {
      return {repetition,
              {"One word, twice", "He sat on the bank of the river before he went to the bank to get money.",
               "The same word, with two meanings. Compare where its two rows look: at the river, or at the money."},
              {"Who is it?", "The trophy didn't fit into the suitcase because it was too big.",
               "A reader knows that it is the trophy. See which heads look from “it” to what it stands for."}};
    }
    return {
        repetition,
        {"Mary and John", "When Mary and John went to the store, John gave a drink to",
         "The drink goes to the one who is named once. Duplicate heads see that John comes again, and the model may "
         "expect Mary."},
        {"A list", "Paris is the capital of France. Rome is the capital of Italy. Madrid is the capital of",
         "Three sentences of one form. Look at the last “of”: heads look at the country that stood there before."}};
  }
  std::string hint() const override { return "Any text."; }
  const text::Tokenizer* tokenizer() const override { return &tokenizer_; }

 private:
  text::Tokenizer tokenizer_;
  bool encoder_;
};

}  // namespace

std::unique_ptr<Language> language_of(const std::filesystem::path& model, const model::Config& config) {
  if (reads_text(model)) return std::make_unique<Tokenized>(model, config);
  const train::Plan plan = train::load_plan(model);
  if (plan.task.name == "text") return std::make_unique<Bytes>();
  std::unique_ptr<train::Task> task = train::make_task(plan.task);
  if (task->vocabulary() != config.vocabulary) {
    throw Error(ErrorCode::input, "language",
                model.string() + ": expected the " + std::to_string(task->vocabulary()) + " tokens of the task " +
                    task->name() + ", found a model of " + std::to_string(config.vocabulary));
  }
  return std::make_unique<TaskWords>(std::move(task));
}

}  // namespace polyhead::exam
