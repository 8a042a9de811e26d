// A model at work on one text: what every head does and what the model makes of it, with any gates.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exam/language.h"
#include "heads/importance.h"
#include "heads/roles.h"
#include "model/likely.h"

namespace polyhead::exam {

using GateList = std::vector<std::pair<HeadId, float>>;  // those that are not 1

struct Observation {
  std::vector<std::int32_t> tokens;
  heads::Survey survey;                 // on this text
  std::vector<heads::HeadRoles> roles;  // of the model, whatever the text; with all gates at 1
  std::string note{};                   // why there are none
  // Of a language model: what it expects after each token. Of a classifier: the classes, in one row.
  std::vector<std::vector<model::Likely>> expected;
  std::vector<double> losses;     // of a language model: of token t + 1 at t, so one fewer than tokens
  std::vector<double> embedding;  // of an encoder: the mean over the tokens, [C]
};

// What a text loses without one head.
struct Damage {
  HeadId id;
  double loss = 0;  // the rise of the mean loss; of a classifier, of the loss of the class that is likeliest with all
                    // heads; of an encoder, the cosine distance of its embedding
};

// Not for several threads at once.
class Observer {
 public:
  // Refuses (input) what cannot be loaded. Finds the roles of the heads: by the standard probe, unless they are kept
  // already, or on sequences of the model's task.
  Observer(Context& context, const std::filesystem::path& model);

  const model::Transformer& model() const noexcept { return *model_; }
  const Language& language() const noexcept { return *language_; }
  Context& context() const noexcept { return context_; }

  // Throws Error (input) for a text without tokens, or with more than `most`.
  std::vector<std::int32_t> tokens_of(const std::string& text, std::int64_t most) const;

  Observation observe(const std::vector<std::int32_t>& tokens, const GateList& gates = {});
  // The attention of these heads of a layer, f32 [heads,T,T]; of all heads if none are named.
  Tensor weights(const std::vector<std::int32_t>& tokens, const GateList& gates, std::size_t layer,
                 const std::vector<std::int32_t>& heads = {});
  // That of all heads of all layers in one pass, f32 [heads,T,T] by layer; absent where a layer has no heads.
  std::vector<Tensor> weights_of_all(const std::vector<std::int32_t>& tokens, const GateList& gates);

  // Of a language model: the likeliest token after these.
  std::int32_t next_token(const std::vector<std::int32_t>& tokens, const GateList& gates);

  // By the gradient of the gates, all heads in one backward pass, relative to their layer; empty unless it is a
  // language model.
  std::vector<HeadImportance> gradients(const std::vector<std::int32_t>& tokens);
  // One pass without the head, compared with `whole`, the view with all gates at 1.
  Damage damage(const Observation& whole, const HeadId& head);

 private:
  model::Gates gates_of(const GateList& gates) const;
  // A pass that leaves the weights of `layer`, or of all, with the tape; `numbers` of them.
  void pass_for_weights(const std::vector<std::int32_t>& tokens, const GateList& gates,
                        std::optional<std::size_t> layer, const std::vector<std::int32_t>& heads, double numbers);
  Tensor weights_left_by(std::size_t layer);

  Context& context_;
  std::unique_ptr<model::Transformer> model_;
  std::unique_ptr<Language> language_;
  std::vector<std::int32_t> separators_, special_;
  autograd::Tape tape_;                  // keeps the weights packed from text to text
  std::vector<heads::HeadRoles> roles_;  // empty if what the model was trained on is not there any more
  heads::Survey repeats_;                // then of random repeats
};

}  // namespace polyhead::exam
