#include "cases.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace polyhead::bench {
namespace {

std::uint64_t splitmix64(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Numbers [first, first + count) of a seed's stream.
void fill_run(float* data, std::uint64_t first, std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto high = static_cast<float>(splitmix64(first + i + 1 + (seed << 32)) >> 40);
    data[i] = (high * 0x1p-23f - 1.0f) * 1.7320508f;
  }
}

void narrow(const float* from, const TensorView& to) {
  std::transform(from, from + to.count(), to.as<bfloat16>(), [](float number) { return bfloat16(number); });
}

// The tokens [begin, end) of a [B,G,S,D] tensor of that seed.
Tensor uniform_tokens(const KvCacheSizes& sizes, std::int64_t begin, std::int64_t end, std::uint64_t seed) {
  const std::int64_t D = sizes.head_dim;
  Tensor tensor = Tensor::empty({sizes.batch, sizes.kv_heads, end - begin, D}, DType::f32);
  for (std::int64_t row = 0; row < sizes.batch * sizes.kv_heads; ++row) {
    fill_run(tensor.as<float>() + row * (end - begin) * D,
             static_cast<std::uint64_t>((row * sizes.capacity + begin) * D),
             static_cast<std::uint64_t>((end - begin) * D), seed);
  }
  return tensor;
}

Tensor uniform(const Dims& shape, std::uint64_t seed, DType dtype = DType::f32) {
  Tensor tensor = Tensor::empty(shape, dtype);
  fill_uniform(tensor, seed);
  return tensor;
}

template <class T>
Tensor tensor_of(const std::vector<T>& values) {
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(values.size())}, dtype_of<T>);
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

// A bool tensor that is true except for one in `every` elements on average.
Tensor mostly_true(const Dims& shape, std::uint64_t every) {
  Tensor tensor = Tensor::empty(shape, DType::boolean);
  bool* data = tensor.as<bool>();
  const std::int64_t count = count_of(shape);
  for (std::int64_t i = 0; i < count; ++i) data[i] = splitmix64(static_cast<std::uint64_t>(i) + 1) % every != 0;
  return tensor;
}

void causal(Case& c) {
  c.options.causal = true;
  c.visible = 0.5 * static_cast<double>(c.sizes.batch * c.sizes.heads * c.sizes.length * (c.sizes.length + 1));
}

void window(Case& c) {
  const std::int64_t reach = 128, last = c.sizes.length - 1;
  c.options.window = {.left = reach, .right = reach, .always_first = 0};
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i <= last; ++i)
    pairs += std::min(i + reach, last) - std::max(i - reach, std::int64_t{0}) + 1;
  c.visible = static_cast<double>(c.sizes.batch * c.sizes.heads * pairs);
}

void alibi(Case& c) {
  std::vector<float> slopes(static_cast<std::size_t>(c.sizes.heads));
  for (std::size_t h = 0; h < slopes.size(); ++h) {
    slopes[h] = std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(slopes.size()));
  }
  c.options.alibi = c.keep(tensor_of(slopes));
}

void softcap(Case& c) { c.options.softcap = 30; }

// Logits like those of q and k with this variance instead of 1.
template <int kVariance>
void variance(Case& c) {
  c.options.scale = kVariance / std::sqrt(static_cast<double>(c.sizes.dim));
}
void sink(Case& c) { c.options.sink_logit = c.keep(uniform({c.sizes.heads}, 4)); }
void dropout(Case& c) { c.options.dropout = {.p = 0.1, .seed = 7}; }
void bias(Case& c) { c.options.bias = c.keep(uniform({1, c.sizes.heads, c.sizes.length, c.sizes.length}, 5)); }

void keep(Case& c) {
  const Tensor& mask = c.keep(mostly_true({c.sizes.batch, 1, c.sizes.length, c.sizes.length}, 10));
  const bool* data = mask.as<bool>();
  const auto seen = std::count(data, data + count_of(mask.shape()), true);
  c.options.keep = mask;
  c.visible = static_cast<double>(c.sizes.heads) * static_cast<double>(seen);
}

// About four fifths of every sequence, and not a multiple of any tile: 811 of 1024.
void lengths(Case& c) {
  const std::int64_t length = c.sizes.length * 811 / 1024;
  const std::vector<std::int32_t> all(static_cast<std::size_t>(c.sizes.batch), static_cast<std::int32_t>(length));
  c.options.key_lengths = c.keep(tensor_of(all));
  c.options.query_lengths = c.keep(tensor_of(all));
  c.visible = static_cast<double>(c.sizes.batch * c.sizes.heads * length * length);
}

