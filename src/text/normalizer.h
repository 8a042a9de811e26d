// Normalisers: what a tokenizer does to a text before it is cut.
#pragma once

#include <functional>
#include <string>

#include "io/json.h"
#include "text/chars.h"

namespace polyhead::text {

using Normalizer = std::function<void(Chars&)>;

// The "normalizer" of a tokenizer.json; null does nothing. An unknown one is an error (input).
Normalizer read_normalizer(const io::Json& json, const std::string& where);

// Puts `text` before the characters, unless there are none. It takes the first character's place in the original.
void prepend(Chars& chars, const std::u32string& text);
// Replaces every occurrence of a text by another, which takes the place of the occurrence's last character.
void replace(Chars& chars, const std::u32string& from, const std::u32string& to);

}  // namespace polyhead::text
