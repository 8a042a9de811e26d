// Normalisers: what a tokenizer does to a text before it is cut.
#pragma once

#include <functional>
#include <string>

#include "io/json.h"
#include "text/chars.h"

namespace polyhead::text {

using Normalizer = std::function<void(Chars&)>;

// The "normalizer" of a tokenizer.json; none is null. One that is not known is an error (input).
Normalizer read_normalizer(const io::Json& json, const std::string& where);

// `text` before all else, unless there is nothing. It stands for the first character.
void prepend(Chars& chars, const std::u32string& text);
// Every occurrence of a text by another, which stands for the occurrence's last character.
void replace(Chars& chars, const std::u32string& from, const std::u32string& to);

}  // namespace polyhead::text
