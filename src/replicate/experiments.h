// The published results, each with what it takes to look for it.
#pragma once

#include <functional>
#include <vector>

#include "replicate/result.h"
#include "replicate/specimen.h"

namespace polyhead::replicate {

enum class Takes { language_model, encoder, nothing };  // nothing: it trains models of its own

struct Experiment {
  Published published;
  Takes takes;
  bool adds_to_stream = false;              // only where what heads write is added as it is (no sandwich of norms)
  std::function<Result(Specimen&)> look{};  // of those that take a model
  std::function<Result(Context&, const Effort&)> train{};  // of the others
};

// In the order in which they are told.
const std::vector<Experiment>& experiments();
bool fits(const Experiment& experiment, const model::Config& config);

// Where heads look (looks.cpp).
Result previous_token(Specimen& specimen);
Result induction(Specimen& specimen);
Result duplicate(Specimen& specimen);
Result sinks(Specimen& specimen);
Result on_separators(Specimen& specimen);   // of an encoder
Result broad_at_first(Specimen& specimen);  // of an encoder
Result neighbours(Specimen& specimen);      // of an encoder
Result one_offset(Specimen& specimen);      // of an encoder
// What becomes of a model without some (removals.cpp).
Result idle_heads(Specimen& specimen);
Result gradient_and_damage(Specimen& specimen);
Result pruning(Specimen& specimen);
// What heads write (circuits.cpp).
Result copying(Specimen& specimen);
Result copy_suppression(Specimen& specimen);
Result successors(Specimen& specimen);
// On texts with a known answer (names.cpp, needles.cpp).
Result name_movers(Specimen& specimen);
Result retrieval(Specimen& specimen);
// In models that are trained for it (formation.cpp).
Result induction_forms(Context& context, const Effort& effort);

// How much the loss on copies rises without these heads, and without as many others of their layers: the means over
// sequences go to the result. Returns whether the first is above the second.
bool add_knock_out(Specimen& specimen, const std::vector<HeadId>& heads, Result& to);

}  // namespace polyhead::replicate
