#include "cli/commands.h"

#include <algorithm>

#include "cli/report.h"

namespace polyhead::cli {
namespace {

// What prints tables can print them whole.
std::vector<Command> with_wide(std::vector<Command> table) {
  for (Command& command : table) {
    const auto format = std::find_if(command.options.begin(), command.options.end(),
                                     [](const Option& option) { return option.name == "format"; });
    if (format != command.options.end()) command.options.insert(format + 1, wide_option());
  }
  return table;
}

}  // namespace

std::string plain(const std::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : text.npos;
  return end == text.npos ? text : text.substr(end + 2);
}

const std::vector<Command>& commands() {
  static const std::vector<Command> table = with_wide(
      {study_command(), replicate_command(),  train_command(), generate_command(), score_command(), embed_command(),
       heads_command(), serve_command(),      view_command(),  prune_command(),    patch_command(), compare_command(),
       get_command(),   inspect_command(),    count_command(), plan_command(),     trace_command(), bench_command(),
       info_command(),  completion_command(), man_command()});
  return table;
}

}  // namespace polyhead::cli
