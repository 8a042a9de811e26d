// Pre-tokenizers: how a text is cut into the pieces that the model sees one by one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/json.h"
#include "text/chars.h"

namespace polyhead::text {

// Cuts each piece into smaller ones, none of them empty.
using PreTokenizer = std::function<void(std::vector<Chars>&)>;

// The "pre_tokenizer" of a tokenizer.json; null does nothing. An unknown one is an error (input).
PreTokenizer read_pre_tokenizer(const io::Json& json, const std::string& where);

// Whether the letters of the pieces it makes stand for bytes.
bool is_byte_level(const io::Json& json);

// How llama.cpp cuts text for byte-level files that do not say how: runs of punctuation, GPT-2's pieces of the rest,
// numbers by themselves and three digits at a time. The pieces are still text, not bytes.
void cut_by_default(std::vector<Chars>& pieces);

// The printable character that stands for a byte in byte-level vocabularies, and back: -1 if it stands for none.
char32_t char_of_byte(unsigned char byte);
int byte_of_char(char32_t code);

}  // namespace polyhead::text
