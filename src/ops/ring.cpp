#include "ops/ring.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "core/hash.h"
#include "core/numbers.h"
#include "ops/elementwise.h"

namespace polyhead::ops {
namespace {

constexpr const char* kRingOp = "ring_attend";

// f32 of 16 bits, so that no part is rounded before it is added.
Tensor widened(Context& context, const ConstTensorView& x) {
  if (size_of(x.dtype()) != 2) return clone(context, x);
  Tensor wide = Tensor::empty(x.shape(), DType::f32);
  copy(context, x, wide);
  return wide;
}

void refuse_options(const AttentionOptions& options) {
  const std::pair<bool, const char*> refused[] = {{options.keep.present(), "keep"},
                                                  {options.bias.present(), "bias"},
                                                  {options.first_positions.present(), "first_positions"},
                                                  {options.key_lengths.present(), "key_lengths"},
                                                  {options.key_start.present(), "key_start"},
                                                  {options.query_lengths.present(), "query_lengths"},
                                                  {options.cu_q.present() || options.cu_k.present(), "cu_q and cu_k"}};
  for (const auto& [present, name] : refused) {
    if (!present) continue;
    throw Error(ErrorCode::unsupported, kRingOp,
                std::string(name) +
                    ": expected none, since a ring's shards have whole rows and masks by position; leave it "
                    "out, or gather the sequence on one rank");
  }
}

// Of a small tensor, by which ranks see that they have the same.
std::string mark_of(const ConstTensorView& x) {
  if (!x.present()) return "none";
  if (x.strides() != contiguous_strides(x.shape())) return describe(x);
  const auto* bytes = static_cast<const unsigned char*>(x.data());
  return describe(x) + " " +
         std::to_string(fnv1a(std::span(bytes, static_cast<std::size_t>(x.count()) * size_of(x.dtype()))));
}

std::string text_of(const AttentionOptions& o) {
  char text[512];
  std::snprintf(
      text, sizeof text,
      "scale %d %a softcap %a align %d first_position %d %lld causal %d window %lld %lld %lld dropout %a seed %llu",
      o.scale ? 1 : 0, o.scale.value_or(0), o.softcap, static_cast<int>(o.align), o.first_position ? 1 : 0,
      static_cast<long long>(o.first_position.value_or(0)), o.causal ? 1 : 0, static_cast<long long>(o.window.left),
      static_cast<long long>(o.window.right), static_cast<long long>(o.window.always_first), o.dropout.p,
      static_cast<unsigned long long>(o.dropout.seed));
  return std::string(text) + " alibi " + mark_of(o.alibi) + " sink_logit " + mark_of(o.sink_logit) + " gates " +
         mark_of(o.gates);
}

// Where the rows of every rank begin, and at the end how many there are.
std::vector<std::int64_t> begins_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> begins{0};
  for (const std::int64_t count : counts) begins.push_back(begins.back() + count);
  return begins;
}

// Who has what: checked, and the same on all ranks.
class Places {
 public:
  Places(Context& context, Ranks& ranks, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
         const AttentionOptions& options)
      : ranks_(ranks), options_(options) {
    if (context.device() != Device{}) {
      throw Error(ErrorCode::unsupported, kRingOp,
                  "expected a context of the CPU, found one of " + to_string(context.device()));
    }
    refuse_options(options);
    for (const ConstTensorView* x : {&q, &k, &v}) {
      if (x->rank() == 4) continue;
      throw Error(ErrorCode::shape, kRingOp, "expected q, k and v with four axes, found " + describe(*x));
    }
    const auto rest = [](const ConstTensorView& x) { return describe(x.slice(2, 0, 0)); };
    expect_agreement(ranks, kRingOp,
                     {{"shape of q, k and v apart from their rows", rest(q) + ", " + rest(k) + ", " + rest(v)},
                      {"set of options", text_of(options)}});
    std::vector<std::int64_t> queries, keys;
    for (const std::string& text : ranks.gather(std::to_string(q.shape(2)) + " " + std::to_string(k.shape(2)))) {
      queries.push_back(std::stoll(text));
      keys.push_back(std::stoll(text.substr(text.find(' '))));
    }
    queries_ = begins_of(queries);
    keys_ = begins_of(keys);
    if (options.align == Align::unset && !options.first_position && queries_.back() != keys_.back()) {
      throw Error(ErrorCode::value, kRingOp,
                  "align: expected one, since there are " + std::to_string(queries_.back()) + " queries and " +
                      std::to_string(keys_.back()) + " keys");
    }
  }

