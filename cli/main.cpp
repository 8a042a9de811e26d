// The command line: parses by the table of commands, runs one, turns errors into messages and exit codes.
// The only file that includes CLI11, which takes long to compile.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>

#include "cli/commands.h"
#include "cli/pages.h"
#include "cli/ranks.h"
#include "cli/say.h"
#include "core/suggest.h"
#include "io/fetched.h"
#include "polyhead/error.h"
#include "polyhead/version.h"

namespace polyhead::cli {
namespace {

// NaN is outside every range.
template <class Number>
std::string number_error(const Option& option, const std::string& text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto least = static_cast<Number>(option.least), most = static_cast<Number>(option.most);
  const bool inside =
      (option.above ? number > least : number >= least) && (option.below ? number < most : number <= most);
  if (error == std::errc{} && end == text.data() + text.size() && inside) return {};
  return fmt::format("expected a {} {} {}{} {}, found '{}'", std::is_integral_v<Number> ? "whole number" : "number",
                     option.above ? "above" : "from", option.least,
                     option.below   ? " and below"
                     : option.above ? ", at most"
                                    : " to",
                     option.most, text);
}

std::string choice_error(const Option& option, const std::string& text) {
  if (option.choices.empty()) return {};
  if (std::find(option.choices.begin(), option.choices.end(), text) != option.choices.end()) return {};
  return fmt::format("expected one of {}, found '{}'{}", fmt::join(option.choices, ", "), text,
                     did_you_mean(text, option.choices));
}

// "30s", "2m", "1h", "30" as seconds; nothing for any other text.
std::optional<double> seconds_in(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number > 0)) return {};
  const std::string unit(end, text.data() + text.size());
  for (const auto& [name, seconds] : {std::pair{"", 1.0}, {"s", 1.0}, {"m", 60.0}, {"min", 60.0}, {"h", 3600.0}}) {
    if (unit == name) return number * seconds;
  }
  return {};
}

// The parser knows no values that may be missing: "--name 30s" becomes "--name=30s", "--name" alone "--name=yes".
std::vector<std::string> with_times(const Command& command, const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (std::size_t n = 0; n < arguments.size(); ++n) {
    result.push_back(arguments[n]);
    for (const Option& option : command.options) {
      if (!option.has_time()) continue;
      if (arguments[n] == "--no-" + option.name) result.back() = "--" + option.name + "=no";
      if (arguments[n] != "--" + option.name) continue;
      const bool time = n + 1 < arguments.size() && std::isdigit(static_cast<unsigned char>(arguments[n + 1][0])) != 0;
      result.back() += "=" + (time ? arguments[++n] : "yes");
    }
  }
  return result;
}

// Hands one option of the table to the parser.
struct Binder {
  CLI::App& app;
  const Option& option;
  std::string flag = option.positional() ? option.name : "--" + option.name;

  void operator()(bool* target) const { app.add_flag(flag, *target); }
  void operator()(std::optional<bool>* target) const {
    app.add_flag_function(fmt::format("{},!--no-{}", flag, option.name),
                          [target](std::int64_t sum) { *target = sum > 0; });
  }
  void operator()(Budget* target) const {
    const auto take = [target](const std::string& text) {
      target->asked = text != "no";
      target->seconds = seconds_in(text).value_or(Budget{}.seconds);
    };
    app.add_option_function<std::string>(flag, take)->check([](const std::string& text) {
      const bool known = text == "yes" || text == "no" || seconds_in(text);
      return known ? "" : fmt::format("expected a time, such as 30s, 2m or 1h, found '{}'", text);
    });
  }
  void operator()(std::int64_t* target) const { number<std::int64_t>(target); }
  void operator()(std::optional<std::int64_t>* target) const { number<std::int64_t>(target); }
  void operator()(double* target) const { number<double>(target); }
  void operator()(std::optional<double>* target) const { number<double>(target); }
  void operator()(std::string* target) const { words(target); }
  void operator()(std::vector<std::string>* target) const {
    // An option takes one value each time; positional arguments take all that follow.
    if (!option.positional())
      words(target)->expected(1)->take_all();
    else
      words(target);
  }

 private:
  template <class Number, class T>
  void number(T* target) const {
    app.add_option(flag, *target)->type_name(option.value)->check([&option = option](const std::string& text) {
      return number_error<Number>(option, text);
    });
  }
  template <class T>
  CLI::Option* words(T* target) const {
    return app.add_option(flag, *target)->type_name(option.value)->check([&option = option](const std::string& text) {
      return choice_error(option, text);
    });
  }
};

std::vector<std::string> names_of_commands() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return names;
}

