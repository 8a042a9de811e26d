// Which heads of one model can go: they are ranked on some sequences, go one after the other until others have lost
// more than a point of accuracy, and what is left is judged on a third part.
#pragma once

#include <string>
#include <vector>

#include "heads/pruning.h"
#include "study/course.h"

namespace polyhead::study {

struct RemovalPlan {
  std::int64_t samples = 256;  // sequences to rank by; as many others to judge by, and to report on
  std::size_t random_orders = 5;
  bool to_the_end = false;  // go on when the point is lost, for the whole curve
};

struct Removal {
  PruneCurve ranked;               // each head out alone: the one whose absence costs least goes first
  PruneCurve by_gradient;          // the head with the least gradient goes, then all are ranked anew
  std::vector<PruneCurve> random;  // in random orders
  // On the third part: the whole model, and what it loses without the heads that may go in each of the two orders.
  double accuracy = 0, ranked_loss = 0, by_gradient_loss = 0;

  double mean_random() const;  // how many may go, over the random orders
};

Removal remove_heads(Context& context, const model::Transformer& model, const train::Task& task,
                     const RemovalPlan& plan);

// In passes over `samples` sequences. How soon the point is lost is an estimate, to show progress by.
double passes_of(const RemovalPlan& plan, std::int64_t heads);

// Kept with the model's course.
std::string to_json(const Removal& removal);
Removal removal_from(const std::string& json);  // which to_json made

}  // namespace polyhead::study