// Four sequences of different lengths: 100, 200, 300 and 424 of 1024.
void packed(Case& c) {
  if (c.sizes.batch != 1) throw std::invalid_argument("packed: expected batch 1");
  std::vector<std::int32_t> starts{0, 100, 300, 600, 1024};
  for (auto& start : starts) start = static_cast<std::int32_t>(start * c.sizes.length / 1024);
  double pairs = 0;
  for (std::size_t n = 1; n < starts.size(); ++n) pairs += std::pow(starts[n] - starts[n - 1], 2);
  c.options.cu_q = c.keep(tensor_of(starts));
  c.options.cu_k = c.keep(tensor_of(starts));
  c.visible = static_cast<double>(c.sizes.heads) * pairs;
}

void set_gates(Case& c, float even, float odd) {
  std::vector<float> gates(static_cast<std::size_t>(c.sizes.heads));
  for (std::size_t h = 0; h < gates.size(); ++h) gates[h] = h % 2 == 0 ? even : odd;
  c.options.gates = c.keep(tensor_of(gates));
}
void gates_on(Case& c) { set_gates(c, 1, 1); }
void gates_half(Case& c) { set_gates(c, 1, 0); }

void want_statistics(Case& c, StatisticsSet set, int fields) {
  c.wants.statistics = set;
  c.statistics = Tensor::zeros({c.sizes.batch, c.sizes.heads, fields}, DType::f32);
  c.outputs.statistics = c.statistics;
}
void light(Case& c) { want_statistics(c, StatisticsSet::light, kLightStatistics); }

// With everything that the full set takes: marked keys, and two targets per query.
void full(Case& c) {
  want_statistics(c, StatisticsSet::full, kFullStatistics);
  c.wants.marked_keys = c.keep(mostly_true({c.sizes.batch, c.sizes.length}, 2));
  Tensor& targets = c.keep(Tensor::empty({c.sizes.batch, c.sizes.length, 4}, DType::i32));
  std::int32_t* data = targets.as<std::int32_t>();
  for (std::int64_t row = 0; row < c.sizes.batch * c.sizes.length; ++row, data += 4) {
    const auto i = static_cast<std::int32_t>(row % c.sizes.length);
    data[0] = i / 2;
    data[1] = std::max(i - 7, 0);
    data[2] = data[3] = -1;
  }
  c.wants.target_keys = targets;
}

// Comes before the options that make further tensors.
void bf16(Case& c) {
  for (Tensor* tensor : {&c.q, &c.k, &c.v, &c.output}) {
    Tensor rounded = Tensor::empty(tensor->shape(), DType::bf16);
    narrow(tensor->as<float>(), rounded);
    *tensor = std::move(rounded);
  }
  c.outputs.output = c.output;
}

void backward(Case& c) {
  c.backward = true;
  c.dout = uniform(c.q.shape(), 6, c.q.dtype());
  c.lse = Tensor::zeros({c.sizes.batch, c.sizes.heads, c.sizes.length}, DType::f32);
  c.dq = uniform(c.q.shape(), 0, c.q.dtype());
  c.dk = uniform(c.k.shape(), 0, c.q.dtype());
  c.dv = uniform(c.v.shape(), 0, c.q.dtype());
  c.gradients.dq = c.dq;
  c.gradients.dk = c.dk;
  c.gradients.dv = c.dv;
}
void gate_gradients(Case& c) {
  gates_on(c);
  c.gradient_wants.gates = true;
  c.dgates = Tensor::zeros({c.sizes.batch, c.sizes.heads}, DType::f32);
  c.gradients.dgates = c.dgates;
}

void allocating(Case& c) { c.allocates = true; }

void nothing(Case&) {}

const std::map<std::string, void (*)(Case&), std::less<>> kOptions{
    {"plain", nothing},
    {"bf16", bf16},
    {"grouped", nothing},
    {"causal", causal},
    {"window", window},
    {"alibi", alibi},
    {"softcap", softcap},
    {"sink_logit", sink},
    {"lengths", lengths},
    {"packed", packed},
    {"keep", keep},
    {"bias", bias},
    {"dropout", dropout},
    {"gates_on", gates_on},
    {"gates_half", gates_half},
    {"light", light},
    {"full", full},
    {"backward", backward},
    {"allocating", allocating},
    {"gate_gradients", gate_gradients},
    {"variance_16", variance<16>},
    {"variance_64", variance<64>},
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::unique_ptr<Case> make_decode(const std::string& name) {
  const std::vector<std::string> halves = split(name, '/'), parts = split(halves[0], ',');
  constexpr DType kStorage[] = {DType::f32, DType::f16, DType::bf16};
  const auto* storage = std::find_if(std::begin(kStorage), std::end(kStorage),
                                     [&](DType dtype) { return parts.size() == 6 && name_of(dtype) == parts[5]; });
  if (halves.size() != 2 || halves[1] != "plain" || storage == std::end(kStorage)) {
    throw std::invalid_argument(name + ": expected decode:B,H,G,S,D,f32 (or f16, bf16)/plain");
  }
  const Sizes sizes{std::stoll(parts[0]), std::stoll(parts[1]), std::stoll(parts[3]), std::stoll(parts[4])};
  return std::make_unique<Case>(sizes, std::stoll(parts[2]), *storage);
}

Sizes sizes_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split(text, ',')) numbers.push_back(std::stoll(part));
  if (numbers.size() != 4) throw std::invalid_argument(text + ": expected B,H,T,D");
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace

