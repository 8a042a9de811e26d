#include "model/transformer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/executor.h"
#include "core/numbers.h"
#include "core/philox.h"
#include "core/row_major.h"
#include "core/team.h"
#include "model/decoding.h"
#include "model/memory.h"
#include "ops/check.h"
#include "ops/norm.h"

namespace polyhead::model {

using autograd::Parameter;
using autograd::Tape;
using autograd::Variable;

namespace {

void set(const TensorView& tensor, std::int64_t n, double value) {
  store_number(value, tensor.dtype(),
               static_cast<std::byte*>(tensor.data()) + n * static_cast<std::int64_t>(size_of(tensor.dtype())));
}

// The standard deviation of weights with so many inputs.
double spread_for(std::int64_t inputs) { return 1 / std::sqrt(3.0 * static_cast<double>(inputs)); }

// Normal numbers [begin, end) of a tensor, begin even, by Box and Muller's method; each tensor has its own stream.
void fill_normal(const TensorView& tensor, std::int64_t begin, std::int64_t end, std::uint64_t seed,
                 std::uint32_t stream, double spread) {
  const Philox::Keys keys(seed);
  for (std::int64_t n = begin; n < end; n += 2) {
    const auto block = static_cast<std::uint64_t>(n / 2);
    const Philox::Words words = Philox::words(
        keys, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, 0x7e160000u});
    const double u = (static_cast<double>(words[0]) + 1) / 4294967296.0;  // (0,1]
    const double angle = 2 * std::numbers::pi * static_cast<double>(words[1]) / 4294967296.0;
    const double radius = spread * std::sqrt(-2 * std::log(u));
    set(tensor, n, radius * std::cos(angle));
    if (n + 1 < end) set(tensor, n + 1, radius * std::sin(angle));
  }
}

// Uniform numbers of the same spread; begin is a multiple of 4.
void fill_uniform(const TensorView& tensor, std::int64_t begin, std::int64_t end, std::uint64_t seed,
                  std::uint32_t stream, double spread) {
  const Philox::Keys keys(seed);
  const double step = spread * std::sqrt(3.0) / 2147483648.0;
  for (std::int64_t n = begin; n < end; n += 4) {
    const auto block = static_cast<std::uint64_t>(n / 4);
    const Philox::Words words = Philox::words(
        keys, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, 0x7e160001u});
    for (std::int64_t each = n; each < std::min(n + 4, end); ++each) {
      set(tensor, each, (static_cast<double>(words[static_cast<std::size_t>(each - n)]) - 2147483647.5) * step);
    }
  }
}

void fill(const TensorView& tensor, double value) {
  for (std::int64_t n = 0; n < tensor.count(); ++n) set(tensor, n, value);
}

