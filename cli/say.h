// Messages on stderr.
#pragma once

#include <string>

namespace polyhead::cli {

// Prints the text as it is. A stderr that accepts nothing more (closed, full, terminal gone) neither stops the work nor
// changes the exit code.
void say(const std::string& text) noexcept;

}  // namespace polyhead::cli
