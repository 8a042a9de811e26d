// What every head of a model does on probes: the statistics of the fused kernel, and where each row's largest weight
// lay. Nothing here is as large as [T,S].
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
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

// Kinds of keys that a head may look for.
enum KeyKind : int {
  kFirst,       // the first token of the sequence, whatever it is
  kSpecial,     // further special tokens
  kSeparators,  // punctuation and the like
  kOnSlots,     // the first of those that the probe's slots name
  kKinds = kOnSlots + 4
};
inline KeyKind on_slot(Slot slot) { return static_cast<KeyKind>(kOnSlots + static_cast<int>(slot)); }

// The odds of weight w on the keys of a kind against the odds of their share s of the keys that a row sees, pooled over
// rows as Mantel and Haenszel do: sum of w (1 - s) / sum of (1 - w) s. A head whose logits for such keys are higher by
// b has odds of e^b, however many keys there are.
struct Odds {
  double favour = 0, against = 0;
  void add(const Odds& more) {
    favour += more.favour;
    against += more.against;
  }
  double value() const { return favour / against; }
  // The weight that such keys would get if they were this share of all: the same number from 0 to 1.
  double weight_at(double share) const {
    return known() ? favour * share / (favour * share + against * (1 - share)) : 0;
  }
  bool known() const { return favour + against > 0; }  // there were rows that see any
};

// What a head did in one sequence.
struct SequenceSurvey {
  int group = 0;  // that of its probe
  std::array<float, kFullStatistics> sums{};
  std::array<Odds, kKinds> odds{};
  std::map<std::int64_t, std::int64_t> offsets;  // these three as in HeadSurvey
  Share rarest;
  std::map<std::string, Share> relations;
};

struct HeadSurvey {
  HeadId id;
  std::array<double, kFullStatistics> sums{};
  std::array<Odds, kKinds> odds{};  // over rows that see eight keys or more

  // By offset j - p_i: in how many rows the largest weight lay there. Rows that see fewer than three keys have little
  // choice and do not count.
  std::map<std::int64_t, std::int64_t> offsets;
  Share rarest;                            // the largest weight lay on the rarest token that the row sees
  std::map<std::string, Share> relations;  // it lay on the key that the relation names
  std::vector<std::int64_t> argmax_keys;   // per row of all probes, the key of the largest weight: for comparing heads
  std::vector<SequenceSurvey> sequences;   // of which all of the above are the sums

  double sum(Statistic which) const { return sums[static_cast<std::size_t>(which)]; }
  double mean(Statistic value, Statistic count) const;
  double target(Slot slot) const;  // mean weight on the key of this slot
};

// What any head reaches by chance on the rows of the probes.
struct Chance {
  double first = 0;                              // weight on the first key if all visible ones get the same
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
// model's output for each probe. `order`: the layers in another order than theirs, each once.
struct SurveyPass {
  std::vector<Tensor>* gates{};
  const std::vector<std::size_t>* order{};
  std::function<void(autograd::Variable)> on_output{};
};
Survey survey(autograd::Tape& tape, const model::Transformer& model, std::span<const Probe> probes,
              const std::vector<std::int64_t>& counts, const SurveyPass& pass);

// How often the largest weights of two heads lie on the same key; both were surveyed with the same probes.
double agreement(const HeadSurvey& a, const HeadSurvey& b);
// The same for every pair, [heads][heads].
std::vector<std::vector<double>> agreement(const Survey& survey);

}  // namespace polyhead::heads
