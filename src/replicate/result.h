// A published result about heads, and what came of looking for it here.
#pragma once

#include <string>
#include <vector>

#include "io/json.h"
#include "model/head.h"
#include "polyhead/heads.h"

namespace polyhead::replicate {

// What others have said. `number` is theirs; `definition` is how it is measured here, and says where that differs.
struct Published {
  std::string name;    // "sinks"
  std::string claim;   // "Most heads of a language model rest on the first token"
  std::string source;  // "Gu et al. 2025, When attention sink emerges in language models, table 1"
  std::string number;  // "70 % of the heads of GPT2-XL"
  std::string definition;
};

// comes_out: as they say, beyond the control; partly: some of it; not_here: the interval excludes it; cannot_tell: it
// does not.
enum class Verdict { comes_out, partly, not_here, cannot_tell };
std::string words_of(Verdict verdict);  // "comes out"

enum class Unit { number, percent, nats };

// A number with its interval, which is that of 95 % over the sequences that it was measured on.
struct Measure {
  std::string what;
  Estimate value;
  Unit unit = Unit::number;
};
// "0.83 (0.81 to 0.85)"; without an interval the number alone.
std::string text_of(const Measure& measure);

struct Result {
  std::string name, model;
  Verdict verdict = Verdict::cannot_tell;
  std::string sentence;  // the verdict in words, with the numbers that it rests on
  Measure ours, control;
  std::vector<Measure> further{};  // knock-outs among them
  std::vector<HeadId> heads{};     // that it is about, the clearest first
};

// Whether something is there: above the limit, and above the control.
Verdict verdict_on(const Estimate& ours, const Estimate& control, double limit);

io::Json to_json(const Result& result);
Result result_from(const io::Json& json);  // throws nlohmann's errors if it is not what to_json made

}  // namespace polyhead::replicate