// sin and cos of position / 10000^(2c/C), alternating, as in the first transformer.
Tensor sinusoids(std::int64_t context, std::int64_t width, DType dtype) {
  Tensor table = Tensor::empty({context, width}, dtype);
  for (std::int64_t t = 0; t < context; ++t) {
    for (std::int64_t c = 0; c < width; ++c) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(c - c % 2) / static_cast<double>(width));
      set(table, t * width + c, c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

Tensor f32_of(const std::vector<double>& numbers) {
  Tensor tensor = Tensor::empty({std::ssize(numbers)}, DType::f32);
  std::copy(numbers.begin(), numbers.end(), tensor.as<float>());
  return tensor;
}

}  // namespace

// Makes parameters in order; each draws from the stream of its index, so that adding one at the end changes no other.
struct Transformer::Maker {
  Transformer& model;
  std::optional<std::uint64_t> seed;  // none: nothing is drawn
  Team& team;
  Drawn from;

  Parameter* make(const std::string& name, const Dims& shape, double spread, double value = 0) {
    if (!seed) return add(name, Tensor::empty(shape, model.dtype_, model.allocator_));
    Tensor tensor = Tensor::empty(shape, model.dtype_);
    const auto stream = static_cast<std::uint32_t>(model.parameters_.size());
    spread > 0 ? draw(tensor, stream, spread) : fill(tensor, value);
    return add(name, moved_to(model.allocator_, std::move(tensor)));
  }
  void draw(const TensorView& tensor, std::uint32_t stream, double spread) const {
    constexpr std::int64_t kPiece = std::int64_t{1} << 16;
    const std::int64_t count = tensor.count();
    const auto numbers = from == Drawn::uniform ? fill_uniform : fill_normal;
    team.for_each((count + kPiece - 1) / kPiece, 1, team.threads(), [&](int) {
      return [&](std::int64_t n) {
        numbers(tensor, n * kPiece, std::min((n + 1) * kPiece, count), *seed, stream, spread);
      };
    });
  }
  Parameter* add(const std::string& name, Tensor value) {
    model.parameters_.push_back({name, std::move(value)});
    return &model.parameters_.back();
  }
  Normalised norm(const std::string& name) {
    const Dims shape{model.config_.width};
    Normalised made;
    if (model.config_.norm == Norm::none) return made;
    made.gamma = make(name + ".weight", shape, 0, 1);
    if (model.config_.norm == Norm::layer) made.beta = make(name + ".bias", shape, 0);
    return made;
  }
  Linear linear(const std::string& name, std::int64_t outputs, std::int64_t inputs, double factor, bool bias) {
    Linear made;
    made.weight = make(name + ".weight", {outputs, inputs}, factor * spread_for(inputs));
    if (bias) made.bias = make(name + ".bias", {outputs}, 0);
    return made;
  }
  // A layer that lost all its heads still has the bias of W_O.
  MultiHeadParameters<Parameter*> attention(const std::string& name, std::size_t layer, double factor) {
    const Config& config = model.config_;
    MultiHeadParameters<Parameter*> made;
    MultiHeadParameters<Dims> shapes;
    if (config.layers[layer].heads > 0) {
      shapes = parameter_shapes(model.attention_shape(layer));
    } else if (config.bias) {
      shapes.out_proj_bias = {config.width};
    }
    const auto one = [&](const std::string& own, ParameterKind kind, Parameter*& parameter, const Dims& shape) {
      if (shape.rank() == 0) return;
      const double among = &parameter == &made.out_proj_weight ? factor : 1;
      parameter = make(name + "." + own, shape, kind == ParameterKind::matrix ? among * spread_for(shape[1]) : 0,
                       own.ends_with("bias") ? 0 : 1);
    };
    for_each_parameter(one, made, shapes);
    return made;
  }
};

Transformer::Transformer(const Config& config, std::uint64_t seed, DType dtype,
                         const std::shared_ptr<Allocator>& allocator, int threads, Drawn from)
    : Transformer(config, std::optional(seed), dtype, allocator, threads, from) {}

std::unique_ptr<Transformer> Transformer::unfilled(const Config& config, DType dtype,
                                                   const std::shared_ptr<Allocator>& allocator) {
  return std::unique_ptr<Transformer>(new Transformer(config, std::nullopt, dtype, allocator, 1, Drawn::normal));
}

Transformer::Transformer(const Config& config, std::optional<std::uint64_t> seed, DType dtype,
                         const std::shared_ptr<Allocator>& allocator, int threads, Drawn from)
    : config_(config), dtype_(dtype), allocator_(allocator) {
  check(config);
  if (seed) expect_memory("model", config, 2, {});
  Team team(threads);
  Maker maker{*this, seed, team, from};
  const std::int64_t C = config.width;
  const double spread = config.tied ? 0.02 : 0.2;
  tokens_ = maker.make("tokens.weight", {config.vocabulary, C}, spread);
  if (config.positions == Positions::learned) positions_ = maker.make("positions.weight", {config.context, C}, spread);
  if (config.positions == Positions::sinusoidal) sinusoids_ = moved_to(allocator_, sinusoids(config.context, C, dtype));
  if (!config.rotary_factors.empty()) rotary_factors_ = moved_to(allocator_, f32_of(config.rotary_factors));
  if (config.embedding_norm) embedding_norm_ = maker.norm("embedding_norm");
  const double inward =
      1 / std::sqrt(2.0 * static_cast<double>(config.layers.size()));  // of what writes into the stream
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const std::string name = "blocks." + std::to_string(layer);
    Block& block = blocks_.emplace_back();
    block.attention_norm = maker.norm(name + ".attention_norm");
    block.attention = maker.attention(name + ".attention", layer, inward);
    if (config.sandwich) block.attention_out_norm = maker.norm(name + ".attention_out_norm");
    if (config.feed_forward == FeedForward::none) continue;
    block.feed_forward_norm = maker.norm(name + ".feed_forward_norm");
    if (config.sandwich) block.feed_forward_out_norm = maker.norm(name + ".feed_forward_out_norm");
    const std::int64_t up = (is_gated(config.feed_forward) ? 2 : 1) * config.hidden;
    block.up = maker.linear(name + ".feed_forward.up", up, C, 1, config.bias);
    block.down = maker.linear(name + ".feed_forward.down", C, config.hidden, inward, config.bias);
  }
  if (!config.post_norm) final_norm_ = maker.norm("final_norm");
  if (config.kind == Kind::encoder) return;
  output_ = config.tied ? Linear{tokens_, nullptr}
                        : maker.linear("output", config.outputs(), C, 1, config.kind == Kind::classifier);
}

