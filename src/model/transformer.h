// A transformer of blocks of attention and feed-forward, with a gate on every head; config.h says how they are joined.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/functions.h"
#include "model/config.h"

namespace polyhead::model {

class KvCaches;

// Options of a pass; everything is off by default.
struct PassOptions {
  bool training = false;                  // dropout is on
  std::uint64_t seed = 0;                 // of dropout; a different one for every step
  std::int64_t first_sequence = 0;        // of the batch that these are a part of: dropout is that of the whole
  ConstTensorView lengths{};              // i32 [B]: tokens that exist; the rest is padding
  std::vector<Tensor>* gates{};           // per layer [H] or [B,H], an absent tensor for all ones
  bool gate_gradients = false;            // requires gates
  MultiHeadWants wants{};                 // statistics, weights ... of every layer
  std::optional<std::size_t> wants_of{};  // ... or of this one alone
  std::vector<Tensor>* shifts{};          // per layer [C] or [B,T,C], added to what W_O gives; absent for none
  // The tokens come after those that are cached here, and are cached in turn. For a language model, on a tape that does
  // not record; without lengths and wants.
  KvCaches* caches{};
  // The pass is recorded to be replayed for later tokens: the caches were told by place() where its tokens stand, and
  // are told by advance() when they count.
  bool recorded = false;
  // Receives what every layer reads, [B,T,C] each, and the last one's output.
  std::vector<autograd::Variable>* streams{};
  bool last_only = false;  // of a language model: the logits of the last token, [B,1,V]; on a tape that does not record
  ConstTensorView positions{};  // i32 [B,T]: of the tokens; absent: 0, 1, 2 ...; caches have their own
};

// The distribution that weights are drawn from. Uniform numbers of the same spread take a fifth of the time: for a
// model that only shows what heads do before training.
enum class Drawn { normal, uniform };

class Transformer {
 public:
  // Weights from the seed: normal with spread 1/sqrt(3 inputs), which is GPT-2's 0.02 at its width, those that write
  // into the residual stream smaller by sqrt(2 layers); embeddings 0.2, or 0.02 if tied; biases 0, norms 1. They lie in
  // the memory of the context that passes run on, or on the host. The numbers do not depend on how many threads draw
  // them.
  explicit Transformer(const Config& config, std::uint64_t seed = 0, DType dtype = DType::f32,
                       const std::shared_ptr<Allocator>& allocator = host_allocator(), int threads = 1,
                       Drawn from = Drawn::normal);

  const Config& config() const noexcept { return config_; }
  DType dtype() const noexcept { return dtype_; }
  const std::shared_ptr<Allocator>& allocator() const noexcept { return allocator_; }  // where the parameters lie
  std::vector<autograd::Parameter*> parameters();
  std::vector<const autograd::Parameter*> parameters() const;
  std::int64_t parameter_count() const;

  // Parameters hold nothing yet and are to be moved in: no numbers are drawn, no memory is touched.
  static std::unique_ptr<Transformer> unfilled(const Config& config, DType dtype = DType::f32,
                                               const std::shared_ptr<Allocator>& allocator = host_allocator());

  // Logits [B,T,V]; [B,classes] of a classifier; of an encoder a row for every token, [B,T,C]. Tokens, i32 [B,T], must
  // live as long as the pass. Tokens, lengths, gates and shifts may lie on the host. A pass belongs to its tape and
  // leaves the model as it is, so several may run at once, each with its own.
  autograd::Variable forward(autograd::Tape& tape, const ConstTensorView& tokens,
                             const PassOptions& options = {}) const;

  // The parts of such a pass, for callers that begin late or stop early. read: tokens with their positions, [B,T,C].
  // through: x [B,T,C] after layers [first, last). answer: forward's result from the last layer's x or, in a language
  // model, from some of its rows [N,C].
  autograd::Variable read(autograd::Tape& tape, const ConstTensorView& tokens, const PassOptions& options) const;
  autograd::Variable through(autograd::Tape& tape, autograd::Variable x, std::size_t first, std::size_t last,
                             const PassOptions& options) const;
  autograd::Variable answer(autograd::Tape& tape, autograd::Variable x, const PassOptions& options) const;

