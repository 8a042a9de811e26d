// "Did you mean ...?"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace polyhead {

// "; did you mean 'gpt2'?" for the known word nearest to the given one, or nothing if none is near.
std::string did_you_mean(std::string_view given, const std::vector<std::string>& known);

}  // namespace polyhead
