#include <fmt/format.h>

#include "cli/pages.h"
#include "polyhead/version.h"

namespace polyhead::cli {
namespace {

// Text as roff: dashes stay dashes, and no line looks like a request.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\')
      escaped += "\\e";
    else if (letter == '-')
      escaped += "\\-";
    else if ((letter == '.' || letter == '\'') && escaped.empty())
      escaped += fmt::format("\\&{}", letter);
    else
      escaped += letter;
  }
  return escaped;
}

std::string section_of(const Command& command) {
  std::string text = fmt::format(".SS polyhead {}\n{}\n", command.name, roff(command.description));
  for (const Example& example : command.examples) {
    text += fmt::format(".TP\n.B {}\n{}\n", roff(example.line), roff(example.shows));
  }
  if (!command.options.empty()) text += ".PP\nOptions:\n";
  for (const Option& option : command.options) {
    text += fmt::format(".TP\n.B {}\n{}\n", roff(usage_of(option)), roff(option.help));
  }
  return text;
}

}  // namespace

std::string man_page() {
  std::string text = fmt::format(
      ".TH POLYHEAD 1 \"\" \"polyhead {}\" \"User Commands\"\n"
      ".SH NAME\npolyhead \\- multi\\-head attention that you can see through\n"
      ".SH SYNOPSIS\n.B polyhead\n.I command\n.RI [ options ]\n"
      ".SH COMMANDS\n",
      version());
  for (const Command& command : commands()) {
    text += fmt::format(".TP\n.B {}\n{}\n", command.name, roff(command.summary));
  }
  text += ".SH EXAMPLES AND OPTIONS\n";
  for (const Command& command : commands()) text += section_of(command);
  return text +
         ".SH OUTPUT\nResults go to standard output, everything else to standard error. JSON carries\n"
         ".BR schema ,\na number that grows when a field changes its meaning or is removed.\n"
         "Tables are as wide as the terminal: columns for which there is no room are named below them, and\n"
         ".B \\-\\-wide\nshows them. Into a pipe or file tables are complete; JSON and CSV always are.\n"
         ".SH ENVIRONMENT\n"
         ".TP\n.B POLYHEAD_RANKS\nif\n.BR off ,\na process that mpirun or srun started works by itself\n"
         ".TP\n.B POLYHEAD_TARGET\nthe vector instructions to use, by a name that\n.B polyhead info\nlists\n"
         ".TP\n.B POLYHEAD_CUDA_KERNELS\nif\n.BR portable ,\na Hopper GPU runs the kernels that every GPU runs\n"
         ".TP\n.B COLUMNS\nhow wide tables and text are where standard output is no terminal, or one that does not "
         "say\n"
         ".TP\n.B NO_COLOR\nif set and not empty, no colours\n"
         ".SH EXIT STATUS\n"
         ".TP\n.B 0\nsuccess\n"
         ".TP\n.B 2\nthe command line is wrong\n"
         ".TP\n.B 3\nthe input is wrong: a configuration that cannot exist, or is too large\n"
         ".TP\n.B 4\nreading or writing failed\n"
         ".TP\n.B 5\nthe device is missing or failed\n"
         ".TP\n.B 6\ntraining diverged\n"
         ".TP\n.B 130, 143, 129\nstopped by Ctrl\\-C, by SIGTERM or with the terminal; what was begun is saved,\n"
         "and heads, patch, prune, score and bench print what they have found by then\n";
}

Command man_command() {
  return {.name = "man",
          .summary = "print the manual page",
          .description = "Prints this manual page as roff, for man.",
          .examples = {{"polyhead man | man -l -", "read it"}},
          .options = {},
          .run = [] { fmt::print("{}", man_page()); },
          .listed = false};
}

}  // namespace polyhead::cli
