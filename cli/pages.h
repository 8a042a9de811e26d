// Help, bash completion and the man page, written from the table of commands.
#pragma once

#include <string>

#include "cli/commands.h"

namespace polyhead::cli {

std::string short_help();
std::string help_of(const Command& command);
std::string bash_completion();
std::string man_page();

// "--width N", "--causal, --no-causal", "PRESET ..."
std::string usage_of(const Option& option);

}  // namespace polyhead::cli
