#include "cli/commands.h"

namespace polyhead::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table{study_command(),   train_command(), generate_command(),   score_command(),
                                          embed_command(),   heads_command(), serve_command(),      view_command(),
                                          prune_command(),   patch_command(), compare_command(),    get_command(),
                                          inspect_command(), count_command(), plan_command(),       trace_command(),
                                          bench_command(),   info_command(),  completion_command(), man_command()};
  return table;
}

}  // namespace polyhead::cli
