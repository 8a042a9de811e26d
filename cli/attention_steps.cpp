#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cli/trace.h"
#include "polyhead/attention.h"

namespace polyhead::cli {
namespace {

// Uniform numbers of the given variance, the same on every machine.
Tensor random_tensor(const Dims& shape, double variance, std::mt19937_64& bits) {
  Tensor tensor = Tensor::empty(shape, DType::f32);
  const double reach = std::sqrt(3 * variance);
  std::generate_n(tensor.as<float>(), count_of(shape), [&] {
    const double unit = static_cast<double>(bits() >> 11) * 0x1p-53;
    return static_cast<float>(reach * (2 * unit - 1));
  });
  return tensor;
}

// y = x W for x [B,T,C] and W [C,C].
Tensor times(const Tensor& x, const Tensor& w) {
  const std::int64_t width = w.shape()[0], rows = count_of(x.shape()) / width;
  Tensor y = Tensor::zeros(x.shape(), DType::f32);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* out = y.as<float>() + r * width;
    for (std::int64_t c = 0; c < width; ++c) {
      const float factor = x.as<float>()[r * width + c];
      const float* row = w.as<float>() + c * width;
      for (std::int64_t n = 0; n < width; ++n) out[n] += factor * row[n];
    }
  }
  return y;
}

float at(const ConstTensorView& view, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) {
  return view.as<float>()[b * view.stride(0) + h * view.stride(1) + t * view.stride(2) + d];
}

// q.k / sqrt(D), hidden keys at -inf: what the engine never stores.
std::vector<double> scores_of(const ConstTensorView& q, const ConstTensorView& k, bool causal) {
  const auto dim = q.shape(3);
  std::vector<double> scores;
  for (std::int64_t b = 0; b < q.shape(0); ++b)
    for (std::int64_t h = 0; h < q.shape(1); ++h)
      for (std::int64_t i = 0; i < q.shape(2); ++i)
        for (std::int64_t j = 0; j < k.shape(2); ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < dim; ++d) dot += at(q, b, h, i, d) * static_cast<double>(at(k, b, h, j, d));
          scores.push_back(causal && j > i ? -INFINITY : dot / std::sqrt(static_cast<double>(dim)));
        }
  return scores;
}

// Checks that the engine's weights sum to 1, and compares its outputs with softmax(scores) v.
void check(Trace& trace, const std::vector<double>& scores, const Attention& engine, const ConstTensorView& v) {
  const std::int64_t keys = v.shape(2), dim = v.shape(3), heads = v.shape(1);
  const float* weights = engine.weights.as<float>();
  const float* outputs = engine.output.as<float>();
  for (std::int64_t row = 0; row * keys < static_cast<std::int64_t>(scores.size()); ++row) {
    const double* s = scores.data() + row * keys;
    const double largest = *std::max_element(s, s + keys);
    double denominator = 0, sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      denominator += std::exp(s[j] - largest);
      sum += weights[row * keys + j];
    }
    trace.weight_sum_error = std::max(trace.weight_sum_error, std::abs(1 - sum));
    const std::int64_t b = row / keys / heads, h = row / keys % heads;
    for (std::int64_t d = 0; d < dim; ++d) {
      double o = 0;
      for (std::int64_t j = 0; j < keys; ++j) o += std::exp(s[j] - largest) / denominator * at(v, b, h, j, d);
      trace.engine_error = std::max(trace.engine_error, std::abs(o - outputs[row * dim + d]));
    }
  }
}

Table heads_table(const Tensor& statistics) {
  Table table{.name = "head_statistics",
              .columns = {{"head", "head", Style::count},
                          {"entropy", "entropy (nats)", Style::decimal},
                          {"normalised_entropy", "of the largest", Style::percent, 2},
                          {"max_weight", "largest weight", Style::decimal, 3},
                          {"first", "on first", Style::decimal},
                          {"self", "on itself", Style::decimal, 1},
                          {"previous", "on previous", Style::decimal}},
              .rows = {}};
  const std::int64_t batch = statistics.shape()[0], heads = statistics.shape()[1];
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto mean = [&](Statistic sum, Statistic count) {
      double total = 0, rows = 0;
      for (std::int64_t b = 0; b < batch; ++b) {
        const float* of_head = statistics.as<float>() + (b * heads + h) * kLightStatistics;
        total += of_head[static_cast<int>(sum)];
        rows += of_head[static_cast<int>(count)];
      }
      return rows > 0 ? Value(total / rows) : Value(std::monostate{});
    };
    using enum Statistic;
    table.rows.push_back({h, mean(entropy, rows), mean(normalised_entropy, normalised_rows), mean(max_weight, rows),
                          mean(first_weight, rows), mean(self_weight, self_rows),
                          mean(previous_weight, previous_rows)});
  }
  return table;
}

