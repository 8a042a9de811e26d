// What goes to stderr.
#pragma once

#include <string>

namespace polyhead::cli {

// Prints the text as it is. A stderr that takes nothing more (closed, full, its terminal gone) is no reason to stop the
// work or to end otherwise than with the code that was meant.
void say(const std::string& text) noexcept;

}  // namespace polyhead::cli
