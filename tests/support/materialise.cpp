#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "reference/attention.h"
#include "reference/softmax_row.h"
#include "support/cases.h"

namespace polyhead::test {
namespace {

class Maker {
 public:
  // The number picks an edition in which no two logits are all but equal (Yardstick.IsFitToJudge looks).
  explicit Maker(const Case& recipe) : c_(recipe), random_("4 " + recipe.name) {
    made_.name = recipe.name;
    made_.options = recipe.options;
    made_.wants = recipe.wants;
  }

  Materialised make() {
    make_inputs();
    shape_logits();
    make_lengths();
    make_masks();
    make_per_head();
    make_watched();
    make_upstream();
    if (c_.hidden_nan) spoil_hidden();
    if (c_.closed_nan) spoil_closed();
    spoil_one();
    if (c_.shard) add_forward();
    return std::move(made_);
  }

 private:
  std::int64_t axis0() const { return c_.packed ? 1 : c_.batch; }
  DType wide() const { return c_.dtype == DType::f64 ? DType::f64 : DType::f32; }

  TensorView own(Tensor tensor) {
    made_.memory.push_back(std::move(tensor));
    return made_.memory.back().view();
  }
  TensorView zeros(const Dims& shape, DType dtype) { return own(Tensor::zeros(shape, dtype)); }
  TensorView normal(const Dims& shape, DType dtype, double spread = 1) {
    const TensorView tensor = zeros(shape, dtype);
    fill_normal(tensor, random_, spread);
    return tensor;
  }
  TensorView integers(const std::vector<std::int64_t>& values) {
    const TensorView tensor =
        zeros({static_cast<std::int64_t>(values.size())}, c_.wide_integers ? DType::i64 : DType::i32);
    std::size_t n = 0;
    fill_with(tensor, [&] { return static_cast<double>(values[n++]); });
    return tensor;
  }
  // [B] of make(b).
  template <class Make>
  TensorView per_sequence(const Make& make) {
    std::vector<std::int64_t> values;
    for (std::int64_t b = 0; b < (c_.packed ? 4 : c_.batch); ++b) values.push_back(make(b));
    return integers(values);
  }
  // Like a slice of something larger: the stride of a row is not its length.
  TensorView slice_of_larger(Dims shape, DType dtype) {
    const int last = shape.rank() - 1;
    const std::int64_t size = shape[last];
    shape[last] = size + 3;
    return zeros(shape, dtype).slice(last, 1, 1 + size);
  }
  TensorView rows_of_pieces(Dims shape, DType dtype) {
    const int last = shape.rank() - 1;
    const std::int64_t size = shape[last];
    shape[last] = (size + 7) / 8 * 8 + 8;
    return zeros(shape, dtype).slice(last, 0, size);
  }
  TensorView placed(std::int64_t h, std::int64_t t, std::int64_t d, std::optional<DType> dtype = {}) {
    Placed result = place(axis0(), h, t, d, dtype.value_or(c_.dtype), c_.layout);
    own(std::move(result.memory));
    return result.view;
  }

  void make_inputs() {
    const std::int64_t h = c_.heads, g = c_.kv_heads, d = c_.head_dim;
    if (c_.layout == Layout::fused) {
      const TensorView all = zeros({axis0(), c_.queries, (h + 2 * g) * d}, c_.dtype);
      made_.q = heads_of(all, 0, h, d);
      made_.k = heads_of(all, h, h + g, d);
      made_.v = heads_of(all, h + g, h + 2 * g, d);
    } else {
      made_.q = placed(h, c_.queries, d);
      made_.k = placed(g, c_.keys, d, c_.storage);
      made_.v = placed(g, c_.keys, c_.value_dim, c_.storage);
    }
    const double spread = c_.logits == Logits::spread ? 100 : 1;
    fill_normal(made_.q, random_, spread);
    fill_normal(made_.k, random_, spread);
    fill_normal(made_.v, random_);
  }

  // The first element of q and k adds the same to every logit.
  void shape_logits() {
    if (c_.logits != Logits::high && c_.logits != Logits::low) return;
    const double k0 = (c_.logits == Logits::high ? 100 : -100) * std::sqrt(static_cast<double>(c_.head_dim));
    fill_with(made_.q.slice(3, 0, 1), [] { return 100.0; });
    fill_with(made_.k.slice(3, 0, 1), [&] { return k0; });
  }