std::vector<Parameter*> Transformer::parameters() {
  std::vector<Parameter*> all;
  for (Parameter& parameter : parameters_) all.push_back(&parameter);
  return all;
}
std::vector<const Parameter*> Transformer::parameters() const {
  std::vector<const Parameter*> all;
  for (const Parameter& parameter : parameters_) all.push_back(&parameter);
  return all;
}
std::int64_t Transformer::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += count_of(parameter.value.shape());
  return count;
}

MultiHeadShape Transformer::attention_shape(std::size_t layer) const {
  const LayerHeads& heads = config_.layers[layer];
  return {.width = config_.width,
          .heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .head_dim = config_.head_dim,
          .bias = config_.bias,
          .qk_norm = config_.qk_norm};
}

namespace {

std::optional<Variable> variable_of(Tape& tape, Parameter* parameter) {
  return parameter == nullptr ? std::nullopt : std::optional(tape.parameter(*parameter));
}

Variable linear(Tape& tape, Variable x, Parameter* weight, Parameter* bias, std::optional<DType> dtype = {}) {
  return linear(tape, x, tape.parameter(*weight), variable_of(tape, bias), dtype);
}

// Checks numbers on the host, where the error can name them; those on a device are checked by the kernels that read
// them.
void expect_numbers(std::string_view name, const ConstTensorView& numbers, std::int64_t most) {
  if (numbers.device() != Device{} || !is_row_major(numbers)) return;
  ops::Argument{{"forward", Device{}}, name, numbers}.expect_memory();
  const auto* const first = numbers.as<std::int32_t>();
  const auto* const bad =
      std::find_if(first, first + numbers.count(), [&](std::int32_t n) { return n < 0 || n > most; });
  if (bad == first + numbers.count()) return;
  throw Error(ErrorCode::value, "forward",
              std::string(name) + ": expected numbers from 0 to " + std::to_string(most) + ", found " +
                  std::to_string(*bad) + " at place " + std::to_string(bad - first));
}

void expect_tokens(const Config& config, const ConstTensorView& tokens, const ConstTensorView& lengths) {
  if (tokens.rank() != 2 || tokens.shape(1) > config.context) {
    throw Error(
        ErrorCode::shape, "forward",
        "tokens: expected [B,T] with T up to " + std::to_string(config.context) + ", found " + describe(tokens));
  }
  if (tokens.dtype() == DType::i32) expect_numbers("tokens", tokens, config.vocabulary - 1);
  if (!lengths.present()) return;
  const Dims each{tokens.shape(0)};
  if (lengths.shape() != each || lengths.dtype() != DType::i32) {
    throw Error(ErrorCode::shape, "forward",
                "lengths: expected i32 " + to_string(each) + ", found " + describe(lengths));
  }
  expect_numbers("lengths", lengths, tokens.shape(1));
}

void expect_room(const Tape& tape, const ConstTensorView& tokens, const KvCaches& caches) {
  if (tape.recording()) {
    throw Error(ErrorCode::unsupported, "forward",
                "no gradient goes through the KV cache; use a tape that does not record");
  }
  if (tokens.shape(0) != caches.batch() || tokens.shape(1) > caches.capacity() - caches.length()) {
    throw Error(ErrorCode::shape, "forward",
                "tokens: expected [" + std::to_string(caches.batch()) + ",T] with T up to the " +
                    std::to_string(caches.capacity() - caches.length()) + " that there is room for, found " +
                    describe(tokens));
  }
}

// The last token of x [B,T,C]: [B,1,C].
Variable last_of(Tape& tape, Variable x) {
  if (tape.recording()) {
    throw Error(ErrorCode::unsupported, "forward",
                "last_only: no gradient goes through it; use a tape that does not record");
  }
  const ConstTensorView all = tape.value(x);
  const TensorView last = tape.take({all.shape(0), 1, all.shape(2)}, all.dtype());
  copy(tape.context(), all.slice(1, all.shape(1) - 1, all.shape(1)), last);
  return tape.result(last);
}

// Every layer has three seeds in a pass: for attention, its output and feed-forward.
Dropout dropout(double p, const PassOptions& options, std::size_t layer, std::uint64_t place) {
  return {options.training ? p : 0.0,
          options.seed * 0x9E3779B97F4A7C15u + 3 * layer + place,
          {.sequence = options.first_sequence}};
}

}  // namespace

