#include "model/writing.h"

#include <algorithm>

#include "model/tokenizer_of.h"
#include "polyhead/error.h"
#include "text/speech.h"

namespace polyhead::model {

Writing::Writing(Context& context, Model model, const std::vector<std::vector<std::int32_t>>& prompts,
                 std::int64_t count, const Sampling& sampling, bool text)
    : model_(std::move(model)),
      generator_(context, model_.transformer(), prompts, sampling),
      stop_(sampling.stop),
      left_(count) {
  for (const std::string& stop : sampling.stop_texts) {
    if (stop.empty()) throw Error(ErrorCode::value, "generate", "stop_texts: expected texts, found an empty one");
    if (!text)
      throw Error(ErrorCode::value, "generate",
                  "stop_texts: expected none where tokens are asked for, found some; ask for text");
  }
  for (const std::vector<std::int32_t>& prompt : prompts) {
    Sequence& sequence =
        sequences_.emplace_back(Sequence{.ended = count <= 0, .stream = {}, .stops = text::Stops(sampling.stop_texts)});
    if (text) sequence.stream.emplace(model_.tokenizer().speech().tokenizer, prompt);
  }
}

bool Writing::done() const noexcept {
  return std::all_of(sequences_.begin(), sequences_.end(), [](const Sequence& sequence) { return sequence.ended; });
}

// The text of an addition; a sequence that ends says what has waited.
void Writing::say(Sequence& sequence, Addition& addition) const {
  if (!sequence.stream) return;
  std::string more = addition.token ? sequence.stream->add(*addition.token) : "";
  if (addition.last) more += sequence.stream->finish();
  addition.text = sequence.stops.add(more);
  addition.last = addition.last || sequence.stops.found();
  if (addition.last && !sequence.stops.found()) addition.text += sequence.stops.finish();
}

std::vector<Addition> Writing::next() {
  std::vector<Addition> additions;
  if (done()) return additions;
  const std::vector<std::int32_t> drawn = generator_.next();
  --left_;
  for (std::size_t n = 0; n < sequences_.size(); ++n) {
    if (sequences_[n].ended) continue;
    const bool stops = std::find(stop_.begin(), stop_.end(), drawn[n]) != stop_.end();
    Addition addition{.prompt = n, .token = {}, .text = {}, .last = stops || left_ == 0};
    if (!stops) addition.token = drawn[n];
    say(sequences_[n], addition);
    sequences_[n].ended = addition.last;
    additions.push_back(std::move(addition));
  }
  return additions;
}

void Writing::end(std::size_t prompt) {
  if (prompt < sequences_.size()) sequences_[prompt].ended = true;
}

}  // namespace polyhead::model

namespace polyhead {

Generation::Generation(Context& context, const Model& model, const std::vector<std::vector<std::int32_t>>& prompts,
                       std::int64_t count, const Sampling& sampling, bool text)
    : writing_(std::make_unique<model::Writing>(context, model, prompts, count, sampling, text)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;
Generation::~Generation() = default;

bool Generation::done() const noexcept { return writing_->done(); }
std::vector<Addition> Generation::next() { return writing_->next(); }
void Generation::end(std::size_t prompt) { writing_->end(prompt); }

namespace {

std::vector<std::string> write_text(Context& context, const Model& model,
                                    const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t count,
                                    Sampling sampling, const OnAddition& on_addition) {
  for (const std::int32_t end : model.tokenizer().ends()) sampling.stop.push_back(end);
  Generation generation(context, model, prompts, count, sampling, true);
  std::vector<std::string> said(prompts.size());
  while (!generation.done()) {
    for (const Addition& addition : generation.next()) {
      said[addition.prompt] += addition.text;
      if (on_addition && !on_addition(addition)) generation.end(addition.prompt);
    }
  }
  return said;
}

}  // namespace

std::vector<std::string> Model::generate_text(Context& context, const std::vector<std::string>& prompts,
                                              std::int64_t count, const Sampling& sampling,
                                              const OnAddition& on_addition) const {
  std::vector<std::vector<std::int32_t>> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(tokens_of(prompt));
  return write_text(context, *this, tokens, count, sampling, on_addition);
}

std::string Model::answer(Context& context, const std::vector<Message>& messages, std::int64_t count,
                          const Sampling& sampling, const OnAddition& on_addition) const {
  std::vector<std::int32_t> tokens;
  for (const Token& token : tokenizer().encode(tokenizer().chat(messages), false)) tokens.push_back(token.id);
  return write_text(context, *this, {tokens}, count, sampling, on_addition)[0];
}

}  // namespace polyhead
