#include "model/memory.h"

#include <algorithm>
#include <string>

#include "core/memory.h"
#include "model/transformer.h"
#include "polyhead/attention.h"

namespace polyhead::model {
namespace {

constexpr double kBytes = 4;  // of a number

// Numbers that one token leaves in one layer.
struct PerToken {
  double forward = 0, backward = 0, statistics = 0;
};

PerToken per_token(const Config& config, const LayerHeads& heads) {
  const auto width = static_cast<double>(config.width), dim = static_cast<double>(config.head_dim);
  const double inner = static_cast<double>(heads.heads) * dim, shared = static_cast<double>(heads.kv_heads) * dim;
  const double norms = config.norm == Norm::none ? 0 : (config.sandwich ? 2 : 1) * width,
               drops = config.dropout > 0 ? width : 0;
  PerToken numbers;
  if (heads.heads > 0) {  // norm, q k v, heads, output, sum; backward the same without the sum
    numbers.forward += norms + 2 * inner + 2 * shared + 2 * width;
    numbers.backward += norms + 2 * inner + 2 * shared + width;
    numbers.statistics += static_cast<double>(heads.heads) * kFullStatistics;
    if (config.qk_norm) numbers.forward += inner + shared;
  }
  if (config.feed_forward != FeedForward::none) {  // norm, up, activation, down, sum
    const double up = (is_gated(config.feed_forward) ? 2 : 1) * static_cast<double>(config.hidden);
    numbers.forward += norms + up + static_cast<double>(config.hidden) + 2 * width + drops;
    numbers.backward += norms + up + static_cast<double>(config.hidden) + width + drops;
  }
  return numbers;
}

}  // namespace

double parameter_count(const Config& config) {
  const auto width = static_cast<double>(config.width), dim = static_cast<double>(config.head_dim);
  const double norm = config.norm == Norm::none ? 0 : config.norm == Norm::layer ? 2 * width : width;
  const double bias = config.bias ? 1 : 0;
  double count = static_cast<double>(config.vocabulary) * width;
  count += (config.post_norm ? 0 : norm) + (config.embedding_norm ? norm : 0);
  if (config.positions == Positions::learned) count += static_cast<double>(config.context) * width;
  for (const LayerHeads& heads : config.layers) {
    const double inner = static_cast<double>(heads.heads) * dim;
    const double rows = inner + 2 * static_cast<double>(heads.kv_heads) * dim;
    count += (config.sandwich ? 2 : 1) * norm + rows * (width + bias) + inner * width + bias * width;
    if (config.qk_norm && heads.heads > 0) count += 2 * dim;
    if (config.feed_forward == FeedForward::none) continue;
    const double up = (is_gated(config.feed_forward) ? 2 : 1) * static_cast<double>(config.hidden);
    count +=
        (config.sandwich ? 2 : 1) * norm + up * (width + bias) + width * (static_cast<double>(config.hidden) + bias);
  }
  if (!config.tied && config.kind != Kind::encoder)
    count += static_cast<double>(config.outputs()) * (width + (config.kind == Kind::classifier ? 1 : 0));
  return count;
}

double packed_bytes(const Transformer& model) {
  double bytes = 0;
  for (const autograd::Parameter* parameter : model.parameters()) {
    const Tensor& value = parameter->value;
    bytes += value.dtype() == DType::blocks ? 0 : static_cast<double>(value.bytes());
  }
  return bytes;
}

double pass_bytes(const Config& config, const Pass& pass) {
  const auto width = static_cast<double>(config.width), tokens = static_cast<double>(pass.tokens);
  const double outputs = config.kind == Kind::gpt ? static_cast<double>(config.vocabulary) : 0;
  double numbers = (pass.backward ? 2 : 1) * (2 * width + outputs / (pass.last_only ? tokens : 1));
  double forward = 0, largest = 0, largest_back = 0, remembered = 0;
  for (const LayerHeads& heads : config.layers) {
    const PerToken layer = per_token(config, heads);
    numbers += pass.row_statistics ? layer.statistics : 0;
    if (!pass.backward && pass.remembered == 0 && heads.heads > 0) numbers += width;  // the output of attention is kept
    forward += layer.forward;
    largest = std::max(largest, layer.forward);
    largest_back = std::max(largest_back, layer.backward);
    remembered += 2 * static_cast<double>(heads.kv_heads * config.head_dim);
  }
  numbers += pass.backward ? forward + largest_back : largest;
  return kBytes * static_cast<double>(pass.batch) *
         (numbers * tokens + remembered * static_cast<double>(pass.remembered));
}

double bytes_of(const Config& config, int copies, const Pass& pass, double more) {
  const double sinusoids = static_cast<double>(config.context) * static_cast<double>(config.width);
  if (config.positions == Positions::sinusoidal) more += kBytes * sinusoids;
  return kBytes * parameter_count(config) * copies + pass_bytes(config, pass) + more;
}

void expect_memory(std::string_view op, const Config& config, int copies, const Pass& pass, double more,
                   const std::string& mend) {
  const double parameters = parameter_count(config);
  polyhead::expect_memory(op,
                          "a model of " + std::to_string(static_cast<std::int64_t>(std::min(parameters, 9e18))) +
                              " parameters on " + std::to_string(pass.batch) + " x " + std::to_string(pass.tokens) +
                              " tokens",
                          bytes_of(config, copies, pass, more), mend);
}

}  // namespace polyhead::model
