// A transformer as a folder on disk holds it: loaded, run, continued and scored, whole or without some of its heads.
//
//   Model model = Model::load("run");                             // a folder that polyhead train or prune wrote
//   Tensor logits = model.forward(context, tokens);               // i32 [B,T] -> [B,T,V], or [B,classes]
//   Tensor without = model.forward(context, tokens, {.knocked_out = {{0, 3}}});  // layer 0, head 3 gives nothing
//   std::string text = model.generate_text(context, {"It was"}, 20)[0];           // if the model has a tokenizer
//   Score score = model.score(context, {"It was the best of times"});            // and so wherever tokens are taken
//
// Letters: B batch, T tokens, V vocabulary.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "polyhead/context.h"
#include "polyhead/export.h"
#include "polyhead/tensor.h"
#include "polyhead/text.h"

namespace polyhead::model {
class Transformer;  // known to the library alone
class TokenizerOf;
class Writing;
}  // namespace polyhead::model

namespace POLYHEAD_PUBLIC polyhead {

// A head of a model, both numbers counted from 0.
struct HeadId {
  std::size_t layer = 0;
  std::int64_t head = 0;
  friend auto operator<=>(const HeadId&, const HeadId&) = default;
};
std::string to_string(const HeadId& id);  // "1.3": layer 1, head 3

// Sequences with their right answers.
struct Examples {
  Tensor tokens;   // i32 [B,T]
  Tensor targets;  // i32 [B,T], the token that comes next, -1 where none counts; of a classifier the class, [B]
  Tensor lengths;  // i32 [B]: tokens of each sequence that exist, those behind them are padding; or absent: all
};

struct Score {
  double loss = 0;      // cross entropy in nats, mean over all targets that count
  double accuracy = 0;  // over the same
};

struct ModelOptions {
  ConstTensorView lengths{};          // as in Examples
  std::vector<HeadId> knocked_out{};  // heads whose output is 0; they cost nothing
};

// A draw from softmax(logits / temperature), restricted to the likeliest tokens if asked for. Of equally likely ones
// the lower numbers come first.
struct Sampling {
  double temperature = 1;  // 0: always the likeliest token
  std::uint64_t seed = 1;
  std::int64_t top_k = 0;                 // only from so many; 0: from all
  double top_p = 1;                       // of those only the fewest that together have this much probability; above 0
  std::vector<std::int32_t> stop{};       // tokens that end a sequence
  std::vector<std::string> stop_texts{};  // where text is made: texts that end a sequence, which ends before them
};

// What a step adds to a sequence.
struct Addition {
  std::size_t prompt = 0;               // which sequence
  std::optional<std::int32_t> token{};  // none if only text that has waited is left to say
  std::string text{};                   // valid UTF-8: whole characters; empty while they wait for further tokens
  bool last = false;                    // the sequence has ended
};

// Is given every addition as it is made; false ends that sequence.
using OnAddition = std::function<bool(const Addition&)>;

// Its functions are const and may be called from several threads at once, each with a context of its own. Copies share
// the parameters.
class Model {
 public:
  // The folder holds config.json and model.safetensors, as polyhead or Hugging Face's libraries write them (the weights
  // may be in shards); or it is a GGUF file, or a folder with one. docs/heads.md lists the families. Of those that only
  // read a text, such as bert, the encoder is loaded: no pooler, no task's head, and all tokens are of the first type.
  // Throws Error (input) that names what is wrong if something is missing or damaged, if files do not match each other,
  // or if a weight is not finite; Error (io) if the system does not open a file. Where nothing is at the path, it may
  // be the name of a model that `polyhead get` has fetched, "smollm2". The parameters lie in the memory of
  // `context`, which will run the model, or of the host. On the host matrices of 16 bits stay as they are stored; on a
  // GPU they are rounded to bf16 or f16 if the context's precision says so, and become f32 otherwise.
  static Model load(const std::filesystem::path& path, const Context& context = Context(1));
  // Also saves the files of the tokenizer, if there is one. Each file is replaced as a whole or left alone. The folder
  // must exist.
  void save(const std::filesystem::path& folder) const;

  bool is_classifier() const noexcept;  // answers with a class
  bool is_encoder() const noexcept;     // returns what it makes of every token; other models predict the next one
  std::int64_t vocabulary() const noexcept;
  std::int64_t context_length() const noexcept;  // the most tokens that a sequence may have
  std::vector<HeadId> heads() const;             // layer by layer; after pruning layers differ
  std::int64_t parameter_count() const;