  // The first sequence is whole but for what starts late; the last of three or more has no keys.
  void make_lengths() {
    const std::int64_t t = c_.queries, s = c_.keys, last = c_.batch - 1;
    const auto length = [=](std::int64_t b) { return b == 0 ? s : b == last && b > 1 ? 0 : (2 * s + 2) / 3; };
    if (c_.key_lengths) made_.options.key_lengths = per_sequence(length);
    if (c_.key_start) {
      made_.options.key_start =
          per_sequence([&](std::int64_t b) { return std::min(s / 4 * (b + 1), c_.key_lengths ? length(b) : s); });
    }
    if (c_.query_lengths) {
      made_.options.query_lengths = per_sequence([=](std::int64_t b) { return b % 2 == 0 ? 3 * t / 4 : t; });
    }
    if (c_.packed) {
      made_.options.cu_q = integers({0, t / 5, t / 5, 2 * t / 3, t});
      made_.options.cu_k = integers({0, s / 3, s / 2, s / 2, s});
    }
    if (c_.first_positions) {
      made_.options.first_positions = per_sequence([=](std::int64_t b) { return b % 2 == 0 ? s / 3 + b : -b; });
    }
  }

  void make_masks() {
    if (c_.keep) {
      const TensorView keep = slice_of_larger(*c_.keep, DType::boolean);
      fill_with(keep, [&] { return random_.uniform() < 0.75 ? 1.0 : 0.0; });
      hide_a_row(keep);
      made_.options.keep = keep;
    }
    if (c_.bias) {
      const DType dtype = c_.bias_dtype.value_or(c_.dtype);
      made_.bias = c_.bias_pieces ? rows_of_pieces(*c_.bias, dtype) : slice_of_larger(*c_.bias, dtype);
      fill_with(made_.bias, [&] {
        const double x = random_.normal();
        return random_.uniform() < c_.bias_hides ? -std::numeric_limits<double>::infinity() : x;
      });
      made_.options.bias = made_.bias;
      made_.gradient_wants.bias = true;
    }
  }

  // A mask that has rows leaves one of them nothing to see.
  void hide_a_row(TensorView keep) {
    const int rank = keep.rank();
    if (rank < 2 || keep.shape(rank - 2) < 2) return;
    for (int axis = 0; axis < rank - 2; ++axis) keep = keep.slice(axis, 0, std::min<std::int64_t>(1, keep.shape(axis)));
    fill_with(keep.slice(rank - 2, 1, 2), [] { return 0.0; });
  }

  void make_per_head() {
    const std::int64_t h = c_.heads, sequences = c_.packed ? 4 : c_.batch;
    if (c_.alibi) {
      const TensorView slopes = c_.alibi_by_sequence ? zeros({sequences, h}, wide()) : zeros({h}, wide());
      double slope = 1;
      fill_with(slopes, [&] { return slope /= 2; });
      made_.options.alibi = slopes;
    }
    if (c_.sink_logit) {
      made_.options.sink_logit = made_.sink_logit = normal({h}, wide(), 2);
      made_.gradient_wants.sink_logit = true;
    }
    if (c_.gates != Gates::none) {
      made_.gates = c_.gates == Gates::per_head ? zeros({h}, wide()) : zeros({sequences, h}, wide());
      std::int64_t n = 0;
      fill_with(made_.gates, [&] { return n++ % 3 == 1 ? 0 : random_.normal(); });
      made_.options.gates = made_.gates;
      made_.gradient_wants.gates = !c_.closed_nan;  // they would be NaN, and rightly so
    }
  }

  void make_watched() {
    if (c_.wants.statistics != StatisticsSet::full) return;
    const TensorView marked = zeros({axis0(), c_.keys}, DType::boolean);
    fill_with(marked, [&] { return random_.uniform() < 0.3 ? 1.0 : 0.0; });
    const TensorView target = zeros({axis0(), c_.queries, 4}, DType::i32);
    fill_with(target, [&] { return static_cast<double>(random_.below(c_.keys + 1) - 1); });
    made_.wants.marked_keys = marked;
    made_.wants.target_keys = target;
  }

  void make_upstream() {
    doutput_ = placed(c_.heads, c_.queries, c_.value_dim);
    fill_normal(doutput_, random_);
    if (c_.dlse) dlse_ = normal({axis0(), c_.heads, c_.queries}, wide());
    if (c_.dweights) dweights_ = normal({axis0(), c_.heads, c_.queries, weight_columns()}, c_.dtype);
    made_.upstream = {doutput_, dlse_, dweights_};
  }
  std::int64_t weight_columns() const {
    if (!c_.packed) return c_.keys;
    std::int64_t longest = 0;
    for (const auto& s : reference::sequences_of(made_.q, made_.k, made_.options)) longest = std::max(longest, s.keys);
    return longest;
  }

