// What every head of a model does on probes: the statistics of the fused kernel, and where each row's largest weight
// lay. Nothing here is as large as [T,S].
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "heads/probe.h"
#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::heads {

// How often something was the case, out of how many.
struct Share {
  std::int64_t hits = 0, count = 0;
  double value() const { return static_cast<double>(hits) / static_cast<double>(count); }  // needs a count above 0
};

struct HeadSurvey {
  HeadId id;
  std::array<double, kFullStatistics> sums{};

  // By offset j - p_i: in how many rows the largest weight lay there. Rows that see fewer than three keys have little
  // choice and do not count.
  std::map<std::int64_t, std::int64_t> offsets;
  Share rarest;                            // the largest weight lay on the rarest token that the row sees
  std::map<std::string, Share> relations;  // it lay on the key that the relation names
  std::vector<std::int64_t> argmax_keys;   // per row of all probes, the key of the largest weight: for comparing heads

  double sum(Statistic which) const { return sums[static_cast<std::size_t>(which)]; }
  double mean(Statistic value, Statistic count) const;
  double target(Slot slot) const;  // mean weight on the key of this slot
};

// What any head reaches by chance on the rows of the probes.
struct Chance {
  double first = 0;                              // weight on the first key if all visible ones get the same
  double marked = 0;                             // the same on the marked ones
  std::int64_t rows = 0;                         // that see three keys or more
  std::map<std::int64_t, std::int64_t> offsets;  // how many of them have a key at this offset
  double rarest = 0;
  std::map<std::string, double> relations;  // the best that one fixed offset can do
};

struct Survey {
  std::vector<HeadSurvey> heads;
  Chance chance;
};

// The offset at which a head's largest weight lies most often, and its share of the rows that have a key there. Offsets
// at which fewer than half of the rows have a key do not count.
std::pair<std::int64_t, double> commonest_offset(const HeadSurvey& head, const Chance& chance);

// `counts`: how often each token occurs in the model's data, to find the rarest; empty: nothing is rare.
Survey survey(Context& context, const model::Transformer& model, const std::vector<Probe>& probes,
              const std::vector<std::int64_t>& counts = {});

// The same on the caller's tape, which must not record, with gates as PassOptions takes them. `on_output` receives the
// model's output for each probe.
struct SurveyPass {
  std::vector<Tensor>* gates{};
  std::function<void(autograd::Variable)> on_output{};
};
Survey survey(autograd::Tape& tape, const model::Transformer& model, const std::vector<Probe>& probes,
              const std::vector<std::int64_t>& counts, const SurveyPass& pass);

// How often the largest weights of two heads lie on the same key; both were surveyed with the same probes.
double agreement(const HeadSurvey& a, const HeadSurvey& b);
// The same for every pair, [heads][heads].
std::vector<std::vector<double>> agreement(const Survey& survey);

}  // namespace polyhead::heads