  int next() const { return (ranks_.rank() + 1) % ranks_.size(); }
  int previous() const { return (ranks_.rank() + ranks_.size() - 1) % ranks_.size(); }
  // Whose shard is here after so many steps.
  int shard_at(int step) const { return (ranks_.rank() + ranks_.size() - step) % ranks_.size(); }
  std::int64_t keys(int shard) const { return key_begin(shard + 1) - key_begin(shard); }

  // What a call with this shard is made with: everything counts from the whole sequence.
  AttentionOptions options_for(int shard) const {
    AttentionOptions o = options_;
    o.align = Align::unset;
    o.first_position = position() - key_begin(shard);
    o.window.always_first = std::max<std::int64_t>(o.window.always_first - key_begin(shard), 0);
    o.dropout.origin.row += query_begin();
    o.dropout.origin.key += key_begin(shard);
    if (shard > 0) o.sink_logit = {};
    return o;
  }
  // Whether some query here may see some key of the shard, or its sink.
  bool sees(int shard) const {
    const std::int64_t first = position(), rows = queries_[index(ranks_.rank()) + 1] - query_begin();
    const std::int64_t last = first + rows - 1, begin = key_begin(shard), end = key_begin(shard + 1);
    if (rows == 0) return false;
    if (shard == 0 && options_.sink_logit.present()) return true;
    if (begin == end || (options_.causal && begin > last)) return false;
    const Window& window = options_.window;
    if (begin < window.always_first) return true;
    const bool before = window.left != kUnlimited && end - 1 < first - window.left;
    const bool behind = window.right != kUnlimited && begin > last + window.right;
    return !before && !behind;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  std::int64_t query_begin() const { return queries_[index(ranks_.rank())]; }
  std::int64_t key_begin(int shard) const { return keys_[index(shard)]; }
  // Of the first query here among all keys.
  std::int64_t position() const {
    const std::int64_t shift = options_.align == Align::bottom_right ? keys_.back() - queries_.back() : 0;
    return options_.first_position.value_or(shift) + query_begin();
  }

  Ranks& ranks_;
  const AttentionOptions& options_;
  std::vector<std::int64_t> queries_, keys_;
};

// Tensors [B,G,S,..] of one shard, which go around.
class Travellers {
 public:
  Travellers(Ranks& ranks, const Places& places, std::vector<Tensor> own)
      : ranks_(ranks), places_(places), here_(std::move(own)) {}
  Tensor& operator[](std::size_t n) { return here_[n]; }
  // On to the next rank; what comes is shard `shard`.
  void go_on(int shard) {
    if (ranks_.size() == 1) return;
    for (Tensor& tensor : here_) {
      Dims shape = tensor.shape();
      shape[2] = places_.keys(shard);
      Tensor arrived = Tensor::empty(shape, tensor.dtype());
      ranks_.exchange(bytes_of(tensor), places_.next(), bytes_of(arrived), places_.previous());
      tensor = std::move(arrived);
    }
  }

 private:
  Ranks& ranks_;
  const Places& places_;
  std::vector<Tensor> here_;
};

void add_to(Context& context, Tensor& sum, const Tensor& more) {
  elementwise(context, Elementwise::add, sum, more, sum);
}

// The sum over ranks, in their order, on all of them.
void sum_over_ranks(Ranks& ranks, Tensor& numbers) {
  if (!numbers.present() || ranks.size() == 1) return;
  const std::span<std::byte> bytes = bytes_of(numbers);
  const auto add = [&]<class Real>(Real* to) {
    std::vector<double> sums(static_cast<std::size_t>(numbers.view().count()));
    for (const std::string& text :
         ranks.gather(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()))) {
      for (std::size_t n = 0; n < sums.size(); ++n) {
        Real number;
        std::memcpy(&number, text.data() + n * sizeof number, sizeof number);
        sums[n] += static_cast<double>(number);
      }
    }
    std::transform(sums.begin(), sums.end(), to, [](double sum) { return static_cast<Real>(sum); });
  };
  numbers.dtype() == DType::f64 ? add(numbers.as<double>()) : add(numbers.as<float>());
}

}  // namespace