  // What no query sees, found by asking for all that some query sees.
  void spoil_hidden() {
    const reference::Heads<reference::Doubles> heads(made_.q, made_.k, made_.v, made_.options);
    reference::Array<double> read(Dims{axis0(), c_.heads, c_.queries}, 0), seen(Dims{axis0(), c_.kv_heads, c_.keys}, 0);
    for (const reference::Sequence& sequence : heads.sequences) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        for (std::int64_t i = 0; i < sequence.queries; ++i) {
          read(sequence.batch, h, sequence.query_place(i)) = 1;
          for (const std::int64_t j : heads.row(sequence, h, i, false).keys) {
            seen(sequence.batch, heads.kv_head(h), sequence.key_place(j)) = 1;
          }
        }
      }
    }
    spoil_rows(made_.q, read);
    for (const TensorView& upstream : {doutput_, dlse_, dweights_}) {
      if (upstream.present()) spoil_rows(upstream, read);
    }
    spoil_rows(made_.k, seen);
    spoil_rows(made_.v, seen);
  }

  // Values that only heads with a gate of 0 read.
  void spoil_closed() {
    const reference::Heads<reference::Doubles> heads(made_.q, made_.k, made_.v, made_.options);
    reference::Array<double> used(Dims{axis0(), c_.kv_heads, c_.keys}, 0);
    for (const reference::Sequence& sequence : heads.sequences) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        if (heads.gate(sequence, h) == 0) continue;
        for (std::int64_t j = 0; j < c_.keys; ++j) used(sequence.batch, heads.kv_head(h), j) = 1;
      }
    }
    spoil_rows(made_.v, used);
  }

  // Output and lse of these keys and of others, which have no weight, next to none, about as much as these, or far
  // more.
  void add_forward() {
    Tensor exact = Tensor::empty(doutput_.shape(), DType::f64);
    Tensor exact_lse = Tensor::empty({axis0(), c_.heads, c_.queries}, DType::f64);
    reference::attend(made_.q, made_.k, made_.v, made_.options, {.lse = true}, {.output = exact, .lse = exact_lse});
    reference::Array<double> output(exact), lse(exact_lse);
    const reference::Heads<reference::Doubles> heads(made_.q, made_.k, made_.v, made_.options);
    int turn = 0;
    for (const reference::Sequence& sequence : heads.sequences) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        for (std::int64_t i = 0; i < sequence.queries; ++i) {
          const double others[] = {0, 1e-6 * random_.uniform(), std::exp(random_.normal()), 200};
          const std::int64_t row = sequence.query_place(i);
          share_row(others[turn++ % 4], heads.gate(sequence, h), lse(sequence.batch, h, row),
                    output.at(sequence.batch, h, row));
        }
      }
    }
    const TensorView given = zeros(doutput_.shape(), c_.dtype), given_lse = zeros(lse.shape(), wide());
    output.store_to(given);
    lse.store_to(given_lse);
    made_.forward = {given, given_lse, true};
    output.store_to(exact);
    lse.store_to(exact_lse);
    made_.exact_forward = {own(std::move(exact)), own(std::move(exact_lse)), true};
  }
  // To a row of lse and output [E] come keys that weigh `others` times as much as those that it sees, or as nothing if
  // it sees none.
  void share_row(double others, double gate, double& lse, double* output) {
    const bool none = std::isinf(lse);
    if (none && others == 0) return;
    lse = none ? random_.normal() : lse + std::log1p(others);
    const double share = none ? 1 : others / (1 + others);
    for (std::int64_t e = 0; e < c_.value_dim; ++e) {
      output[e] = (1 - share) * output[e] + share * gate * random_.normal();
    }
  }

  // One number in the middle of a tensor. The NaN has bits behind its first, which f32 keeps.
  void spoil_one() {
    const TensorView tensors[] = {{}, made_.q, made_.k, made_.v, made_.bias, doutput_, made_.gates};
    const TensorView& to = tensors[static_cast<int>(c_.spoilt)];
    if (!to.present()) return;
    std::int64_t offset = 0;
    for (int axis = 0; axis < to.rank(); ++axis) offset += to.shape(axis) / 2 * to.stride(axis);
    const double nan = std::bit_cast<double>(std::uint64_t{0x7ff8000020000000});
    reference::store(to, offset, c_.infinite ? std::numeric_limits<double>::infinity() : nan);
  }

  // [B,H,T,..]: the rows that `used` [B,H,T] has 0 for.
  void spoil_rows(const TensorView& tensor, const reference::Array<double>& used) {
    constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
    std::size_t n = 0, element = 0;
    const std::size_t length =
        used.values().empty() ? 1 : static_cast<std::size_t>(tensor.count()) / used.values().size();
    reference::for_each_offset(tensor.shape(), tensor.strides(), [&](std::int64_t offset) {
      if (used.values()[element++ / length] == 0) reference::store(tensor, offset, kBad[n++ % 2]);
    });
  }

  const Case& c_;
  Random random_;
  Materialised made_;
  TensorView doutput_, dlse_, dweights_;
};

}  // namespace

Materialised materialise(const Case& recipe) { return Maker(recipe).make(); }

}  // namespace polyhead::test
