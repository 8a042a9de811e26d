// Decoders: tokens back to text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/json.h"

namespace polyhead::text {

// Changes the texts of the tokens, so that together they are the text.
using Decoder = std::function<void(std::vector<std::string>&)>;

// The "decoder" of a tokenizer.json; null puts a blank between tokens. One that is not known is an error (input).
Decoder read_decoder(const io::Json& json, const std::string& where);

}  // namespace polyhead::text