  // Logits [B,T,V], [B,classes] of a classifier, or [B,T,C] of an encoder.
  Tensor forward(Context& context, const ConstTensorView& tokens, const ModelOptions& options = {}) const;

  // Of an encoder, f32 [B,C]: the mean of its output over the tokens of each sequence.
  Tensor embed(Context& context, const ConstTensorView& tokens, const ModelOptions& options = {}) const;

  // What every head attends to: the weights of each layer, [B,H,T,T]; absent for a layer without heads.
  std::vector<Tensor> weights(Context& context, const ConstTensorView& tokens, const ModelOptions& options = {}) const;

  // The same of texts, padded on the right. Throws Error (value) for one that does not fit into the context.
  Tensor forward(Context& context, const std::vector<std::string>& texts,
                 const std::vector<HeadId>& knocked_out = {}) const;
  Tensor embed(Context& context, const std::vector<std::string>& texts,
               const std::vector<HeadId>& knocked_out = {}) const;
  std::vector<Tensor> weights(Context& context, const std::vector<std::string>& texts,
                              const std::vector<HeadId>& knocked_out = {}) const;

  // `count` tokens after each prompt; prompts may differ in length. A sequence ends early before a token of
  // sampling.stop. The same seed gives the same tokens.
  std::vector<std::vector<std::int32_t>> generate(Context& context,
                                                  const std::vector<std::vector<std::int32_t>>& prompts,
                                                  std::int64_t count, const Sampling& sampling = {}) const;

  // The model's own tokenizer, from the files that it was loaded from; they are read when it is first asked for. Throws
  // Error (input) if the model has none, or one of more tokens than the model.
  const Tokenizer& tokenizer() const;
  // A text as the model reads it: after the tokenizer's beginning and, for an encoder, before its ending.
  std::vector<std::int32_t> tokens_of(std::string_view text) const;
  // Texts as sequences of which every token but the first is to be predicted from those before it. One that is longer
  // than the context, or than `length` if that is not 0, is cut into several that lie side by side, each with the
  // beginning.
  Examples examples(const std::vector<std::string>& texts, std::int64_t length = 0) const;
  // The same some thousand tokens at a time, as score, head_importance and prune take them. Throws Error (value) for a
  // text in which there is nothing to predict.
  std::vector<Examples> batches(const std::vector<std::string>& texts, std::int64_t length = 0) const;

  // How the model continues texts: up to `count` tokens after each, ending before its end tokens too. What an addition
  // says is in the result.
  std::vector<std::string> generate_text(Context& context, const std::vector<std::string>& prompts, std::int64_t count,
                                         const Sampling& sampling = {}, const OnAddition& on_addition = {}) const;

  // The answer to a conversation, by the model's chat template (see Tokenizer::chat).
  std::string answer(Context& context, const std::vector<Message>& messages, std::int64_t count,
                     const Sampling& sampling = {}, const OnAddition& on_addition = {}) const;

  Score score(Context& context, const std::vector<Examples>& examples,
              const std::vector<HeadId>& knocked_out = {}) const;
  Score score(Context& context, const std::vector<std::string>& texts,
              const std::vector<HeadId>& knocked_out = {}) const;
  Score score(Context& context, std::initializer_list<const char*> texts) const {  // {"two", "texts"} might be examples
    return score(context, std::vector<std::string>(texts.begin(), texts.end()));
  }

  // For the library's own rooms.
  explicit Model(std::shared_ptr<const model::Transformer> transformer) : transformer_(std::move(transformer)) {}
  Model with(std::shared_ptr<const model::Transformer> transformer) const;  // the same tokenizer
  const model::Transformer& transformer() const noexcept { return *transformer_; }

 private:
  std::shared_ptr<const model::Transformer> transformer_;
  std::shared_ptr<model::TokenizerOf> tokenizer_{};
};

// Sequences that a model continues, step by step:
//
//   Generation generation(context, model, prompts, 20, {.stop = model.tokenizer().ends()}, true);
//   while (!generation.done()) {
//     for (const Addition& addition : generation.next()) ...
//   }
//
// The context must outlive it. The tokens are those of Model::generate.
class Generation {
 public:
  // `text`: additions have text, by the model's tokenizer.
  Generation(Context& context, const Model& model, const std::vector<std::vector<std::int32_t>>& prompts,
             std::int64_t count, const Sampling& sampling = {}, bool text = false);
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();

  bool done() const noexcept;
  std::vector<Addition> next();  // one for each sequence that goes on; none once all have ended
  void end(std::size_t prompt);  // nothing more of this one

 private:
  std::unique_ptr<model::Writing> writing_;
};

}  // namespace polyhead
