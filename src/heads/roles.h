// What a head is for, said only if it beats its control. "averaging" has no control: it is what a head does that has
// learnt nothing, which is why it is named.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heads/intervals.h"
#include "heads/survey.h"

namespace polyhead::heads {

// The names of the roles, beside those that relations bring with them.
inline constexpr const char* kInductionRole = "induction";
inline constexpr const char* kDuplicateRole = "duplicate";
inline constexpr const char* kPreviousRole = "previous token";
inline constexpr const char* kPositionalRole = "positional";
inline constexpr const char* kRareRole = "rare token";
inline constexpr const char* kSeparatorRole = "separator";
inline constexpr const char* kSpecialRole = "special token";
inline constexpr const char* kFirstRole = "first token";
inline constexpr const char* kAveragingRole = "averaging";

// The score of one role. It holds if score >= threshold and score >= control + kMargin: the control is what a head
// without that role would score on the same rows.
struct RoleScore {
  std::string role;  // "induction"
  double score = 0, threshold = 0, control = 0;
  std::string note = {};                  // "offset -1"
  std::optional<Interval> interval = {};  // of the score, over sequences; none if there is only one of them
  std::optional<double> p = {};           // how likely chance alone puts it so far above its control
  bool by_chance = false;                 // too likely, seeing how many heads and roles were tried
  bool number_only = false;               // said as a number: no role, since it changes from text to text

  double limit() const;
  bool holds() const;
  bool borderline() const;  // the interval spans the limit: other sequences may decide otherwise
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
//   induction       odds of weight on the token after its other occurrence, repeats  0.6, against one off and chance
//   duplicate       odds of weight on that other occurrence itself, on repeats       0.6, against chance
//   (a relation)    largest weight on the key that the relation names, on plain      the best fixed offset + 0.1
//   previous token  weight on the key before, on repeats                             0.4, against chance
//   positional      largest weight at one offset wherever there is a key, on plain   0.9, against chance
//   rare token      largest weight on the rarest token that the row sees, on plain   0.5, against chance
//   separator       odds of weight on separators, on plain                           0.6, against 1/8
//   special token   odds of weight on special tokens, on plain                       0.6, against 1/8
//   first token     odds of weight on the first token, on plain                      0.6, against 1/8
//   averaging       entropy relative to that of equal weights, on plain              0.9
//
// Odds are said as the weight on such keys if they were one key in eight. Roles that change from text to text are
// numbers only if the plain sequences are windows `of_texts`.
std::vector<HeadRoles> roles(const Survey& plain, const Survey& repeats, bool of_texts = false);

// The highest score of any head in each role, without intervals.
using HighestScores = std::map<std::string, double>;
HighestScores highest_scores(const Survey& plain, const Survey& repeats);

// So many orders of layers in which none is in its own place; none if there is only one layer.
std::vector<std::vector<std::size_t>> other_orders(std::size_t layers, std::size_t count, std::uint64_t seed);

// A further control of models that read text: what any head scores where the layers come in other orders is in the
// embeddings or in single layers, and not what the model does. All roles but averaging have to beat the highest, too.
void add_control(const HighestScores& of_other_orders, std::vector<HeadRoles>& to);

// Both surveys of a model, and the roles that follow from them; on the caller's tape, which must not record. Probes of
// texts bring the control of other orders with them, if any role would hold without it.
struct SurveyedRoles {
  Survey plain;
  std::vector<HeadRoles> roles;
};
SurveyedRoles survey_roles(autograd::Tape& tape, const model::Transformer& model, const Probes& probes);
SurveyedRoles survey_roles(Context& context, const model::Transformer& model, const Probes& probes);

// Odds are said as the weight that the keys would get if they were one in eight. The threshold is then odds of 10.5,
// logits that are higher by 2.4.
inline constexpr double kStandardShare = 1.0 / 8, kOnKeys = 0.6;
inline constexpr double kMargin = 0.1;
inline constexpr std::size_t kOtherOrders = 8;

}  // namespace polyhead::heads
