#include <fmt/format.h>

#include "cli/pages.h"

namespace polyhead::cli {
namespace {

// Which paths to offer, in compgen's terms: "-f" for files and folders, "-d" for folders only. A model may be a file.
std::string paths_of(const Option& option) {
  return option.is_model() || option.value == "FILE" ? "-f" : option.value == "FOLDER" ? "-d" : "";
}

// The words and paths to offer for an option or argument of this command.
std::string words_of(const Command& command) {
  std::string words = "--help", paths;
  for (const Option& option : command.options) {
    if (option.positional()) {
      words += fmt::format(" {}", fmt::join(option.choices, " "));
      paths = paths_of(option);
    } else {
      words += " --" + option.name;
      if (option.has_negative()) words += " --no-" + option.name;
    }
  }
  return fmt::format("words=\"{}\" paths={}", words, paths);
}

// A case for every option with a value: its choices, paths, or nothing.
std::string values_of(const Command& command) {
  std::string cases;
  for (const Option& option : command.options) {
    if (!option.takes_value()) continue;
    cases += fmt::format("    {}:--{}) words=\"{}\" paths={} ;;\n", command.name, option.name,
                         fmt::join(option.choices, " "), paths_of(option));
  }
  return cases;
}

}  // namespace

std::string bash_completion() {
  std::string names, cases;
  for (const Command& command : commands()) names += command.name + ' ';
  for (const Command& command : commands()) cases += values_of(command);
  for (const Command& command : commands()) {
    cases += fmt::format("    {}:*) {} ;;\n", command.name, words_of(command));
  }
  return fmt::format(
      "# bash completion for polyhead; printed by 'polyhead completion bash'\n"
      "_polyhead() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words= paths= place=first\n"
      "  [ \"$COMP_CWORD\" -gt 1 ] && place=${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  case $place in\n"
      "    first) words=\"{}--help --version\" ;;\n"
      "{}"
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
      "  [ -n \"$paths\" ] || return 0\n"
      "  mapfile -t -O \"${{#COMPREPLY[@]}}\" COMPREPLY < <(compgen $paths -- \"$word\")\n"
      "  compopt -o filenames 2>/dev/null\n"  // slashes after folders, spaces quoted
      "  return 0\n"
      "}}\n"
      "complete -F _polyhead polyhead\n",
      names, cases);
}

Command completion_command() {
  struct CompletionOptions {
    std::string shell;
  };
  auto options = std::make_shared<CompletionOptions>();
  return {.name = "completion",
          .summary = "print the completion script for a shell",
          .description = "Prints a script that teaches the shell to complete polyhead's commands and options.",
          .examples = {{"source <(polyhead completion bash)", "complete in this shell, now"}},
          .options = {{"SHELL", "", "the shell; bash", &options->shell, {"bash"}}},
          .run =
              [options] {
                if (options->shell.empty()) throw Failure(Exit::usage, "which shell? Try 'polyhead completion bash'");
                fmt::print("{}", bash_completion());
              },
          .listed = false};
}

}  // namespace polyhead::cli
