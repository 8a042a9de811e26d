// What a head is for, said only if it beats its control. "averaging" has no control: it is what a head does that has
// learnt nothing, which is why it is named.
#pragma once

#include <string>
#include <vector>

#include "heads/survey.h"

namespace polyhead::heads {

// The score of one role. It holds if score >= threshold and score >= control + kMargin: the control is what a head
// without that role would score on the same rows.
struct RoleScore {
  std::string role;  // "induction"
  double score = 0, threshold = 0, control = 0;
  std::string note = {};  // "offset -1"
  bool holds() const;
  // So close to the limit that another seed may decide otherwise.
  bool close() const;
};

struct HeadRoles {
  HeadId id;
  std::vector<RoleScore> scores;  // of every role that was tried, the more specific first

  // The first role that holds; null if none does.
  const RoleScore* role() const;
  // The score in a role, whether or not it holds; null if the role was not tried.
  const RoleScore* score_in(const std::string& role) const;
};

// `plain`: on sequences like those the model was trained on; `repeats`: on random segments of different lengths,
// repeated. The two may be the same survey.
//
//   induction       weight on the token after its other occurrence, on repeats       0.4, against one off and chance
//   duplicate       weight on that other occurrence itself, on repeats               0.4, against chance
//   (a relation)    largest weight on the key that the relation names, on plain      the best fixed offset + 0.1
//   previous token  weight on the key before, on repeats                             0.4, against chance
//   positional      largest weight at one offset wherever there is a key, on plain   0.9, against chance
//   rare token      largest weight on the rarest token that the row sees, on plain   0.5, against chance
//   separator       weight on the marked keys, on plain                              0.4, against their share of keys
//   first key       weight on the first key, on plain                                0.4, against chance
//   averaging       entropy relative to that of equal weights, on plain              0.9
std::vector<HeadRoles> roles(const Survey& plain, const Survey& repeats);

// Both surveys of a model, and the roles that follow from them; on the caller's tape, which must not record.
struct SurveyedRoles {
  Survey plain;
  std::vector<HeadRoles> roles;
};
SurveyedRoles survey_roles(autograd::Tape& tape, const model::Transformer& model, const Probes& probes);
SurveyedRoles survey_roles(Context& context, const model::Transformer& model, const Probes& probes);

inline constexpr double kMargin = 0.1;
inline constexpr double kClose = 0.05;

}  // namespace polyhead::heads
