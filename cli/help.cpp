#include <fmt/format.h>

#include <algorithm>

#include "cli/pages.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "polyhead/version.h"

namespace polyhead::cli {
namespace {

std::string default_of(const Option& option) {
  if (const auto* number = std::get_if<std::int64_t*>(&option.target)) return fmt::format(" [{}]", **number);
  if (const auto* real = std::get_if<double*>(&option.target)) return fmt::format(" [{}]", **real);
  const auto* words = std::get_if<std::string*>(&option.target);
  return words != nullptr && !(*words)->empty() ? fmt::format(" [{}]", **words) : "";
}

// Two columns, the right one wrapped; what is too long for the left one has a line to itself.
std::string entry(const std::string& left, const std::string& right, std::size_t width) {
  constexpr std::size_t kWidest = 24;
  const std::size_t column = std::min(width, kWidest), indent = column + 4;
  const std::string gap =
      left.size() > column ? "\n" + std::string(indent, ' ') : std::string(indent - 2 - left.size(), ' ');
  return "  " + left + gap + wrapped(right, indent) + "\n";
}

// A line to type, which goes on behind a backslash before an option, and below what it does.
std::string example_text(const Example& example) {
  const std::size_t columns = page().text;
  std::string text, line = " ";
  for (std::size_t at = 0; at < example.line.size();) {
    const std::size_t end = std::min(example.line.find(" --", at + 1), example.line.size());
    const std::string part = example.line.substr(at, end - at);
    if (line.size() > 1 && line.size() + part.size() + 2 > columns) {
      text += line + " \\\n";
      line = "     ";
    }
    line += at == 0 ? " " + part : part;
    at = end;
  }
  return text + line + "\n      " + wrapped(example.shows, 6) + "\n";
}

// What to begin with.
const std::vector<Example> kFirstSteps{
    {"polyhead get smollm2", "fetch a small language model; every command then takes its name"},
    {"polyhead serve smollm2", "a page of all its heads: type a text, switch heads off"},
    {"polyhead heads smollm2 --text book.txt", "what each head does, on a text of yours"},
    {"polyhead train repeat --out run", "train a small model of your own, in seconds"},
    {"polyhead prune run --out small", "take out the heads that it can do without"},
    {"polyhead study", "train, compare, look inside, prune, and write a report about it"}};

}  // namespace

std::string usage_of(const Option& option) {
  const bool list = std::holds_alternative<std::vector<std::string>*>(option.target);
  if (option.positional()) return option.name + (list ? " ..." : "");
  if (option.has_negative()) return fmt::format("--{0}{1}, --no-{0}", option.name, option.has_time() ? " [TIME]" : "");
  return fmt::format("--{}{}{}", option.name, option.takes_value() ? " " : "", option.value);
}

std::string short_help() {
  std::string text = wrapped(fmt::format("polyhead {}: multi-head attention that you can see through", version()), 0) +
                     "\n\nCommands:\n";
  for (const Command& command : commands()) {
    if (command.listed) text += entry(command.name, command.summary, 8);
  }
  text += "\nExamples:\n";
  for (const Example& example : kFirstSteps) text += example_text(example);
  return text + "\n" +
         wrapped(
             "'polyhead COMMAND --help' shows a command's examples and options; 'polyhead --version' the version. "
             "'polyhead man' prints the manual page, 'polyhead completion bash' the completion for bash.",
             0) +
         "\n";
}

std::string help_of(const Command& command) {
  std::string text = wrapped(fmt::format("polyhead {}: {}", command.name, command.summary), 0) + "\n\nExamples:\n";
  for (const Example& example : command.examples) text += example_text(example);

  std::string usage = "polyhead " + command.name;
  std::size_t width = std::string("--help").size();
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
