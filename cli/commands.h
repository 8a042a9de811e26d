// The one table of commands: parsing, help, completion and the man page all come from it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace polyhead::cli {

enum class Exit : int {
  ok = 0,
  failure = 1,
  usage = 2,
  input = 3,
  io = 4,
  device = 5,
  diverged = 6,
  signalled = 128  // plus the signal's number
};

// A message for the user, and the code that the command ends with.
class Failure : public std::runtime_error {
 public:
  Failure(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const noexcept { return code_; }

 private:
  Exit code_;
};

// What an error of the library says, without the op's name in front: the user typed no op.
std::string plain(const std::exception& error);

inline constexpr const char* kNoModel =
    "no model given; name a folder, a .gguf file, or a model that 'polyhead get' fetches";

// --name, --name TIME as in "30s" or "2m", or --no-name.
struct Budget {
  std::optional<bool> asked{};
  double seconds = std::numeric_limits<double>::infinity();
};

// Where a parsed value goes. Its value before parsing is the default that help shows.
using Target = std::variant<bool*,                         // --name
                            std::optional<bool>*,          // --name or --no-name
                            Budget*,                       // --name, --name TIME or --no-name
                            std::int64_t*,                 // --name N
                            std::optional<std::int64_t>*,  // --name N, no default
                            double*,                       // --name X
                            std::optional<double>*,        // --name X, no default
                            std::string*,                  // --name TEXT
                            std::vector<std::string>*>;    // --name TEXT, any number of times

struct Option {
  std::string name;   // "width" is typed --width; a name in capitals is a positional argument
  std::string value;  // what follows it, "N"; empty for flags and positional arguments
  std::string help;
  Target target;
  std::vector<std::string> choices = {};  // the only values allowed, if not empty
  std::int64_t least = 1;                 // of a number
  std::int64_t most = 1'000'000;
  bool above = false, below = false;  // least or most itself is refused

  bool positional() const { return name[0] >= 'A' && name[0] <= 'Z'; }
  // A path, or the name of a fetched model; it is a path when the command runs.
  bool is_model() const {
    return choices.empty() && (positional() || value == "MODEL") && std::holds_alternative<std::string*>(target);
  }
  bool takes_value() const { return !value.empty(); }
  bool has_time() const { return std::holds_alternative<Budget*>(target); }
  bool has_negative() const { return std::holds_alternative<std::optional<bool>*>(target) || has_time(); }
};

struct Example {
  std::string line, shows;
};

struct Command {
  std::string name, summary, description;
  std::vector<Example> examples;
  std::vector<Option> options;
  std::function<void()> run;
  bool listed = true;     // in the short help
  bool on_ranks = false;  // shares its work with others
};

const std::vector<Command>& commands();

Command study_command();
Command replicate_command();
Command train_command();
Command generate_command();
Command heads_command();
Command score_command();
Command embed_command();
Command prune_command();
Command patch_command();
Command serve_command();
Command view_command();
Command compare_command();
Command get_command();
Command inspect_command();
Command count_command();
Command plan_command();
Command trace_command();
Command bench_command();
Command info_command();
Command completion_command();
Command man_command();

}  // namespace polyhead::cli
