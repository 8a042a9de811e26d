// Other programs, run for the user.
#pragma once

#include <string>
#include <vector>

namespace polyhead::cli {

// Runs a program of the PATH, or of a path, and returns what it exits with; 127 if it cannot be started. What it prints
// goes to stderr, or nowhere if `silent`. A signal that Signals notes meanwhile ends the child as well.
int run_child(const std::vector<std::string>& words, bool silent = false);

}  // namespace polyhead::cli
