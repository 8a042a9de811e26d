// Messages on stderr.
#pragma once

#include <string>

namespace polyhead::cli {

// Prints the text as it is. A stderr that accepts nothing more (closed, full, terminal gone) neither stops the work nor
// changes the exit code.
void say(const std::string& text) noexcept;

// From now on nothing is said or reported, but by say_anyway: one of several ranks speaks for all.
void be_silent() noexcept;
bool is_silent() noexcept;
void say_anyway(const std::string& text) noexcept;

}  // namespace polyhead::cli
