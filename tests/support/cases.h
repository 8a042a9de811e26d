// ONE catalogue of cases, for correctness, gradients and speed alike. A case is a description; its tensors are made
// when it is materialised, always with the same numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "polyhead/attention.h"
#include "support/random.h"

namespace polyhead::test {

enum class Gates : std::uint8_t { none, per_head, per_sequence };  // [H], [B,H]; some are 0

enum class Logits : std::uint8_t {
  ordinary,  // of variance 1
  spread,    // of standard deviation 1e4
  high,      // 1e4 and a little
  low,       // -1e4 and a little
};

// Which tensor holds a number that is none, in a place that some queries see and others do not.
enum class Spoilt : std::uint8_t { nothing, queries, keys, values, bias, upstream, gates };

struct Case {
  std::string name;  // letters, digits and underscores: fit for the name of a test
  std::int64_t batch = 2, heads = 4, kv_heads = 4, queries = 37, keys = 131, head_dim = 16, value_dim = 16;
  DType dtype = DType::f32;
  std::optional<DType> storage;  // of k and v, where it is another
  Layout layout = Layout::heads_outside;

  // Scalars are asked for as in a call. Tensors are absent here and made from what follows.
  AttentionOptions options;
  std::optional<Dims> keep, bias;  // their shapes
  std::optional<DType> bias_dtype;
  double bias_hides = 0;     // the share of -inf in the bias
  bool bias_pieces = false;  // its rows begin at multiples of 16 bytes, as the copy engine of a GPU takes them
  bool alibi = false, alibi_by_sequence = false, sink_logit = false;
  bool first_positions = false;  // a number of its own for every sequence
  bool wide_integers = false;    // lengths, offsets and positions are i64
  bool key_lengths = false, key_start = false, query_lengths = false;
  bool packed = false;  // four sequences, one of no queries and one of no keys; queries and keys are the totals
  Gates gates = Gates::none;
  Logits logits = Logits::ordinary;
  bool hidden_nan = false;  // NaN and infinity in every k and v that no query sees, and in all of padded queries
  bool closed_nan = false;  // the same in the values of heads whose gate is 0
  Spoilt spoilt = Spoilt::nothing;
  bool infinite = false;  // by +inf, not by NaN

  AttentionWants wants;  // with the full set of statistics marked and target keys are made too
  bool dlse = false, dweights = false;
  // The keys are a shard: output and lse, which the backward pass is given, are those of as many keys again.
  bool shard = false;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Movable; the views stay good.
struct Materialised {
  std::string name;
  TensorView q, k, v;
  TensorView bias, sink_logit, gates;  // what options holds, to be written to
  AttentionOptions options;
  AttentionWants wants;
  UpstreamGradients upstream;
  GradientWants gradient_wants;           // of all that there is
  ForwardResults forward, exact_forward;  // of a shard: as they are given, and in double
  std::vector<Tensor> memory;
};

Materialised materialise(const Case& recipe);

// Every option alone and in all legal pairs; all sizes, types, layouts and corner cases. They want everything that
// there is to want; a test asks for less by changing `wants`.
std::vector<Case> catalogue();

// The same for gradients: smaller, and with upstream gradients of lse and weights.
std::vector<Case> gradient_catalogue();

// Cases of gradient_catalogue() as shards.
std::vector<Case> shard_catalogue();

// NaN and infinity that some queries see: for backends that keep them to exactly those.
std::vector<Case> spoilt_catalogue();

}  // namespace polyhead::test
