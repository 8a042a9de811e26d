// Decoders: tokens back to text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/json.h"

namespace polyhead::text {

// Changes the tokens' texts so that, joined, they are the decoded text.
using Decoder = std::function<void(std::vector<std::string>&)>;

// The bytes of a token that is called <0xE2> or whose letters stand for bytes, as GPT-2's do; any other token as it is.
std::string bytes_of_token(const std::string& token);

// The "decoder" of a tokenizer.json; null puts a blank between tokens. An unknown one is an error (input).
Decoder read_decoder(const io::Json& json, const std::string& where);

}  // namespace polyhead::text
