// What a model makes of a text, as the page shows it.
#pragma once

#include <functional>

#include "exam/observer.h"
#include "report/page.h"

namespace polyhead::exam {

// The model's heads with their numbers, and one sample: the text, without weights.
report::Model describe(const Observer& observer, const std::string& name, const Observation& seen);

// The weights of a layer's heads, added to the text that describe made.
void add_weights(report::Model& model, Observer& observer, const std::vector<std::int32_t>& tokens,
                 const GateList& gates, std::size_t layer);

// Both, for a text and the layers [first, end); `note` is told which layer comes next.
report::Model read_for_page(Observer& observer, const std::string& name, const std::vector<std::int32_t>& tokens,
                            const GateList& gates, std::size_t first, std::size_t end,
                            const std::function<void(std::size_t)>& note);

// "6 layers of 12 heads, 22,713,216 parameters; an encoder: ..."
std::string in_a_sentence(const model::Transformer& model);

// The last part of a path, even if it ends with a slash.
std::string name_of(const std::filesystem::path& model);

}  // namespace polyhead::exam