Case::Case(const Sizes& case_sizes, std::int64_t kv_heads)
    : sizes(case_sizes),
      q(uniform({sizes.batch, sizes.heads, sizes.length, sizes.dim}, 1)),
      k(uniform({sizes.batch, kv_heads, sizes.length, sizes.dim}, 2)),
      v(uniform({sizes.batch, kv_heads, sizes.length, sizes.dim}, 3)),
      output(uniform(q.shape(), 0)),  // written, so that its pages are mapped
      visible(static_cast<double>(sizes.batch * sizes.heads * sizes.length * sizes.length)) {
  outputs.output = output;
}

// Filled a few tokens at a time, so that no second copy of a large cache exists.
Case::Case(const Sizes& case_sizes, std::int64_t kv_heads, DType storage)
    : sizes(case_sizes),
      q(uniform({sizes.batch, sizes.heads, 1, sizes.dim}, 1)),
      output(uniform(q.shape(), 0)),
      visible(static_cast<double>(sizes.batch * sizes.heads * sizes.length)) {
  Context context(1);
  cache.emplace(context, KvCacheSizes{sizes.batch, kv_heads, sizes.length, sizes.dim, sizes.dim}, storage);
  for (std::int64_t begin = 0; begin < sizes.length; begin += 256) {
    const std::int64_t end = std::min<std::int64_t>(begin + 256, sizes.length);
    cache->append(context, uniform_tokens(cache->sizes(), begin, end, 2),
                  uniform_tokens(cache->sizes(), begin, end, 3));
  }
  outputs.output = output;
}

void Case::prepare(Context& context) {
  if (!backward) return;
  AttentionWants forward_wants = wants;
  AttentionOutputs forward_outputs = outputs;
  forward_wants.lse = true;
  forward_outputs.lse = lse;
  attend_into(context, q, k, v, options, forward_wants, forward_outputs);
}

void Case::call(Context& context) const {
  if (cache) return attend_into(context, q, *cache, options, wants, outputs);
  if (allocates && backward) {
    attend_backward(context, q, k, v, options, {.output = dout}, gradient_wants, {output, lse});
  } else if (allocates) {
    attend(context, q, k, v, options, wants);
  } else if (backward) {
    attend_backward_into(context, q, k, v, options, {.output = dout}, gradient_wants, {output, lse}, gradients);
  } else {
    attend_into(context, q, k, v, options, wants, outputs);
  }
}

std::vector<const Tensor*> Case::results() const {
  if (backward) return {&dq, &dk, &dv};
  return {&output};
}

Tensor& Case::keep(Tensor tensor) { return others.emplace_back(std::move(tensor)); }

std::unique_ptr<Case> make_case(const std::string& name) {
  constexpr std::string_view kDecode = "decode:";
  if (name.starts_with(kDecode)) return make_decode(name.substr(kDecode.size()));
  const std::vector<std::string> halves = split(name, '/');
  if (halves.size() != 2) throw std::invalid_argument(name + ": expected B,H,T,D/option+option");
  const Sizes sizes = sizes_of(halves[0]);
  const std::vector<std::string> options = split(halves[1], '+');
  const bool grouped = std::find(options.begin(), options.end(), "grouped") != options.end();
  auto made = std::make_unique<Case>(sizes, grouped ? std::gcd(sizes.heads, std::int64_t{4}) : sizes.heads);
  for (const std::string& option : options) {
    const auto found = kOptions.find(option);
    if (found == kOptions.end()) throw std::invalid_argument("no option " + option);
    found->second(*made);
  }
  return made;
}

void fill_uniform(const TensorView& tensor, std::uint64_t seed, float factor) {
  std::vector<float> numbers(static_cast<std::size_t>(count_of(tensor.shape())));
  fill_run(numbers.data(), 0, numbers.size(), seed);
  for (float& number : numbers) number *= factor;
  if (tensor.dtype() == DType::bf16) return narrow(numbers.data(), tensor);
  std::copy(numbers.begin(), numbers.end(), tensor.as<float>());
}

}  // namespace polyhead::bench
