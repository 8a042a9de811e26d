#include "ops/resolve.h"

#include <bit>
#include <cmath>

#include "ops/check.h"

namespace polyhead::ops {
namespace {

using backend::AttentionProblem;
using backend::Sequence;

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(std::string_view op, const std::string& message) {
  throw Error(ErrorCode::value, op, message);
}

// i32 values of a [n] tensor, checked to be one.
std::vector<std::int64_t> read_lengths(const Argument& argument, std::int64_t n) {
  argument.expect_dtype(DType::i32);
  argument.expect_shape({n});
  argument.expect_memory();
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(static_cast<const std::int32_t*>(argument.view.data())[i * argument.view.stride(0)]);
  }
  return values;
}

// k and v are of q's type; f32 queries also read keys and values that are stored in 16 bits.
void check_storage(const Argument& k, const Argument& v, DType queries) {
  const DType stored = k.view.dtype();
  const bool fits = stored == queries || (queries == DType::f32 && size_of(stored) == 2);
  if (!fits) k.refuse(ErrorCode::dtype, queries == DType::f32 ? "f32, f16 or bf16" : std::string(name_of(queries)));
  v.expect_dtype(stored);
}

void check_inputs(std::string_view op, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v) {
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

// A number that kernels compute with must exist in their type, f32 unless all is f64.
bool representable(double number, DType dtype) {
  return std::isfinite(number) && (dtype == DType::f64 || number == 0 || std::isnormal(static_cast<float>(number)));
}

void check_numbers(std::string_view op, const AttentionOptions& options, DType dtype) {
  if (options.scale && !representable(*options.scale, dtype)) {
    refuse(op, "scale: expected a number that " + std::string(dtype == DType::f64 ? "f64" : "f32") +
                   " can hold, found " + std::to_string(*options.scale) + "; leave it out for 1/sqrt(D)");
  }
  if (!(options.softcap >= 0) || !representable(options.softcap, dtype)) {
    refuse(op, "softcap: expected 0 or a positive number of ordinary size, found " + std::to_string(options.softcap));
  }
  check_dropout(op, "dropout", options.dropout);
  const Window& window = options.window;
  if (window.left < 0 || window.right < 0 || window.always_first < 0) {
    refuse(op, "window: expected left, right and always_first >= 0, found " + std::to_string(window.left) + ", " +
                   std::to_string(window.right) + ", " + std::to_string(window.always_first));
  }
}

// Offsets [0, a, b, ..., total] of a packed axis, as pairs of begin and size.
std::vector<std::pair<std::int64_t, std::int64_t>> read_packing(const Argument& argument, std::int64_t total) {
  if (argument.view.rank() != 1 || argument.view.shape(0) < 1) {
    argument.refuse(ErrorCode::shape, "[N+1], the sequences' offsets");
  }
  const std::vector<std::int64_t> offsets = read_lengths(argument, argument.view.shape(0));
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  if (offsets.front() != 0 || offsets.back() != total) {
    refuse(argument.op, std::string(argument.name) + ": expected offsets from 0 to " + std::to_string(total) +
                            ", found " + std::to_string(offsets.front()) + " to " + std::to_string(offsets.back()));
  }
  for (std::size_t n = 0; n + 1 < offsets.size(); ++n) {
    if (offsets[n + 1] < offsets[n]) {
      refuse(argument.op, std::string(argument.name) + ": offsets must not fall, found " + std::to_string(offsets[n]) +
                              " before " + std::to_string(offsets[n + 1]));
    }
    parts.emplace_back(offsets[n], offsets[n + 1] - offsets[n]);
  }
  return parts;
}

std::vector<Sequence> packed_sequences(std::string_view op, const ConstTensorView& q, const ConstTensorView& k,
                                       const AttentionOptions& options) {
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
  const auto query_parts = read_packing({op, "cu_q", options.cu_q}, q.shape(2));
  const auto key_parts = read_packing({op, "cu_k", options.cu_k}, k.shape(2));
  if (query_parts.size() != key_parts.size()) {
    throw Error(ErrorCode::shape, op,
                "cu_q " + describe(options.cu_q) + " and cu_k " + describe(options.cu_k) +
                    " differ in the number of sequences");
  }
  std::vector<Sequence> sequences(query_parts.size());
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    Sequence& sequence = sequences[n];
    sequence.query_begin = query_parts[n].first;
    sequence.queries = sequence.rows = query_parts[n].second;
    sequence.key_begin = key_parts[n].first;
    sequence.keys = key_parts[n].second;
  }
  return sequences;
}

std::vector<Sequence> padded_sequences(std::string_view op, const ConstTensorView& q, const ConstTensorView& k,
                                       const AttentionOptions& options) {
  const std::int64_t B = q.shape(0), T = q.shape(2), S = k.shape(2);
  const auto lengths = [&](std::string_view name, const ConstTensorView& view, std::int64_t otherwise) {
    return view.present() ? read_lengths({op, name, view}, B)
                          : std::vector<std::int64_t>(static_cast<std::size_t>(B), otherwise);
  };
  const auto ends = lengths("key_lengths", options.key_lengths, S);
  const auto starts = lengths("key_start", options.key_start, 0);
  const auto queries = lengths("query_lengths", options.query_lengths, T);
  const auto expect_within = [&](std::string_view name, std::int64_t b, std::int64_t value, std::int64_t low,
                                 std::int64_t high) {
    if (value >= low && value <= high) return;
    refuse(op, std::string(name) + "[" + std::to_string(b) + "]: expected " + std::to_string(low) + " to " +
                   std::to_string(high) + ", found " + std::to_string(value));
  };
  std::vector<Sequence> sequences(static_cast<std::size_t>(B));
  for (std::int64_t b = 0; b < B; ++b) {
    const auto at = static_cast<std::size_t>(b);
    expect_within("key_lengths", b, ends[at], 0, S);
    expect_within("key_start", b, starts[at], 0, ends[at]);
    expect_within("query_lengths", b, queries[at], 0, T);
    Sequence& sequence = sequences[at];
    sequence.batch = b;
    sequence.queries = queries[at];
    sequence.rows = T;
    sequence.key_begin = sequence.weights_column = starts[at];
    sequence.keys = ends[at] - starts[at];
  }
  return sequences;
}

void place_queries(std::string_view op, const AttentionOptions& options, const AttentionWants& wants, bool same_lengths,
                   std::vector<Sequence>& sequences) {
  const bool windowed = options.window.left != kUnlimited || options.window.right != kUnlimited;
  const bool positional = options.causal || windowed || options.alibi.present() ||
                          wants.statistics != StatisticsSet::none || wants.row_statistics;
  if (positional && !same_lengths && options.align == Align::unset) {
    refuse(op,
           "align: queries and keys may differ in length and something depends on position (causal, window, alibi, "
           "statistics); "
           "say Align::top_left (query 0 at key 0) or Align::bottom_right (last query at last key)");
  }
  for (Sequence& sequence : sequences) {
    if (options.align == Align::bottom_right) sequence.offset = sequence.keys - sequence.queries;
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

void refuse_infinite_sinks(std::string_view op, const ConstTensorView& sinks) {
  for (std::int64_t h = 0; sinks.present() && h < sinks.shape(0); ++h) {
    const double sink = sinks.dtype() == DType::f64 ? sinks.as<double>()[h * sinks.stride(0)]
                                                    : static_cast<double>(sinks.as<float>()[h * sinks.stride(0)]);
    if (sink < std::numeric_limits<double>::infinity()) continue;  // -inf is no sink
    refuse(op, "sink_logit[" + std::to_string(h) + "]: expected a number or -inf, found " + std::to_string(sink));
  }
}

ConstTensorView gates_of(const Argument& argument, std::int64_t sequences, std::int64_t heads, DType numbers) {
  const ConstTensorView& view = argument.view;
  if (!view.present()) return {};
  argument.expect_dtype(numbers);
  argument.expect_memory();
  if (view.rank() == 1) {
    argument.expect_shape({heads});
    return ConstTensorView(view.data(), view.dtype(), {sequences, heads}, {0, view.stride(0)});
  }
  argument.expect_shape({sequences, heads});
  return view;
}

// Is +infinity, given by its bits, among the elements of a broadcast view? Bits are compared a whole row at a time, so
// that the compiler makes vectors of it: this reads a tensor of the size of the scores.
template <class Element, class Bits>
bool holds_bits(const ConstTensorView& view, Bits wanted) {
  const auto size = [&](int axis) {
    return view.stride(axis) == 0 ? std::min<std::int64_t>(view.shape(axis), 1) : view.shape(axis);
  };
  const auto* data = static_cast<const Element*>(view.data());
  const std::int64_t columns = size(3), step = view.stride(3);
  for (std::int64_t b = 0; b < size(0); ++b) {
    for (std::int64_t h = 0; h < size(1); ++h) {
      for (std::int64_t t = 0; t < size(2); ++t) {
        const Element* row = data + b * view.stride(0) + h * view.stride(1) + t * view.stride(2);
        Bits found = 0;
        if (step == 1) {
          for (std::int64_t s = 0; s < columns; ++s) found |= static_cast<Bits>(std::bit_cast<Bits>(row[s]) == wanted);
        } else {
          for (std::int64_t s = 0; s < columns; ++s)
            found |= static_cast<Bits>(std::bit_cast<Bits>(row[s * step]) == wanted);
        }
        if (found != 0) return true;
      }
    }
  }
  return false;
}

bool holds_positive_infinity(const ConstTensorView& view) {
  switch (view.dtype()) {
    case DType::f64: return holds_bits<double, std::uint64_t>(view, 0x7ff0000000000000u);
    case DType::f32: return holds_bits<float, std::uint32_t>(view, 0x7f800000u);
    case DType::f16: return holds_bits<float16, std::uint16_t>(view, 0x7c00u);
    default: return holds_bits<bfloat16, std::uint16_t>(view, 0x7f80u);
  }
}

void resolve_masks(std::string_view op, const AttentionOptions& options, const Dims& scores,
                   AttentionProblem& problem) {
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
    if (problem.bias.count() > 0 && holds_positive_infinity(problem.bias)) {
      refuse(op, "bias: expected finite numbers or -inf (which hides a key), found +inf");
    }
  }
}

void resolve_targets(const Argument& argument, const Dims& expected, std::int64_t S) {
  argument.expect_dtype(DType::i32);
  argument.expect_shape(expected);
  argument.expect_memory();
  const ConstTensorView& view = argument.view;
  for (std::int64_t b = 0; b < view.shape(0); ++b) {
    for (std::int64_t t = 0; t < view.shape(1); ++t) {
      for (std::int64_t k = 0; k < 4; ++k) {
        const std::int32_t place =
            static_cast<const std::int32_t*>(view.data())[b * view.stride(0) + t * view.stride(1) + k * view.stride(2)];
        if (place >= -1 && place < S) continue;
        refuse(argument.op, "target_keys[" + std::to_string(b) + "," + std::to_string(t) + "," + std::to_string(k) +
                                "]: expected a key below " + std::to_string(S) + ", or -1 for none, found " +
                                std::to_string(place));
      }
    }
  }
}

// chosen[i] -> i, and -1 for what was not chosen; an empty choice is all of them.
std::vector<std::int32_t> places_of(std::string_view op, std::string_view name, const std::vector<std::int32_t>& chosen,
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

void resolve_wants(std::string_view op, const ConstTensorView& q, const ConstTensorView& k, const AttentionWants& wants,
                   AttentionProblem& problem) {
  problem.statistics_set = wants.statistics;
  if (wants.row_statistics && wants.statistics == StatisticsSet::none) {
    refuse(op, "row_statistics: say which set of statistics, light or full");
  }
  if (wants.weights) {
    problem.weight_head_of = places_of(op, "weight_heads", wants.weight_heads, problem.heads);
    problem.weight_row_of = places_of(op, "weight_rows", wants.weight_rows, q.shape(2));
    problem.weights_in_order = wants.weight_rows.empty();
  } else if (!wants.weight_heads.empty() || !wants.weight_rows.empty()) {
    refuse(op, "weight_heads and weight_rows choose among weights, but weights are not wanted; set weights = true");
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
    resolve_targets({op, "target_keys", wants.target_keys}, {q.shape(0), q.shape(2), 4}, k.shape(2));
    problem.target_keys = wants.target_keys;
  }
}

}  // namespace

void check_dropout(std::string_view op, std::string_view name, const Dropout& dropout) {
  if (dropout.p >= 0 && dropout.p < 1) return;
  refuse(op, std::string(name) + ": expected 0 <= p < 1, found " + std::to_string(dropout.p));
}

AttentionProblem resolve(std::string_view op, const ConstTensorView& q, const ConstTensorView& k,
                         const ConstTensorView& v, const AttentionOptions& options, const AttentionWants& wants) {
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
  problem.causal = options.causal;
  problem.window = options.window;
  for (std::int64_t* reach : {&problem.window.left, &problem.window.right}) {
    if (*reach > kMost) *reach = kUnlimited;  // beyond any tensor, so that kernels can add to it
  }
  problem.dropout = options.dropout;

  problem.packed = options.cu_q.present() || options.cu_k.present();
  problem.sequences = problem.packed ? packed_sequences(op, q, k, options) : padded_sequences(op, q, k, options);
  const bool lengths = options.key_lengths.present() || options.key_start.present() || options.query_lengths.present();
  const bool same_lengths = !problem.packed && !lengths && q.shape(2) == k.shape(2);
  place_queries(op, options, wants, same_lengths, problem.sequences);

  const DType numbers = problem.dtype == DType::f64 ? DType::f64 : DType::f32;
  problem.alibi = per_head({op, "alibi", options.alibi}, problem.heads, numbers);
  problem.sink_logit = per_head({op, "sink_logit", options.sink_logit}, problem.heads, numbers);
  refuse_infinite_sinks(op, problem.sink_logit);
  problem.gates = gates_of({op, "gates", options.gates}, static_cast<std::int64_t>(problem.sequences.size()),
                           problem.heads, numbers);
  resolve_masks(op, options, {q.shape(0), q.shape(1), q.shape(2), k.shape(2)}, problem);
  resolve_wants(op, q, k, wants, problem);
  return problem;
}

AttentionShapes shapes_of(const AttentionProblem& problem, const AttentionWants& wants) {
  AttentionShapes shapes;
  const std::int64_t B = problem.q.shape(0), H = problem.heads, T = problem.q.shape(2);
  const auto N = static_cast<std::int64_t>(problem.sequences.size());
  shapes.numbers = problem.dtype == DType::f64 ? DType::f64 : DType::f32;
  shapes.weights_dtype = wants.weights_f32 ? DType::f32 : problem.dtype;
  shapes.output = {B, H, T, problem.value_dim};
  shapes.lse = {B, H, T};
  shapes.statistics = {N, H, problem.statistics_width()};
  shapes.row_statistics = {B, H, T, problem.statistics_width()};
  if (wants.weights) {
    const auto chosen = [](const std::vector<std::int32_t>& list, std::int64_t all) {
      return list.empty() ? all : static_cast<std::int64_t>(list.size());
    };
    std::int64_t columns = problem.k.shape(2);
    if (problem.packed) {
      columns = 0;
      for (const Sequence& sequence : problem.sequences) columns = std::max(columns, sequence.keys);
    }
    shapes.weights = {B, chosen(wants.weight_heads, H), chosen(wants.weight_rows, T), columns};
  }
  return shapes;
}

void attach_outputs(std::string_view op, const AttentionWants& wants, const AttentionOutputs& outputs,
                    AttentionProblem& problem) {
  const AttentionShapes shapes = shapes_of(problem, wants);
  const auto attach = [&](std::string_view name, const TensorView& view, bool wanted, const Dims& shape, DType dtype,
                          TensorView& place) {
    const ConstTensorView others[] = {problem.q,           problem.k,           problem.v,          problem.keep,
                                      problem.bias,        problem.alibi,       problem.sink_logit, problem.gates,
                                      problem.marked_keys, problem.target_keys, problem.output,     problem.lse,
                                      problem.weights,     problem.statistics};
    Argument{op, name, view}.expect_output(wanted, shape, dtype, others);
    place = view;
  };
  attach("output", outputs.output, true, shapes.output, problem.dtype, problem.output);
  attach("lse", outputs.lse, wants.lse, shapes.lse, shapes.numbers, problem.lse);
  attach("weights", outputs.weights, wants.weights, shapes.weights, shapes.weights_dtype, problem.weights);
  attach("statistics", outputs.statistics, wants.statistics != StatisticsSet::none, shapes.statistics, shapes.numbers,
         problem.statistics);
  attach("row_statistics", outputs.row_statistics, wants.row_statistics, shapes.row_statistics, shapes.numbers,
         problem.row_statistics);
  Argument{op, "output", outputs.output}.expect_last_stride_one();
  if (wants.weights) Argument{op, "weights", outputs.weights}.expect_last_stride_one();
}

}  // namespace polyhead::ops