// Columns of the width in which two [B,T,C] tensors differ anywhere.
std::int64_t changed_columns(const Tensor& a, const Tensor& b) {
  const std::int64_t width = a.shape()[2], rows = count_of(a.shape()) / width;
  std::int64_t changed = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    bool differs = false;
    for (std::int64_t r = 0; r < rows; ++r) differs |= a.as<float>()[r * width + c] != b.as<float>()[r * width + c];
    changed += differs;
  }
  return changed;
}

ConstTensorView by_head(const Tensor& x, std::int64_t heads) { return x.view().split(2, heads).transpose(1, 2); }

// The heads side by side, [B,T,C]: the engine writes through a view, so merging copies nothing.
Tensor merged_heads(Context& context, const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                    const AttentionOptions& options) {
  Tensor merged = Tensor::empty(q.shape(), DType::f32);
  const TensorView output = merged.view().split(2, heads).transpose(1, 2);
  attend_into(context, by_head(q, heads), by_head(k, heads), by_head(v, heads), options, {}, {.output = output});
  return merged;
}

}  // namespace

bool few_enough(const Sizes& sizes) { return sizes.batch <= 8 && sizes.tokens <= 12 && sizes.width <= 16; }

Trace trace_attention(const Sizes& sizes, bool causal, std::int64_t seed) {
  const auto [batch, tokens, width, heads] = sizes;
  std::mt19937_64 bits(static_cast<std::uint64_t>(seed));
  const double fan_in = 1 / static_cast<double>(width);
  const Tensor x = random_tensor({batch, tokens, width}, 1, bits);
  const Tensor w_q = random_tensor({width, width}, fan_in, bits), w_k = random_tensor({width, width}, fan_in, bits);
  const Tensor w_v = random_tensor({width, width}, fan_in, bits), w_o = random_tensor({width, width}, fan_in, bits);
  const Tensor q = times(x, w_q), k = times(x, w_k), v = times(x, w_v);

  Context context;
  AttentionOptions options{.causal = causal};
  const AttentionWants wants{.weights = true, .statistics = StatisticsSet::light};
  const Attention engine = attend(context, by_head(q, heads), by_head(k, heads), by_head(v, heads), options, wants);
  const Tensor merged = merged_heads(context, q, k, v, heads, options);
  const Tensor output = times(merged, w_o);

  Tensor gates = Tensor::empty({heads}, DType::f32);
  std::fill_n(gates.as<float>(), heads, 1.0f);
  gates.as<float>()[0] = 0;
  options.gates = gates;
  const Tensor without = merged_heads(context, q, k, v, heads, options);

  Trace trace{.steps = {}, .heads = heads_table(engine.statistics)};
  trace.changed_before = changed_columns(merged, without);
  trace.changed_after = changed_columns(output, times(without, w_o));
  const std::vector<double> scores = scores_of(by_head(q, heads), by_head(k, heads), causal);
  check(trace, scores, engine, by_head(v, heads));

  const bool show = few_enough(sizes);
  const auto step = [&](const std::string& name, const ConstTensorView& view, const std::string& how) {
    trace.steps.push_back({name, view.shape(), how, show ? values_of(view) : std::vector<double>{}});
  };
  step("x", x, "the tokens, random");
  step("q", q, "x W_Q");
  step("k", k, "x W_K");
  step("v", v, "x W_V");
  step("split", q.view().split(2, heads), "the width cut into heads; k and v alike; a view, nothing moves");
  step("q by head", by_head(q, heads), "heads before tokens, again a view");
  step("k by head", by_head(k, heads), "the same");
  step("v by head", by_head(v, heads), "the same");
  trace.steps.push_back({"scores", engine.weights.shape(),
                         fmt::format("q.k / sqrt({}){}", width / heads, causal ? ", later keys hidden" : ""),
                         show ? scores : std::vector<double>{}});
  step("weights", engine.weights, "softmax of each row");
  step("heads", engine.output, "weights times v");
  step("merged", merged, "heads side by side again: before W_O");
  step("output", output, "merged W_O: after W_O");
  return trace;
}

}  // namespace polyhead::cli
