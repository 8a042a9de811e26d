// Plans that work, one per task.
#include <algorithm>

#include "train/plan.h"

namespace polyhead::train {
namespace {

struct Recipe {
  const char* task;
  std::int64_t layers, width, heads, steps, batch;
  double rate;
  model::FeedForward feed_forward = model::FeedForward::gelu;
};

// Recall by attention alone: with a feed-forward network it takes longer, and sometimes much longer.
constexpr Recipe kRecipes[] = {
    {"copy", 2, 64, 4, 400, 32, 3e-3},         {"repeat", 2, 64, 4, 800, 32, 3e-3},
    {"repeat-fixed", 2, 64, 4, 400, 32, 3e-3}, {"recall", 2, 64, 4, 1500, 64, 3e-3, model::FeedForward::none},
    {"classify", 1, 64, 4, 1500, 64, 3e-3},    {"dyck", 2, 64, 4, 1000, 32, 3e-3},
    {"grammar", 2, 64, 4, 1500, 32, 3e-3},     {"text", 3, 128, 4, 1000, 16, 2e-3},
};

}  // namespace

Plan plan_for(const std::string& task) {
  const auto* found =
      std::find_if(std::begin(kRecipes), std::end(kRecipes), [&](const Recipe& r) { return task == r.task; });
  const Recipe& recipe = found == std::end(kRecipes) ? kRecipes[0] : *found;  // make_task refuses unknown names
  Plan plan{.task = {.name = task},
            .model = model::make_config(model::Kind::gpt, recipe.layers, recipe.width, recipe.heads),
            .training = {.steps = recipe.steps, .batch = recipe.batch, .rate = recipe.rate}};
  plan.model.feed_forward = recipe.feed_forward;
  return plan;
}

}  // namespace polyhead::train