Variable Transformer::normalised(Tape& tape, Variable x, const Normalised& norm, std::optional<DType> dtype) const {
  if (norm.gamma == nullptr) return as(tape, x, dtype.value_or(tape.value(x).dtype()));
  return normalise(tape, x, tape.parameter(*norm.gamma), variable_of(tape, norm.beta), config_.epsilon, dtype);
}

Variable Transformer::inner(Tape& tape, Variable x, const Normalised& norm, DType dtype) const {
  return config_.post_norm ? as(tape, x, dtype) : normalised(tape, x, norm, dtype);
}

Variable Transformer::linear_of_inner(Tape& tape, Variable x, const Normalised& norm, const Linear& of,
                                      std::optional<DType> dtype) const {
  const DType type = tape.inner_type(tape.value(x).dtype());
  if (config_.post_norm || norm.gamma == nullptr) {
    return linear(tape, inner(tape, x, norm, type), of.weight, of.bias, dtype);
  }
  return linear_of_norm(tape, x, tape.parameter(*norm.gamma), variable_of(tape, norm.beta), config_.epsilon, type,
                        tape.parameter(*of.weight), variable_of(tape, of.bias), dtype);
}

MultiHeadOptions Transformer::attention_options(Tape& tape, std::size_t layer, const PassOptions& options) const {
  MultiHeadOptions how;
  how.attention.causal = config_.kind == Kind::gpt;
  if (options.caches == nullptr) how.attention.align = Align::top_left;  // a cache has its own alignment
  how.attention.key_lengths = how.attention.query_lengths = options.lengths;
  how.attention.dropout = dropout(config_.dropout, options, layer, 0);
  how.output_dropout = dropout(config_.dropout, options, layer, 1);
  const std::int64_t window = config_.layers[layer].window;
  if (window > 0) how.attention.window.left = window - 1;
  if (config_.positions == Positions::rotary) {
    how.rotary = Rotary{.dim = config_.rotary_dim, .base = config_.rotary_base, .scaling = config_.rotary_scaling};
    if (rotary_factors_.present()) how.rotary->factors = rotary_factors_;
    if (window > 0 && config_.local_rotary_base > 0) {
      how.rotary = Rotary{.dim = config_.rotary_dim, .base = config_.local_rotary_base};
    }
  }
  if (config_.attention_scale > 0) how.attention.scale = config_.attention_scale;
  how.attention.softcap = config_.attention_softcap;
  how.qk_norm_epsilon = config_.epsilon;
  how.query_positions = options.positions;
  if (options.gates != nullptr && (*options.gates)[layer].present())
    how.attention.gates = tape.here((*options.gates)[layer]);
  return how;
}

