#include <cstdlib>

#include "cuda/attention_runs.h"
#include "cuda/items.h"
#include "support/drawn.h"
#include "support/plain.h"

namespace polyhead::test::gpu {
namespace {

bool is_tied(const Case& recipe) {
  Case all = recipe;
  all.wants.weights = all.wants.lse = true;
  all.wants.weight_heads = all.wants.weight_rows = {};
  return has_near_tie(expected_results(materialise(all)).exact);
}

// By how many times a result was farther off than the rule allows; 0 if that is not what is wrong.
double excess(const std::string& wrong) {
  const std::size_t at = wrong.find("-- off by ");
  return at == wrong.npos ? 0 : std::strtod(wrong.c_str() + at + 10, nullptr);
}

// A yardstick of few numbers is a matter of luck: of thousands of draws a few in a thousand are just beyond it, the
// CPU's kernels' too. Such a draw gets other numbers, and only if it fails with three sets of them something is wrong.
std::string judged(Context& context, Case recipe, std::string (*run)(Context&, const Case&)) {
  constexpr double kMuch = 4;
  std::string wrong = run(context, recipe);
  for (int n = 1; n < 3 && excess(wrong) > 0 && excess(wrong) < kMuch; ++n) {
    recipe.name += "_again";
    wrong = run(context, recipe);
  }
  return wrong.empty() ? wrong : "[" + described(recipe) + "] " + wrong;
}

// Of a call whose statistics could not be judged the rest is.
std::string draw_forward(Context& context, int seed) {
  Case recipe = drawn(static_cast<std::uint64_t>(seed));
  const std::string wrong = judged(context, recipe, run_forward);
  if (wrong.empty() || recipe.wants.statistics == StatisticsSet::none || !is_tied(recipe)) return wrong;
  recipe.wants.statistics = StatisticsSet::none;
  recipe.wants.row_statistics = false;
  return judged(context, recipe, run_forward);
}

std::string draw_backward(Context& context, int seed) {
  Case recipe = drawn(static_cast<std::uint64_t>(seed));
  recipe.storage.reset();  // which is for forward passes
  return judged(context, recipe, seed % 3 == 0 ? run_backward_to_inputs : run_backward);
}

}  // namespace

std::vector<Item> drawn_items(int first, int count) {
  std::vector<Item> items;
  for (int seed = first; seed < first + count; ++seed) {
    const std::string number = std::to_string(seed);
    items.push_back({"drawn/forward_" + number, [=](Context& context) { return draw_forward(context, seed); }});
    items.push_back({"drawn/backward_" + number, [=](Context& context) { return draw_backward(context, seed); }});
  }
  return items;
}

}  // namespace polyhead::test::gpu
