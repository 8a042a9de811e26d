// Decoders: tokens back to text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/json.h"

namespace polyhead::text {

// Changes the texts of the tokens, so that together they are the text.
using Decoder = std::function<void(std::vector<std::string>&)>;

// The bytes that a token stands for whose letters are bytes, as those of GPT-2 are, or that is called <0xE2>; of any
// other the token itself.
std::string bytes_of_token(const std::string& token);

// The "decoder" of a tokenizer.json; null puts a blank between tokens. One that is not known is an error (input).
Decoder read_decoder(const io::Json& json, const std::string& where);

}  // namespace polyhead::text