Variable Transformer::attend(Tape& tape, std::size_t layer, Variable x, const PassOptions& options) const {
  const Block& block = blocks_[layer];
  if (config_.layers[layer].heads == 0) return attend_without_heads(tape, layer, x);
  const MultiHeadOptions how = attention_options(tape, layer, options);
  const DType stream = tape.value(x).dtype();
  const MultiHeadWants wants = options.wants_of.value_or(layer) == layer ? options.wants : MultiHeadWants{};
  const bool shifted = options.shifts != nullptr && (*options.shifts)[layer].present();
  const auto layer_of_heads = [&](std::optional<Variable> onto) {
    const bool unrounded = config_.qk_norm && tape.recording();  // the backward pass of head norms is f32
    const Variable in = inner(tape, x, block.attention_norm, unrounded ? stream : tape.inner_type(stream));
    return multihead(tape, attention_shape(layer), block.attention, in, how, wants, options.gate_gradients,
                     tape.state<autograd::MultiHeadState>(&block), onto);
  };
  const Variable weight = tape.parameter(*block.attention.out_proj_weight);
  const std::optional<Variable> bias = variable_of(tape, block.attention.out_proj_bias);
  std::optional<Variable> heads;
  if (options.caches != nullptr) heads = attend_cached(tape, layer, x, how, options);
  if (how.output_dropout.p == 0 && !shifted && !config_.sandwich) {
    return heads ? linear_onto(tape, x, *heads, weight, bias) : layer_of_heads(x);
  }
  Variable out = heads ? linear(tape, *heads, weight, bias) : layer_of_heads({});
  if (shifted) {
    const Variable shift = tape.constant(tape.here((*options.shifts)[layer]));
    out = tape.value(shift).rank() == 1 ? add_to_rows(tape, out, shift) : add(tape, out, shift);
  }
  return add(tape, x, normalised(tape, out, block.attention_out_norm));
}

Variable Transformer::attend_without_heads(Tape& tape, std::size_t layer, Variable x) const {
  const Block& block = blocks_[layer];
  if (block.attention.out_proj_bias == nullptr) return x;  // and the RMSNorm of 0 is 0
  const Variable bias = tape.parameter(*block.attention.out_proj_bias);
  if (!config_.sandwich) return add_to_rows(tape, x, bias);
  return add_to_rows(tape, x, normalised(tape, bias, block.attention_out_norm));
}

