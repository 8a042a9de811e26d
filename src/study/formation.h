// How heads form: variable-length repeats with two layers, and the controls that do not grow induction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heads/roles.h"
#include "study/course.h"

namespace polyhead::study {

// What every head scored at one step.
struct Snapshot {
  Point point;
  std::vector<double> previous, induction;  // by head
};

struct Formation {
  std::string name;
  Course course;
  std::vector<Snapshot> snapshots;
  std::vector<heads::HeadRoles> roles;  // at the end
  double naive = 0;                     // the best induction score where every segment has the length it was trained on
  double ours = 0;                      // where lengths differ

  std::optional<heads::HeadId> best(const std::string& role) const;  // that holds
  // Best score among heads, at one snapshot.
  static double most(const std::vector<double>& scores);
};

struct KnockOut {
  std::string what;
  double accuracy = 0;
};

struct FormationPlan {
  std::int64_t width = 128, heads = 2, steps = 300, batch = 32, every = 10;
  double rate = 2e-3;
};

struct Formations {
  Formation two_layers, one_layer, fixed_length;
  std::vector<KnockOut> knock_outs;  // in two_layers: each kind of head alone, both, and the others as control
};

std::vector<Job> form(const FormationPlan& plan, const Watch& watch, Formations& to);
// When the jobs are done.
void knock_out(Context& context, Formations& formations);

// Probes of random tokens of a task, with segments of different lengths or of one.
std::vector<heads::Probe> repeat_probes(const train::Task& task, std::optional<std::int64_t> length = {});

}  // namespace polyhead::study
