#include "cli/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "cli/commands.h"

namespace polyhead::cli {
namespace {

[[noreturn]] void fail_overflow() {
  throw Failure(Exit::input, "the counts of this configuration exceed 63 bits; choose smaller sizes or fewer --tokens");
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  if (__builtin_add_overflow(a, b, &a)) fail_overflow();
  return a;
}

std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) fail_overflow();
  }
  return result;
}

void add(Part& into, const Part& part) {
  into.weights = sum(into.weights, part.weights);
  into.biases = sum(into.biases, part.biases);
  into.model_weights = sum(into.model_weights, part.model_weights);
  into.model_biases = sum(into.model_biases, part.model_biases);
  into.flops_last = sum(into.flops_last, part.flops_last);
  into.flops_sequence = sum(into.flops_sequence, part.flops_sequence);
}

Model completed(Model model) {
  if (model.head_dim == 0) {
    if (model.width % model.heads != 0) {
      throw Failure(Exit::input,
                    fmt::format("a width of {} does not divide into {} heads ({} left over); choose a number of heads "
                                "that divides it, or say --head-dim",
                                model.width, model.heads, model.width % model.heads));
    }
    model.head_dim = model.width / model.heads;
  }
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.heads % model.kv_heads != 0) {
    throw Failure(Exit::input, fmt::format("{} key/value heads do not divide {} heads; choose --kv-heads among the "
                                           "divisors of {}",
                                           model.kv_heads, model.heads, model.heads));
  }
  return model;
}

// Counts one model and keeps the running sums of its groups.
class Counter {
 public:
  explicit Counter(const Model& model) : m_(model) {}

  std::vector<Part> parts() {
    attention();
    if (m_.ff > 0) feed_forward();
    if (m_.norm != Norm::none) norms();
    if (m_.vocabulary > 0 || m_.context > 0) embeddings();
    total_.kind = Kind::total;
    total_.name = "total";
    parts_.push_back(total_);
    return std::move(parts_);
  }

 private:
  std::int64_t attention_blocks() const { return m_.layers + 2 * m_.decoder_layers; }
  std::int64_t ff_blocks() const { return m_.ff > 0 ? m_.layers + m_.decoder_layers : 0; }

  void put(Part part, std::initializer_list<Part*> sums) {
    part.model_weights = product({part.weights, part.times});
    part.model_biases = product({part.biases, part.times});
    for (Part* into : sums) add(*into, part);
    add(total_, part);
    parts_.push_back(std::move(part));
  }

  Part matrix(const std::string& name, std::int64_t in, std::int64_t out, bool bias, std::int64_t times) const {
    Part part{.name = name, .shape = fmt::format("{} x {}", in, out), .times = times, .weights = product({in, out})};
    part.biases = bias ? out : 0;
    part.flops_last = product({2, part.weights, times});
    part.flops_sequence = product({part.flops_last, m_.tokens});
    return part;
  }

  // Scores and values cost the same: one multiply-add per visible pair and head dimension.
  Part pairs(const std::string& name) const {
    const std::int64_t all = product({m_.tokens, m_.tokens});
    const std::int64_t visible = sum(all, m_.tokens) / 2;
    const std::int64_t self = m_.causal ? visible : all;
    // A decoder's self-attention is always causal, its cross-attention never.
    const std::int64_t model_pairs = sum(product({self, m_.layers}), product({sum(visible, all), m_.decoder_layers}));
    return {.name = name,
            .shape = {},
            .times = attention_blocks(),
            .flops_last = product({2, m_.heads, m_.head_dim, m_.tokens, attention_blocks()}),
            .flops_sequence = product({2, m_.heads, m_.head_dim, model_pairs})};
  }

  void attention() {
    const std::int64_t inner = product({m_.heads, m_.head_dim}), shared = product({m_.kv_heads, m_.head_dim});
    const std::int64_t times = attention_blocks();
    Part qkv{.kind = Kind::sum, .name = "Q, K, V", .shape = {}, .times = times};
    Part all{.kind = Kind::sum, .name = "attention", .shape = {}, .times = times};
    put(matrix("W_Q", m_.width, inner, m_.qkv_bias, times), {&qkv, &all});
    put(matrix("W_K", m_.width, shared, m_.qkv_bias, times), {&qkv, &all});
    put(matrix("W_V", m_.width, shared, m_.qkv_bias, times), {&qkv, &all});
    parts_.push_back(qkv);
    put(pairs("scores q.k"), {&all});
    put(pairs("values p.v"), {&all});
    put(matrix("W_O", inner, m_.width, m_.out_bias, times), {&all});
    parts_.push_back(all);
  }

  void feed_forward() {
    Part all{.kind = Kind::sum, .name = "FFN", .shape = {}, .times = ff_blocks()};
    if (m_.gated_ff) put(matrix("FFN gate", m_.width, m_.ff, m_.out_bias, ff_blocks()), {&all});
    put(matrix("FFN in", m_.width, m_.ff, m_.out_bias, ff_blocks()), {&all});
    put(matrix("FFN out", m_.ff, m_.width, m_.out_bias, ff_blocks()), {&all});
    parts_.push_back(all);
  }

  void norms() {
    Part part{.name = "norms", .shape = std::to_string(m_.width), .weights = m_.width};
    part.times = attention_blocks() + ff_blocks() + (m_.final_norm ? 1 : 0);
    part.biases = m_.norm == Norm::layer ? m_.width : 0;
    put(part, {});
  }

  void embeddings() {
    Part tokens = matrix("tokens", m_.vocabulary, m_.width, false, 1);
    Part head = matrix("output head", m_.width, m_.vocabulary, false, 1);
    tokens.flops_last = tokens.flops_sequence = 0;  // a look-up
    if (m_.tied) {
      head.shape = "= tokens";
      head.weights = 0;
    }
    Part positions = matrix("positions", m_.context, m_.width, false, 1);
    positions.flops_last = positions.flops_sequence = 0;
    if (m_.vocabulary > 0) put(tokens, {});
    if (m_.context > 0) put(positions, {});
    if (m_.vocabulary > 0) put(head, {});
  }

  const Model& m_;
  std::vector<Part> parts_;
  Part total_;
};

}  // namespace

const Part& Count::of(const std::string& name) const& {
  static const Part absent;
  const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; });
  return part == parts.end() ? absent : *part;
}

Count count(Model model) {
  Count result{.model = completed(std::move(model)), .parts = {}};
  result.parts = Counter(result.model).parts();
  return result;
}

}  // namespace polyhead::cli
