// How heads form: variable-length repeats with two layers, and controls that develop no induction heads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heads/roles.h"
#include "study/comparison.h"

namespace polyhead::study {

// The course of one seed. Observed at every look: the previous-token scores of all heads, then their induction scores,
// both as their roles have them.
struct Formation {
  std::string name;
  Course course;
  std::vector<heads::HeadRoles> roles;  // at the end
  double naive = 0;                     // the best induction score on segments of one length, that of repeat-fixed
  double ours = 0;                      // the same on segments of different lengths

  std::vector<double> previous(const Point& point) const;   // by head
  std::vector<double> induction(const Point& point) const;  // by head
  // The head that holds the role with the highest score; null if none does.
  const heads::HeadRoles* best(const std::string& role) const;
};

// The accuracy with gates shut.
struct KnockOut {
  double nothing = 0;  // all open
  // Nothing if the model has no such head.
  std::optional<double> previous{}, induction{}, both{}, others{};
  std::string previous_heads{}, induction_heads{};  // "0.1, 0.3"
};

KnockOut knock_out(Context& context, const Formation& formation);

struct FormationPlan {
  std::int64_t width = 128, heads = 2, steps = 300, batch = 32, every = 10;
  double rate = 2e-3;
  std::size_t seeds = 3;
};

struct Formations {
  std::vector<Formation> two_layers, one_layer, fixed_length;  // by seed
  std::vector<KnockOut> knock_outs;                            // in two_layers
};

std::vector<Job> form(const FormationPlan& plan, const std::filesystem::path& models, const Watch& watch,
                      Formations& to);
double work_of(const FormationPlan& plan, const std::filesystem::path& models);

// Probes of random tokens of a task, with segments of different lengths or of one.
std::vector<heads::Probe> repeat_probes(const train::Task& task, std::optional<std::int64_t> length = {});

}  // namespace polyhead::study