Variable Transformer::attend_cached(Tape& tape, std::size_t layer, Variable x, const MultiHeadOptions& how,
                                    const PassOptions& options) const {
  const Block& block = blocks_[layer];
  const LayerHeads& heads = config_.layers[layer];
  Context& context = tape.context();
  // q, k and v side by side, split into heads: views of [B,n,(H+2G)*D].
  const Variable projected =
      linear_of_inner(tape, x, block.attention_norm, {block.attention.in_proj_weight, block.attention.in_proj_bias});
  const TensorView all = tape.writable(projected);
  const std::int64_t D = config_.head_dim,
                     ends[] = {0, heads.heads * D, (heads.heads + heads.kv_heads) * D, all.shape(2)};
  const auto part = [&](int n) {
    return all.slice(2, ends[n], ends[n + 1]).split(2, (ends[n + 1] - ends[n]) / D).transpose(1, 2);
  };
  const TensorView q = part(0), k = part(1), v = part(2);
  if (config_.qk_norm) {
    ops::normalise_heads(context, q, block.attention.q_norm_weight->value, config_.epsilon);
    ops::normalise_heads(context, k, block.attention.k_norm_weight->value, config_.epsilon);
  }
  KvCache& cache = options.caches->layer(layer);
  const ops::CacheRows rows = options.caches->rows(options.recorded);
  ops::append(context, cache, q, k, v, how.rotary, how.query_positions, rows);
  const TensorView merged = tape.take({all.shape(0), all.shape(1), heads.heads * D}, all.dtype());
  ops::attend_into(context, q, cache, how.attention, rows, merged.split(2, heads.heads).transpose(1, 2));
  return tape.result(merged);
}

Variable Transformer::activated(Tape& tape, Variable x, const Linear& up) const {
  return linear_gelu(tape, x, tape.parameter(*up.weight), variable_of(tape, up.bias),
                     config_.feed_forward == FeedForward::gelu ? ops::Elementwise::gelu : ops::Elementwise::erf_gelu);
}

Variable Transformer::feed_forward(Tape& tape, std::size_t layer, Variable x, Variable onto,
                                   const PassOptions& options) const {
  const Block& block = blocks_[layer];
  if (block.up.weight == nullptr) return onto;
  const Dropout dropped = dropout(config_.dropout, options, layer, 2);
  const bool onto_at_once = dropped.p == 0 && !config_.sandwich;
  Variable active = x;
  if (is_gated(config_.feed_forward)) {
    const ops::Gate kind = config_.feed_forward == FeedForward::swiglu ? ops::Gate::silu : ops::Gate::gelu;
    const Variable up = linear_of_inner(tape, x, block.feed_forward_norm, block.up);
    if (onto_at_once) {
      return linear_of_gate_onto(tape, onto, up, kind, tape.parameter(*block.down.weight),
                                 variable_of(tape, block.down.bias));
    }
    active = gate(tape, up, kind);
  } else {
    active = activated(tape, inner(tape, x, block.feed_forward_norm, tape.inner_type(tape.value(x).dtype())), block.up);
  }
  if (onto_at_once) {
    return linear_onto(tape, onto, active, tape.parameter(*block.down.weight), variable_of(tape, block.down.bias));
  }
  const Variable out = drop(tape, linear(tape, active, block.down.weight, block.down.bias), dropped);
  return add(tape, onto, normalised(tape, out, block.feed_forward_out_norm));
}

Variable Transformer::block(Tape& tape, std::size_t layer, Variable x, const PassOptions& options) const {
  const Variable attended = attend(tape, layer, x, options);
  if (config_.parallel) return feed_forward(tape, layer, x, attended, options);
  if (!config_.post_norm) return feed_forward(tape, layer, attended, attended, options);
  const Variable middle = normalised(tape, attended, blocks_[layer].attention_norm);
  return normalised(tape, feed_forward(tape, layer, middle, middle, options), blocks_[layer].feed_forward_norm);
}

Variable Transformer::embed(Tape& tape, const ConstTensorView& tokens, const PassOptions& options) const {
  std::optional<Variable> positions;
  if (positions_ != nullptr) positions = tape.parameter(*positions_);
  if (sinusoids_.present()) positions = tape.constant(sinusoids_);
  const Variable table = tape.parameter(*tokens_);
  if (!options.positions.present() || !positions) {
    return autograd::embed(tape, table, tape.here(tokens), positions);
  }
  return add(tape, autograd::embed(tape, table, tape.here(tokens)),
             autograd::embed(tape, *positions, options.positions));
}

