// What a model makes of a text, as the page shows it.
#pragma once

#include "exam/viewer.h"
#include "report/page.h"

namespace polyhead::serve {

// Its heads with their numbers, and one sample: the text, without weights.
report::Model describe(const exam::Viewer& viewer, const std::string& name, const exam::View& view);

// The page that asks for the rest: title, the model in a sentence, and what may be typed.
report::Page live_page(const exam::Viewer& viewer, const std::string& name, std::int64_t most_tokens);

// "6 layers of 12 heads, 22,713,216 parameters: an encoder, ..."
std::string in_a_sentence(const model::Transformer& model);

}  // namespace polyhead::serve