std::vector<std::string> flags_of(const Command& command) {
  std::vector<std::string> flags{"--help"};
  for (const Option& option : command.options) {
    if (option.positional()) continue;
    flags.push_back("--" + option.name);
    if (option.has_negative()) flags.push_back("--no-" + option.name);
  }
  return flags;
}

// Runs before parsing, which would stumble over the value after an unknown option.
void check_flags(const Command& command, const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = flags_of(command);
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    const bool is_flag = flag.size() > 1 && flag[0] == '-' && !std::isdigit(static_cast<unsigned char>(flag[1]));
    if (!is_flag || std::find(known.begin(), known.end(), flag) != known.end()) continue;
    throw Failure(Exit::usage, fmt::format("unknown option '{}'{}\n'polyhead {} --help' lists the options", flag,
                                           did_you_mean(flag, known), command.name));
  }
}

// Fills in the command's options.
void parse(const Command& command, std::vector<std::string> arguments) {
  check_flags(command, arguments);
  arguments = with_times(command, arguments);
  CLI::App app;
  app.set_help_flag();
  for (const Option& option : command.options) std::visit(Binder{app, option}, option.target);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 reads them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    throw Failure(Exit::usage, fmt::format("{}\n'polyhead {} --help' shows how", error.what(), command.name));
  }
  for (const Option& option : command.options) {
    if (!option.is_model()) continue;
    std::string& named = *std::get<std::string*>(option.target);
    if (named.empty()) continue;
    const std::filesystem::path meant = io::model_meant(named);
    if (meant.empty()) throw Failure(Exit::input, io::nothing_at(named));
    named = meant.string();
  }
}

void run_command(const Command& command, const std::vector<std::string>& arguments) {
  const auto asks = [](const std::string& argument) { return argument == "--help" || argument == "-h"; };
  if (std::any_of(arguments.begin(), arguments.end(), asks)) return fmt::print("{}", help_of(command));
  join_ranks(command, arguments);
  together(ranks(), [&] { parse(command, arguments); });
  command.run();
  leave_ranks();
}

void run(const std::vector<std::string>& arguments, std::string& where) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") return fmt::print("{}", short_help());
  if (arguments[0] == "--version") return fmt::print("polyhead {}\n", version());
  for (const Command& command : commands()) {
    if (command.name != arguments[0]) continue;
    where += ' ' + command.name;
    return run_command(command, {arguments.begin() + 1, arguments.end()});
  }
  const std::vector<std::string> names = names_of_commands();
  throw Failure(Exit::usage, fmt::format("unknown {} '{}'{}\n'polyhead --help' lists the commands",
                                         arguments[0].starts_with('-') ? "option" : "command", arguments[0],
                                         did_you_mean(arguments[0], names)));
}

Exit exit_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::device: return Exit::device;
    case ErrorCode::io: return Exit::io;
    default: return Exit::input;
  }
}

// The reader of our output has closed the pipe (polyhead count | head): end silently, as programs usually do.
void die_of_pipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

// Of several ranks the first one speaks if all of them end; one that fails by itself has to end the others.
Exit end_badly(const std::string& where, Exit code, const std::string& message) {
  if (ranks().size() == 1 || ranks().ends_together()) {
    say(where + ": " + message + "\n");
    leave_ranks();
    return is_silent() ? Exit::ok : code;  // a second code would make mpirun end the first rank before it has spoken
  }
  if (ranks().rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(1));  // if all fail alike, the first speaks
  say_anyway(fmt::format("{}: rank {}: {}\n", where, ranks().rank(), message));
  ranks::abandon(static_cast<int>(code));
}

Exit guarded(const std::vector<std::string>& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // writing fails instead of killing us: a stderr that nobody reads must not end a run
  std::string where = "polyhead";
  const auto failed = [&](Exit code, const std::string& message) { return end_badly(where, code, message); };
  try {
    run(arguments, where);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    return Exit::ok;
  } catch (const Failure& failure) {
    return failed(failure.code(), failure.what());
  } catch (const Error& error) {
    return failed(exit_for(error.code()), plain(error));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) die_of_pipe();
    return failed(Exit::io, error.what());
  } catch (const std::bad_alloc&) {
    return failed(Exit::input, "not enough memory for these sizes; choose smaller ones");
  } catch (const std::exception& error) {
    return failed(Exit::failure, error.what());
  }
}

}  // namespace
}  // namespace polyhead::cli

// If one of them is closed, the next file opened would take its number and receive what goes to stderr.
static void hold_standard_files() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file) {
    if (fcntl(file, F_GETFD) == -1) open("/dev/null", O_RDONLY);  // read-only: writing still fails
  }
}

int main(int argc, char** argv) {
  hold_standard_files();
  return static_cast<int>(polyhead::cli::guarded({argv + std::min(argc, 1), argv + argc}));
}