Variable Transformer::read(Tape& tape, const ConstTensorView& tokens, const PassOptions& options) const {
  expect_tokens(config_, tokens, options.lengths);
  Variable x = embed(tape, tokens, options);
  if (config_.embedding_scale != 1) x = scale(tape, x, config_.embedding_scale);
  return normalised(tape, x, embedding_norm_);
}

void Transformer::copy_parameters(Tape& tape, std::size_t first, std::size_t last, DType stream) const {
  const DType inner = tape.inner_type(stream);
  if (inner == stream) return;
  std::vector<const Parameter*> read;
  const auto reads = [&](std::initializer_list<const Parameter*> parameters) {
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(read),
                 [](const Parameter* parameter) { return parameter != nullptr; });
  };
  for (std::size_t layer = first; layer < last; ++layer) {
    const Block& block = blocks_[layer];
    const MultiHeadParameters<Parameter*>& attention = block.attention;
    if (!(config_.qk_norm && tape.recording()) && config_.layers[layer].heads > 0) {
      reads({attention.in_proj_weight, attention.in_proj_bias, attention.out_proj_weight, attention.out_proj_bias});
    }
    reads({block.up.weight, block.up.bias, block.down.weight});
  }
  tape.copy_parameters(read, inner);
}

Variable Transformer::through(Tape& tape, Variable x, std::size_t first, std::size_t last,
                              const PassOptions& given) const {
  const Executor::Burst burst(tape.context().executor());
  PassOptions options = given;
  options.lengths = tape.here(given.lengths);
  options.wants.attention.marked_keys = tape.here(given.wants.attention.marked_keys);
  options.wants.attention.target_keys = tape.here(given.wants.attention.target_keys);
  copy_parameters(tape, first, last, tape.value(x).dtype());
  const bool passing = !tape.recording() && options.streams == nullptr;  // only x outlives a block
  const autograd::Pool::Mark before = tape.mark();
  const auto keep = [&] {
    if (options.streams != nullptr) options.streams->push_back(x);
  };
  for (std::size_t layer = first; layer < last; ++layer) {
    keep();
    x = block(tape, layer, x, options);
    if (passing) tape.recycle(before, x);
  }
  keep();
  return x;
}

Variable Transformer::answer(Tape& tape, Variable x, const PassOptions& options) const {
  const Executor::Burst burst(tape.context().executor());
  const DType stream = tape.value(x).dtype();
  if (config_.kind != Kind::gpt) x = normalised(tape, x, final_norm_, stream);
  if (config_.kind == Kind::encoder) return x;
  if (config_.kind == Kind::classifier) x = pool(tape, x, tape.here(options.lengths));
  const Variable logits = config_.kind == Kind::gpt ? linear_of_inner(tape, x, final_norm_, output_, stream)
                                                    : linear(tape, x, output_.weight, output_.bias, stream);
  return config_.logit_softcap > 0 ? softcap(tape, logits, config_.logit_softcap) : logits;
}

Variable Transformer::forward(Tape& tape, const ConstTensorView& tokens, const PassOptions& given) const {
  const Executor::Burst burst(tape.context().executor());
  PassOptions options = given;
  if (options.caches != nullptr) {
    expect_tokens(config_, tokens, options.lengths);
    expect_room(tape, tokens, *options.caches);
    if (!options.recorded) options.caches->place(tape.context(), tokens.shape(1));
    options.positions = options.caches->positions();
  }
  Variable x = through(tape, read(tape, tokens, options), 0, blocks_.size(), options);
  if (options.caches != nullptr && !options.recorded) options.caches->advance(tokens.shape(1));
  if (options.last_only && tokens.shape(1) > 1) x = last_of(tape, x);
  return answer(tape, x, options);
}

}  // namespace polyhead::model
