#include "polyhead/text.h"

#include "io/fetched.h"
#include "polyhead/error.h"
#include "text/marks.h"
#include "text/speech.h"
#include "text/stream.h"

namespace polyhead {
namespace {

// Where the tokens of a decoded text lie: those of a piece that came as one have all of its place.
std::string decode_piecewise(const text::Tokenizer& tokenizer, std::span<const std::int32_t> tokens, bool special,
                             std::vector<Token>& places) {
  std::string all;
  std::uint32_t chars = 0;
  std::size_t placed = 0;
  text::Stream stream(tokenizer, {}, special);
  const auto place = [&](const std::string& piece) {
    const auto begin = static_cast<std::uint32_t>(all.size());
    const auto count = static_cast<std::uint32_t>(text::chars_of(piece).size());
    all += piece;
    for (; placed < places.size(); ++placed) {
      places[placed] = {tokens[placed], begin, static_cast<std::uint32_t>(all.size()), chars, chars + count};
    }
    chars += count;
  };
  for (const std::int32_t token : tokens) {
    const std::string piece = stream.add(token);
    places.push_back({token, 0, 0, 0, 0});
    if (!piece.empty()) place(piece);
  }
  place(stream.finish());
  return all;
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& named) {
  const std::filesystem::path model = io::model_meant(named);
  if (model.empty()) throw Error(ErrorCode::input, "load", io::nothing_at(named));
  return Tokenizer(std::make_shared<const text::Speech>(text::load_speech(model)));
}

std::int64_t Tokenizer::size() const noexcept { return speech_->tokenizer.size(); }

std::vector<Token> Tokenizer::encode(std::string_view text, bool special) const {
  return speech_->tokenizer.encode(text, special);
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens, bool special, std::vector<Token>* places) const {
  if (places == nullptr) return speech_->tokenizer.decode(tokens, special);
  places->clear();
  return decode_piecewise(speech_->tokenizer, tokens, special, *places);
}

std::string Tokenizer::text_of(std::int32_t token) const { return text::shown_alone(speech_->tokenizer, token); }

std::string Tokenizer::chat(const std::vector<Message>& messages, bool answer) const {
  return text::recognise(speech_->chat)->apply(messages, answer);
}

std::vector<std::int32_t> Tokenizer::beginning() const { return speech_->tokenizer.beginning(); }
std::vector<std::int32_t> Tokenizer::ending() const { return speech_->tokenizer.ending(); }
std::vector<std::int32_t> Tokenizer::ends() const { return speech_->ends; }
std::vector<std::int32_t> Tokenizer::marks() const { return text::marks_of(speech_->tokenizer); }

std::vector<std::int32_t> Tokenizer::special() const {
  std::vector<std::int32_t> found;
  for (const text::AddedToken& token : speech_->tokenizer.added()) {
    if (token.special) found.push_back(token.id);
  }
  return found;
}

}  // namespace polyhead
