#include <fmt/format.h>

#include <algorithm>

#include "cli/pages.h"
#include "cli/report.h"
#include "polyhead/version.h"

namespace polyhead::cli {
namespace {

std::string default_of(const Option& option) {
  if (const auto* number = std::get_if<std::int64_t*>(&option.target)) return fmt::format(" [{}]", **number);
  if (const auto* real = std::get_if<double*>(&option.target)) return fmt::format(" [{}]", **real);
  const auto* words = std::get_if<std::string*>(&option.target);
  return words != nullptr && !(*words)->empty() ? fmt::format(" [{}]", **words) : "";
}

// "  left   right" with the right side wrapped.
std::string entry(const std::string& left, const std::string& right, std::size_t width) {
  return fmt::format("  {:<{}}  {}\n", left, width, wrapped(right, width + 4));
}

}  // namespace

std::string usage_of(const Option& option) {
  const bool list = std::holds_alternative<std::vector<std::string>*>(option.target);
  if (option.positional()) return option.name + (list ? " ..." : "");
  if (option.has_negative()) return fmt::format("--{0}, --no-{0}", option.name);
  return fmt::format("--{}{}{}", option.name, option.takes_value() ? " " : "", option.value);
}

std::string short_help() {
  std::string text = fmt::format(
      "polyhead {}: multi-head attention that you can see through\n\n"
      "Examples:\n",
      version());
  const auto listed = [](const auto& visit) {
    for (const Command& command : commands()) {
      if (command.listed) visit(command);
    }
  };
  std::size_t width = 0;
  listed([&](const Command& command) { width = std::max(width, command.examples[0].line.size()); });
  listed([&](const Command& command) { text += entry(command.examples[0].line, command.examples[0].shows, width); });
  text += "\nCommands:\n";
  listed([&](const Command& command) { text += entry(command.name, command.summary, 8); });
  return text +
         "\n'polyhead COMMAND --help' shows a command's examples and options; 'polyhead --version' the version.\n"
         "'polyhead man' prints the manual page, 'polyhead completion bash' the completion for bash.\n";
}

std::string help_of(const Command& command) {
  std::string text = fmt::format("polyhead {}: {}\n\nExamples:\n", command.name, command.summary);
  std::size_t width = 0;
  for (const Example& example : command.examples) width = std::max(width, example.line.size());
  for (const Example& example : command.examples) text += entry(example.line, example.shows, width);

  std::string usage = "polyhead " + command.name;
  width = std::string("--help").size();
  bool any_option = false;
  for (const Option& option : command.options) {
    width = std::max(width, usage_of(option).size());
    any_option |= !option.positional();
  }
  for (const Option& option : command.options) {
    if (option.positional()) usage += fmt::format(" [{}]", usage_of(option));
  }
  text += fmt::format("\nUsage: {}{}\n\n{}\n\nOptions:\n", usage, any_option ? " [OPTIONS]" : "",
                      wrapped(command.description, 0));
  for (const Option& option : command.options) text += entry(usage_of(option), option.help + default_of(option), width);
  return text + entry("--help", "this help", width);
}

}  // namespace polyhead::cli
