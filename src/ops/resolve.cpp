#include "ops/resolve.h"

#include <cmath>

#include "ops/check.h"

namespace polyhead::ops {
namespace {

using kernels::AttentionProblem;
using kernels::Sequences;

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(std::string_view op, const std::string& message) {
  throw Error(ErrorCode::value, op, message);
}

// Integers [n], i32 or i64.
kernels::Integers integers_of(const Argument& argument, std::int64_t n) {
  if (!argument.view.present()) return {};
  if (argument.view.dtype() != DType::i64 && argument.view.dtype() != DType::i32) {
    argument.refuse(ErrorCode::dtype, "i32 or i64");
  }
  argument.expect_shape({n});
  argument.expect_memory();
  return kernels::Integers(argument.view);
}

// k and v are of q's type; f32 queries also read keys and values that are stored in 16 bits.
void check_storage(const Argument& k, const Argument& v, DType queries) {
  const DType stored = k.view.dtype();
  const bool fits = stored == queries || (queries == DType::f32 && size_of(stored) == 2);
  if (!fits) k.refuse(ErrorCode::dtype, queries == DType::f32 ? "f32, f16 or bf16" : std::string(name_of(queries)));
  v.expect_dtype(stored);
}

void check_inputs(const Op& op, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v) {
  for (const Argument& argument : {Argument{op, "q", q}, {op, "k", k}, {op, "v", v}}) {
    if (!argument.view.present() || argument.view.rank() != 4) {
      argument.refuse(ErrorCode::shape, "four axes: [batch, heads, length, head dim]");
    }
    if (!is_float(argument.view.dtype())) argument.refuse(ErrorCode::dtype, "f32, f16, bf16 or f64");
    argument.expect_memory();
    argument.expect_last_stride_one();
    for (int axis = 0; axis < 4; ++axis) {
      if (argument.view.shape(axis) > kMost) argument.refuse(ErrorCode::shape, "sizes below 2^31");
    }
  }
  const Argument key{op, "k", k};
  check_storage(key, Argument{op, "v", v}, q.dtype());
  const std::string queries = " for q " + to_string(q.shape());
  if (k.shape(0) != q.shape(0) || k.shape(3) != q.shape(3)) {
    key.refuse(ErrorCode::shape,
               "[" + std::to_string(q.shape(0)) + ",G,S," + std::to_string(q.shape(3)) + "]" + queries);
  }
  if (q.shape(1) > 0 && (k.shape(1) == 0 || q.shape(1) % k.shape(1) != 0)) {
    key.refuse(ErrorCode::shape,
               "a number of key heads that divides the " + std::to_string(q.shape(1)) + " query heads");
  }
  if (v.shape(0) != k.shape(0) || v.shape(1) != k.shape(1) || v.shape(2) != k.shape(2)) {
    Argument{op, "v", v}.refuse(ErrorCode::shape, "[" + std::to_string(k.shape(0)) + "," + std::to_string(k.shape(1)) +
                                                      "," + std::to_string(k.shape(2)) + ",E] for k " +
                                                      to_string(k.shape()));
  }
}

// Can kernels hold the number in the type they compute in, f32 unless all is f64?
bool representable(double number, DType dtype) {
  return std::isfinite(number) && (dtype == DType::f64 || number == 0 || std::isnormal(static_cast<float>(number)));
}

void check_numbers(const Op& op, const AttentionOptions& options, DType dtype) {
  if (options.scale && !representable(*options.scale, dtype)) {
    refuse(op, "scale: expected a number that " + std::string(dtype == DType::f64 ? "f64" : "f32") +
                   " can hold, found " + std::to_string(*options.scale) + "; leave it out for 1/sqrt(D)");
  }
  if (!(options.softcap >= 0) || !representable(options.softcap, dtype)) {
    refuse(op, "softcap: expected 0 or a positive number that " + std::string(dtype == DType::f64 ? "f64" : "f32") +
                   " can hold, found " + std::to_string(options.softcap));
  }
  check_dropout(op, "dropout", options.dropout);
  const Window& window = options.window;
  if (window.left < 0 || window.right < 0 || window.always_first < 0) {
    refuse(op, "window: expected left, right and always_first >= 0, found " + std::to_string(window.left) + ", " +
                   std::to_string(window.right) + ", " + std::to_string(window.always_first));
  }
}

// The offsets of a packed axis; the caller compares how many sequences there are.
kernels::Integers offsets_of(const Argument& argument) {
  if (argument.view.rank() != 1 || argument.view.shape(0) < 1) {
    argument.refuse(ErrorCode::shape, "[N+1], the sequences' offsets");
  }
  return integers_of(argument, argument.view.shape(0));
}

void pack_sequences(const Op& op, const ConstTensorView& q, const AttentionOptions& options, Sequences& sequences) {
  if (!options.cu_q.present() || !options.cu_k.present()) {
    refuse(op, "packed batches need both cu_q and cu_k, found one of them");
  }
  if (q.shape(0) != 1) {
    throw Error(ErrorCode::shape, op, "packed: expected q [1,H,total,D], found " + describe(q));
  }
  if (options.keep.present() || options.bias.present()) {
    throw Error(ErrorCode::unsupported, op,
                "packed batches take neither keep nor bias; call once per sequence, or pad the batch");
  }
  if (options.key_lengths.present() || options.key_start.present() || options.query_lengths.present()) {
    refuse(op, "packed batches have their lengths in cu_q and cu_k; leave key_lengths, key_start, query_lengths out");
  }
  sequences.cu_q = offsets_of({op, "cu_q", options.cu_q});
  sequences.cu_k = offsets_of({op, "cu_k", options.cu_k});
  if (options.cu_q.shape(0) != options.cu_k.shape(0)) {
    throw Error(ErrorCode::shape, op,
                "cu_q " + describe(options.cu_q) + " and cu_k " + describe(options.cu_k) +
                    " differ in the number of sequences");
  }
  sequences.packed = true;
  sequences.count = options.cu_q.shape(0) - 1;
}

Sequences sequences_of(const Op& op, const ConstTensorView& q, const ConstTensorView& k,
                       const AttentionOptions& options) {
  Sequences sequences{.count = q.shape(0), .queries = q.shape(2), .keys = k.shape(2)};
  if (options.cu_q.present() || options.cu_k.present()) {
    pack_sequences(op, q, options, sequences);
  } else {
    sequences.key_lengths = integers_of({op, "key_lengths", options.key_lengths}, sequences.count);
    sequences.key_start = integers_of({op, "key_start", options.key_start}, sequences.count);
    sequences.query_lengths = integers_of({op, "query_lengths", options.query_lengths}, sequences.count);
  }
  sequences.bottom_right = options.align == Align::bottom_right;
  sequences.position = options.first_position.value_or(0);
  sequences.first_position = integers_of({op, "first_positions", options.first_positions}, sequences.count);
  return sequences;
}

// Refuses a call that must say where its queries stand and does not, or says it twice.
void check_align(const Op& op, const AttentionOptions& options, const AttentionWants& wants, bool same_lengths) {
  const bool positional = kernels::MaskOptions::of(options).positional() || options.alibi.present() ||
                          wants.statistics != StatisticsSet::none || wants.row_statistics;
  const bool placed = options.first_position || options.first_positions.present();
  if (placed && (options.align != Align::unset || (options.first_position && options.first_positions.present()))) {
    refuse(op, "expected one of align, first_position and first_positions, found more");
  }
  if (std::abs(options.first_position.value_or(0)) > kernels::kMostPosition) {
    refuse(op, "first_position: expected a number between -2^31 and 2^31, found " +
                   std::to_string(*options.first_position));
  }
  if (positional && !same_lengths && !placed && options.align == Align::unset) {
    refuse(op,
           "align: queries and keys may differ in length and something depends on position (causal, window, alibi, "
           "statistics); "
           "say Align::top_left (query 0 at key 0) or Align::bottom_right (last query at last key), or first_position");
  }
}

// Numbers per head: f32, or f64 with f64.
ConstTensorView per_head(const Argument& argument, std::int64_t heads, DType numbers) {
  if (!argument.view.present()) return {};
  argument.expect_dtype(numbers);
  argument.expect_shape({heads});
  argument.expect_memory();
  return argument.view;
}

// [H] or [N,H] as [N,H].
ConstTensorView per_sequence(const Argument& argument, std::int64_t sequences, std::int64_t heads, DType numbers) {
  const ConstTensorView& view = argument.view;
  if (!view.present()) return {};
  argument.expect_dtype(numbers);
  argument.expect_memory();
  if (view.rank() == 1) {
    argument.expect_shape({heads});
    return view.as_strided({sequences, heads}, {0, view.stride(0)});
  }
  argument.expect_shape({sequences, heads});
  return view;
}

void resolve_masks(const Op& op, const AttentionOptions& options, const Dims& scores, AttentionProblem& problem) {
  if (options.keep.present()) {
    const Argument keep{op, "keep", options.keep};
    keep.expect_dtype(DType::boolean);
    keep.expect_memory();
    problem.keep = broadcast(keep, scores);
  }
  if (options.bias.present()) {
    const Argument bias{op, "bias", options.bias};
    if (!is_float(bias.view.dtype())) bias.refuse(ErrorCode::dtype, "a float type", "a bool mask goes into keep");
    bias.expect_memory();
    problem.bias = broadcast(bias, scores);
  }
}

// Maps chosen[i] to i, and what was not chosen to -1; an empty choice means all.
std::vector<std::int32_t> places_of(const Op& op, std::string_view name, const std::vector<std::int32_t>& chosen,
                                    std::int64_t size) {
  std::vector<std::int32_t> place(static_cast<std::size_t>(size), -1);
  for (std::size_t i = 0; i < (chosen.empty() ? place.size() : chosen.size()); ++i) {
    const std::int64_t index = chosen.empty() ? static_cast<std::int64_t>(i) : chosen[i];
    if (index < 0 || index >= size || place[static_cast<std::size_t>(index)] >= 0) {
      refuse(op, std::string(name) + ": expected numbers from 0 to " + std::to_string(size - 1) +
                     ", each once, found " + std::to_string(index));
    }
    place[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(i);
  }
  return place;
}

void resolve_wants(const Op& op, const ConstTensorView& q, const ConstTensorView& k, const AttentionWants& wants,
                   AttentionProblem& problem) {
  problem.statistics_set = wants.statistics;
  if (wants.row_statistics && wants.statistics == StatisticsSet::none) {
    refuse(op, "row_statistics: say which set of statistics, light or full");
  }
  problem.logit_stage = wants.logits;
  if (wants.weights || wants.logits != LogitStage::none) {
    problem.weight_head_of = places_of(op, "weight_heads", wants.weight_heads, problem.heads);
    problem.weight_row_of = places_of(op, "weight_rows", wants.weight_rows, q.shape(2));
    problem.weights_in_order = wants.weight_rows.empty();
  } else if (!wants.weight_heads.empty() || !wants.weight_rows.empty()) {
    refuse(op,
           "weight_heads and weight_rows choose among weights and logits, but neither are wanted; set weights = true");
  }
  const bool full = wants.statistics == StatisticsSet::full;
  if ((wants.marked_keys.present() || wants.target_keys.present()) && !full) {
    refuse(op, "marked_keys and target_keys belong to the full set of statistics, which is not wanted");
  }
  if (wants.marked_keys.present()) {
    const Argument marked{op, "marked_keys", wants.marked_keys};
    marked.expect_dtype(DType::boolean);
    marked.expect_shape({q.shape(0), k.shape(2)});
    marked.expect_memory();
    marked.expect_last_stride_one();
    problem.marked_keys = wants.marked_keys;
  }
  if (wants.target_keys.present()) {
    Argument{op, "target_keys", wants.target_keys}.expect_input({q.shape(0), q.shape(2), 4}, DType::i32);
    problem.target_keys = wants.target_keys;
  }
}

}  // namespace

void check_dropout(std::string_view op, std::string_view name, const Dropout& dropout) {
  if (!(dropout.p >= 0 && dropout.p < 1)) {
    refuse(op, std::string(name) + ": expected 0 <= p < 1, found " + std::to_string(dropout.p));
  }
  const Origin& origin = dropout.origin;
  for (const std::int64_t first : {origin.sequence, origin.head, origin.row, origin.key}) {
    if (first >= 0 && first <= UINT32_MAX) continue;
    refuse(op, std::string(name) + ": expected an origin of 0 to 4294967295, found " + std::to_string(first));
  }
}

void check_output_dropout(std::string_view op, const Dropout& dropout) {
  check_dropout(op, "output_dropout", dropout);
  const Origin& origin = dropout.origin;
  if (origin.head == 0 && origin.key == 0) return;
  refuse(op,
         "output_dropout: expected an origin with a sequence and a row alone, since it counts columns from 0; found "
         "head " +
             std::to_string(origin.head) + ", key " + std::to_string(origin.key));
}

AttentionProblem resolve(const Op& op, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                         const AttentionOptions& options, const AttentionWants& wants) {
  check_inputs(op, q, k, v);
  check_numbers(op, options, q.dtype());
  AttentionProblem problem;
  problem.heads = q.shape(1);
  problem.kv_heads = k.shape(1);
  problem.head_dim = q.shape(3);
  problem.value_dim = v.shape(3);
  problem.dtype = q.dtype();
  problem.q = q;
  problem.k = k;
  problem.v = v;
  problem.scale =
      options.scale.value_or(problem.head_dim > 0 ? 1 / std::sqrt(static_cast<double>(problem.head_dim)) : 1.0);
  problem.softcap = options.softcap;
  problem.mask = kernels::MaskOptions::of(options);
  problem.dropout = options.dropout;

  problem.sequences = sequences_of(op, q, k, options);
  const bool lengths = options.key_lengths.present() || options.key_start.present() || options.query_lengths.present();
  check_align(op, options, wants, !problem.sequences.packed && !lengths && q.shape(2) == k.shape(2));

  const DType numbers = problem.dtype == DType::f64 ? DType::f64 : DType::f32;
  const std::int64_t N = problem.sequences.count, H = problem.heads;
  problem.alibi = per_sequence({op, "alibi", options.alibi}, N, H, numbers);
  problem.gates = per_sequence({op, "gates", options.gates}, N, H, numbers);
  problem.sink_logit = per_head({op, "sink_logit", options.sink_logit}, H, numbers);
  resolve_masks(op, options, {q.shape(0), q.shape(1), q.shape(2), k.shape(2)}, problem);
  resolve_wants(op, q, k, wants, problem);
  return problem;
}

std::int64_t longest_keys(Allocator& memory, const ConstTensorView& cu_k) {
  // One copy, with whatever lies between the offsets: each waits for the device. Those that run backwards in memory are
  // read from the last one on.
  const bool backwards = cu_k.stride(0) < 0;
  const std::int64_t count = cu_k.shape(0), stride = std::abs(cu_k.stride(0));
  if (count < 2) return 0;
  const ConstTensorView lowest = backwards ? cu_k.slice(0, count - 1, count) : cu_k;
  Tensor copied = Tensor::empty({(count - 1) * stride + 1}, cu_k.dtype());
  memory.copy_out(copied.view().data(), lowest.data(),
                  static_cast<std::size_t>(copied.view().count()) * size_of(cu_k.dtype()));
  const kernels::Integers ends(copied.view().as_strided({count}, {stride}));
  std::int64_t longest = 0;
  for (std::int64_t n = 0; n + 1 < count; ++n) {
    const std::int64_t further = ends[n + 1] - ends[n];
    longest = std::max(longest, backwards ? -further : further);
  }
  return longest;
}

AttentionShapes shapes_of(const AttentionProblem& problem, const AttentionWants& wants, std::int64_t longest) {
  AttentionShapes shapes;
  const std::int64_t B = problem.q.shape(0), H = problem.heads, T = problem.q.shape(2), N = problem.sequences.count;
  shapes.numbers = problem.dtype == DType::f64 ? DType::f64 : DType::f32;
  shapes.weights_dtype = wants.weights_f32 ? DType::f32 : problem.dtype;
  shapes.output = {B, H, T, problem.value_dim};
  shapes.lse = {B, H, T};
  shapes.statistics = {N, H, problem.statistics_width()};
  shapes.row_statistics = {B, H, T, problem.statistics_width()};
  if (wants.weights || wants.logits != LogitStage::none) {
    const auto chosen = [](const std::vector<std::int32_t>& list, std::int64_t all) {
      return list.empty() ? all : static_cast<std::int64_t>(list.size());
    };
    shapes.weights = {B, chosen(wants.weight_heads, H), chosen(wants.weight_rows, T),
                      problem.sequences.packed ? longest : problem.k.shape(2)};
  }
  return shapes;
}

std::vector<ConstTensorView> tensors_of(const AttentionOptions& options, const AttentionWants& wants) {
  return {options.keep,      options.bias,          options.alibi,           options.key_lengths,
          options.key_start, options.query_lengths, options.first_positions, options.cu_q,
          options.cu_k,      options.gates,         options.sink_logit,      wants.marked_keys,
          wants.target_keys};
}

void attach_outputs(const Op& op, const AttentionOptions& options, const AttentionWants& wants,
                    const AttentionShapes& shapes, const AttentionOutputs& outputs, AttentionProblem& problem) {
  std::vector<ConstTensorView> others = tensors_of(options, wants);
  others.insert(others.end(), {problem.q, problem.k, problem.v});
  const auto attach = [&](std::string_view name, const TensorView& view, bool wanted, const Dims& shape, DType dtype,
                          TensorView& place) {
    Argument{op, name, view}.expect_output(wanted, shape, dtype, others);
    others.push_back(view);
    place = view;
  };
  attach("output", outputs.output, true, shapes.output, problem.dtype, problem.output);
  attach("lse", outputs.lse, wants.lse, shapes.lse, shapes.numbers, problem.lse);
  attach("weights", outputs.weights, wants.weights, shapes.weights, shapes.weights_dtype, problem.weights);
  attach("logits", outputs.logits, wants.logits != LogitStage::none, shapes.weights, shapes.numbers, problem.logits);
  attach("statistics", outputs.statistics, wants.statistics != StatisticsSet::none, shapes.statistics, shapes.numbers,
         problem.statistics);
  attach("row_statistics", outputs.row_statistics, wants.row_statistics, shapes.row_statistics, shapes.numbers,
         problem.row_statistics);
  Argument{op, "output", outputs.output}.expect_last_stride_one();
  if (wants.weights) Argument{op, "weights", outputs.weights}.expect_last_stride_one();
  if (outputs.logits.present()) Argument{op, "logits", outputs.logits}.expect_last_stride_one();
}

}  // namespace polyhead::ops