RingAttention ring_attend(Context& context, Ranks& ranks, const ConstTensorView& q, const ConstTensorView& k,
                          const ConstTensorView& v, const AttentionOptions& options) {
  const Places places(context, ranks, q, k, v, options);
  const Tensor wide = widened(context, q);
  std::vector<Tensor> own;
  own.push_back(clone(context, k));
  own.push_back(clone(context, v));
  Travellers shard(ranks, places, std::move(own));
  const Dims rows{q.shape(0), q.shape(1), q.shape(2)};
  // Merged so far, in double; a row that has seen nothing is 0, with lse -inf.
  RingAttention merged{Tensor::zeros({rows[0], rows[1], rows[2], v.shape(3)}, DType::f64),
                       Tensor::empty(rows, DType::f64)};
  std::fill_n(merged.lse.as<double>(), merged.lse.view().count(), -std::numeric_limits<double>::infinity());
  RingAttention more{Tensor::empty(merged.output.shape(), DType::f64), Tensor::empty(rows, DType::f64)};
  for (int step = 0; step < ranks.size(); ++step) {
    const int owner = places.shard_at(step);
    if (places.sees(owner)) {
      const Attention part = attend(context, wide, shard[0], shard[1], places.options_for(owner), {.lse = true});
      const AttentionPart parts[] = {{merged.output, merged.lse, {}}, {part.output, part.lse, {}}};
      merge_attention(parts, {.output = more.output, .lse = more.lse});
      std::swap(merged, more);
    }
    if (step + 1 < ranks.size()) shard.go_on(places.shard_at(step + 1));
  }
  RingAttention result{Tensor::empty(merged.output.shape(), q.dtype()),
                       Tensor::empty(rows, q.dtype() == DType::f64 ? DType::f64 : DType::f32)};
  const AttentionPart all[] = {{merged.output, merged.lse, {}}};
  merge_attention(all, {.output = result.output, .lse = result.lse});
  return result;
}

AttentionGradients ring_attend_backward(Context& context, Ranks& ranks, const ConstTensorView& q,
                                        const ConstTensorView& k, const ConstTensorView& v,
                                        const AttentionOptions& options, const UpstreamGradients& upstream,
                                        const GradientWants& wants, const RingAttention& forward) {
  const Places places(context, ranks, q, k, v, options);
  const Tensor wide = widened(context, q), output = widened(context, forward.output),
               doutput = widened(context, upstream.output);
  const DType real = wide.dtype();
  std::vector<Tensor> own;  // k, v, dk, dv
  own.push_back(widened(context, k));
  own.push_back(widened(context, v));
  own.push_back(Tensor::zeros(k.shape(), real));
  own.push_back(Tensor::zeros(v.shape(), real));
  Travellers shard(ranks, places, std::move(own));
  Tensor dq = Tensor::zeros(q.shape(), real);
  AttentionGradients sums;
  if (wants.sink_logit) sums.dsink_logit = Tensor::zeros({q.shape(1)}, real);
  if (wants.gates) sums.dgates = Tensor::zeros({q.shape(0), q.shape(1)}, real);
  for (int step = 0; step < ranks.size(); ++step) {
    const int owner = places.shard_at(step);
    if (places.sees(owner)) {
      const AttentionOptions here = places.options_for(owner);
      const AttentionGradients part =
          attend_backward(context, wide, shard[0], shard[1], here, {doutput, upstream.lse, {}},
                          {.sink_logit = wants.sink_logit && here.sink_logit.present(), .gates = wants.gates},
                          {output, forward.lse, true});
      add_to(context, dq, part.dq);
      add_to(context, shard[2], part.dk);
      add_to(context, shard[3], part.dv);
      if (part.dsink_logit.present()) add_to(context, sums.dsink_logit, part.dsink_logit);
      if (part.dgates.present()) add_to(context, sums.dgates, part.dgates);
    }
    shard.go_on(places.shard_at(step + 1));  // after the last step they are home
  }
  const auto stored = [&](const Tensor& wide_one, DType dtype) {
    Tensor made = Tensor::empty(wide_one.shape(), dtype);
    copy(context, wide_one, made);
    return made;
  };
  sums.dq = stored(dq, q.dtype());
  sums.dk = stored(shard[2], k.dtype());
  sums.dv = stored(shard[3], v.dtype());
  sum_over_ranks(ranks, sums.dsink_logit);
  sum_over_ranks(ranks, sums.dgates);
  return sums;
}

}  // namespace polyhead::ops