  // What the tape's last pass left in a layer: statistics, weights, heads, and after backward the gradients of the
  // gates. A layer without heads leaves nothing.
  const autograd::MultiHeadState& attention(const autograd::Tape& tape, std::size_t layer) const {
    return tape.state<autograd::MultiHeadState>(&blocks_[layer]);
  }

  MultiHeadShape attention_shape(std::size_t layer) const;
  // Null are those that the shape does not have and, in a layer without heads, all but the output's bias.
  const MultiHeadParameters<autograd::Parameter*>& attention_parameters(std::size_t layer) const {
    return blocks_[layer].attention;
  }

 private:
  using Parameter = autograd::Parameter;
  struct Normalised {
    Parameter *gamma = nullptr, *beta = nullptr;  // none, none: no norm; no beta: RMSNorm
  };
  struct Linear {
    Parameter *weight = nullptr, *bias = nullptr;
  };
  struct Block {
    Normalised attention_norm, feed_forward_norm;
    Normalised attention_out_norm, feed_forward_out_norm;  // of a sandwich
    MultiHeadParameters<Parameter*> attention;
    Linear up, down;
  };
  struct Maker;

  Transformer(const Config& config, std::optional<std::uint64_t> seed, DType dtype,
              const std::shared_ptr<Allocator>& allocator, int threads, Drawn from);

  autograd::Variable normalised(autograd::Tape& tape, autograd::Variable x, const Normalised& norm,
                                std::optional<DType> dtype = {}) const;
  // What attention or feed-forward reads: the norm of the stream x, or x itself if norms come later (post_norm).
  autograd::Variable inner(autograd::Tape& tape, autograd::Variable x, const Normalised& norm, DType dtype) const;
  // The product with what they read.
  autograd::Variable linear_of_inner(autograd::Tape& tape, autograd::Variable x, const Normalised& norm,
                                     const Linear& of, std::optional<DType> dtype = {}) const;
  autograd::Variable block(autograd::Tape& tape, std::size_t layer, autograd::Variable x,
                           const PassOptions& options) const;
  // x plus the attention over it.
  autograd::Variable attend(autograd::Tape& tape, std::size_t layer, autograd::Variable x,
                            const PassOptions& options) const;
  // Rounds what the products of these layers read, all at once, if they read 16 bits beside a stream of this type.
  void copy_parameters(autograd::Tape& tape, std::size_t first, std::size_t last, DType stream) const;
  MultiHeadOptions attention_options(autograd::Tape& tape, std::size_t layer, const PassOptions& options) const;
  // Tokens with their positions added: [B,T,C].
  autograd::Variable embed(autograd::Tape& tape, const ConstTensorView& tokens, const PassOptions& options) const;
  // attend() of a layer that has lost all its heads.
  autograd::Variable attend_without_heads(autograd::Tape& tape, std::size_t layer, autograd::Variable x) const;
  // Attention of new tokens x [B,n,C] over all that a layer remembers: the heads side by side, [B,n,H*D].
  autograd::Variable attend_cached(autograd::Tape& tape, std::size_t layer, autograd::Variable x,
                                   const MultiHeadOptions& how, const PassOptions& options) const;
  // The first half of a feed-forward network that has no gate: [..,hidden].
  autograd::Variable activated(autograd::Tape& tape, autograd::Variable x, const Linear& up) const;
  // `onto` plus the feed-forward network of x.
  autograd::Variable feed_forward(autograd::Tape& tape, std::size_t layer, autograd::Variable x,
                                  autograd::Variable onto, const PassOptions& options) const;

  Config config_;
  DType dtype_;
  std::shared_ptr<Allocator> allocator_;
  std::deque<Parameter> parameters_;  // in the order they were made; addresses stay
  Parameter *tokens_ = nullptr, *positions_ = nullptr;
  Tensor sinusoids_;          // [context,C]
  Tensor rotary_factors_;     // f32 [pairs], or absent
  std::deque<Block> blocks_;  // addresses stay: they are a tape's keys to what a pass leaves
  Normalised embedding_norm_, final_norm_;
  Linear output_;
};

}  // namespace polyhead::model
