// Text to tokens and back, as a model's own tokenizer does it, and conversations in the form that the model has learnt.
//
//   Tokenizer tokenizer = Tokenizer::load("smollm2.gguf");
//   for (const Token& token : tokenizer.encode("It was the best of times")) ...   // token.id, and where it lies
//   std::string prompt = tokenizer.chat({{"user", "What is a head?"}});
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "polyhead/export.h"

namespace polyhead::text {
struct Speech;  // known to the library alone
}

namespace POLYHEAD_PUBLIC polyhead {

// A token and what it stands for in the text: bytes [begin, end), characters [first_char, last_char). A token that
// stands for part of a character has that character's place; one that is added around the text has the place 0 to 0.
struct Token {
  std::int32_t id;
  std::uint32_t begin, end;
  std::uint32_t first_char, last_char;
};

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// Its functions are const and may be called from several threads at once. Copies share what they know.
class Tokenizer {
 public:
  // From the folder or the GGUF file of a model, or one that `polyhead get` has fetched, by its name: its
  // tokenizer.json, tokenizer.gguf or GGUF metadata. Throws Error (input) that names what is missing, damaged or not
  // known.
  static Tokenizer load(const std::filesystem::path& model);

  std::int64_t size() const noexcept;  // the largest token plus one

  // Invalid UTF-8 reads as U+FFFD. `special`: with the tokens that the tokenizer puts around a text. Special tokens
  // written in the text are found either way. Throws Error (value) for a character or word that has no token.
  std::vector<Token> encode(std::string_view text, bool special = true) const;

  // Numbers without a token are left out, and so are special tokens unless `special` is set. `places` receives, for
  // each of the tokens, where it lies in the decoded text.
  std::string decode(std::span<const std::int32_t> tokens, bool special = false,
                     std::vector<Token>* places = nullptr) const;

  // One token by itself, blanks and all, special or not; one that is part of a character gives its bytes.
  std::string text_of(std::int32_t token) const;

  // A conversation in the form that the model has learnt, to be encoded without further special tokens; with `answer`,
  // up to where the model's answer begins. The form is recognised by the model's chat template: ChatML (Qwen, SmolLM2),
  // Llama 2 and 3, Mistral, Gemma, Zephyr, DeepSeek. Throws Error (input) if the model has no template or one of
  // another form, Error (value) for roles that the form does not have, or not in this order.
  std::string chat(const std::vector<Message>& messages, bool answer = true) const;

  std::vector<std::int32_t> beginning() const;  // the tokens before every text
  std::vector<std::int32_t> ending() const;     // and after it
  std::vector<std::int32_t> ends() const;       // those after which the model has nothing more to say
  std::vector<std::int32_t> special() const;    // those that decode leaves out
  std::vector<std::int32_t> marks() const;      // punctuation, and the end of a line

  // For the library's own rooms.
  explicit Tokenizer(std::shared_ptr<const text::Speech> speech) : speech_(std::move(speech)) {}
  const text::Speech& speech() const noexcept { return *speech_; }

 private:
  std::shared_ptr<const text::Speech> speech_;
};

}  // namespace polyhead
