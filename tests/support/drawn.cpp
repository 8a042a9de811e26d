#include "support/drawn.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace polyhead::test {
namespace {

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_("draw " + std::to_string(seed)) {
    c_.name = "drawn_" + std::to_string(seed);
  }

  Case draw() {
    draw_types();
    c_.packed = one_in(6);
    draw_sizes();
    draw_positions();
    if (!c_.packed) {
      draw_lengths();
      draw_masks();
    }
    draw_per_head();
    draw_numbers();
    draw_wants();
    return c_;
  }

 private:
  bool one_in(std::int64_t n) { return random_.below(n) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + random_.below(static_cast<std::int64_t>(choices.size())));
  }
  // From 1 to `most`, small ones as likely as large ones.
  std::int64_t size_up_to(std::int64_t most) {
    return std::max<std::int64_t>(1, std::llround(std::exp(random_.uniform() * std::log(static_cast<double>(most)))));
  }

  void draw_types() {
    c_.dtype = one_of({DType::f32, DType::f16, DType::bf16});
    if (c_.dtype == DType::f32 && one_in(8)) c_.storage = one_of({DType::f16, DType::bf16});
    c_.wide_integers = one_in(4);
  }

  void draw_sizes() {
    c_.batch = c_.packed ? 1 : 1 + random_.below(3);
    c_.kv_heads = 1 + random_.below(3);
    c_.heads = c_.kv_heads * one_of<std::int64_t>({1, 1, 2, 3, 4, 7});
    const auto dim = [&] {
      return one_of<std::int64_t>(
          {8, 16, 24, 32, 40, 64, 64, 64, 72, 80, 96, 128, 128, 128, 160, 192, 256, 256, 5, 33});
    };
    c_.head_dim = c_.value_dim = dim();
    if (one_in(4)) c_.value_dim = dim();
    c_.queries = one_in(4) ? 1 + random_.below(8) : size_up_to(400);
    c_.keys = one_in(4) ? c_.queries : size_up_to(700);
    c_.layout = one_of({Layout::heads_outside, Layout::tokens_outside});
    if (c_.queries == c_.keys && c_.head_dim == c_.value_dim && !c_.storage && one_in(2)) c_.layout = Layout::fused;
    fit();
  }

  // What the oracle does in a fraction of a second, and at least some rows.
  void fit() {
    const auto work = [&] { return c_.batch * c_.heads * c_.queries * c_.keys * (c_.head_dim + c_.value_dim); };
    const auto most = static_cast<std::int64_t>(std::exp(random_.uniform() * std::log(40.0)) * 4e5);
    while (work() > most && c_.batch > 1) --c_.batch;
    while (work() > most && c_.heads > c_.kv_heads) c_.heads -= c_.kv_heads;
    while (work() > most && c_.kv_heads > 1) c_.heads = --c_.kv_heads;
    while (work() > most) {
      std::int64_t& longer = c_.queries > c_.keys ? c_.queries : c_.keys;
      longer = (longer + 1) / 2;
      if (c_.layout == Layout::fused) c_.queries = c_.keys = std::min(c_.queries, c_.keys);
    }
    constexpr std::int64_t kRows = 64;
    const std::int64_t rows = c_.batch * c_.heads * c_.queries, times = (kRows + rows - 1) / rows;
    (c_.packed ? c_.queries : c_.batch) *= times;
    if (c_.layout == Layout::fused) c_.keys = c_.queries;
  }

  void draw_positions() {
    AttentionOptions& o = c_.options;
    o.align = one_of({Align::top_left, Align::bottom_right});
    if (one_in(6)) {
      o.align = Align::unset;
      if (one_in(2)) {
        c_.first_positions = true;
      } else {
        o.first_position = random_.below(c_.keys + 8) - 4;
      }
    }
    o.causal = one_in(2);
    if (one_in(3)) {
      const auto side = [&] { return one_in(3) ? kUnlimited : random_.below(c_.keys + 1); };
      o.window = {side(), side(), one_in(2) ? 0 : random_.below(9)};
    }
    c_.alibi = one_in(5);
    c_.alibi_by_sequence = c_.alibi && one_in(3);
  }

  void draw_lengths() {
    c_.key_lengths = one_in(4);
    c_.key_start = c_.batch < 5 && one_in(5);  // later sequences of many would see nothing
    c_.query_lengths = one_in(5);
  }

  // A shape that is broadcast to [B,H,T,S].
  Dims mask_shape() {
    const auto or_one = [&](std::int64_t size) { return one_in(2) ? 1 : size; };
    const std::int64_t b = or_one(c_.batch), h = or_one(c_.heads), t = one_in(4) ? 1 : c_.queries;
    return one_in(3) ? Dims{t, c_.keys} : Dims{b, h, t, c_.keys};
  }

  void draw_masks() {
    if (one_in(5)) c_.keep = mask_shape();
    if (!one_in(4)) return;
    c_.bias = mask_shape();
    c_.bias_hides = one_of({0.0, 0.0, 0.2, 0.9});
    c_.bias_pieces = one_in(2);
    if (one_in(4)) c_.bias_dtype = c_.dtype == DType::f32 ? DType::bf16 : DType::f32;
  }

  void draw_per_head() {
    c_.sink_logit = one_in(5);
    c_.gates = one_of({Gates::none, Gates::none, Gates::none, Gates::per_head, Gates::per_sequence});
    c_.closed_nan = c_.gates != Gates::none && one_in(4);
  }

  void draw_numbers() {
    AttentionOptions& o = c_.options;
    if (one_in(5)) o.softcap = one_of({4.0, 15.0, 50.0});
    if (one_in(5)) o.dropout = {one_of({0.1, 0.3, 0.5}), random_.bits()};
    // Flat rows, ordinary ones, and some that look at one key.
    if (one_in(3)) o.scale = one_of({-1.0, 0.2, 2.0, 4.0}) / std::sqrt(static_cast<double>(c_.head_dim));
    c_.hidden_nan = one_in(3);
  }

  void draw_wants() {
    AttentionWants& w = c_.wants;
    w.lse = one_in(2);
    w.statistics = one_of({StatisticsSet::none, StatisticsSet::none, StatisticsSet::light, StatisticsSet::full});
    w.row_statistics = w.statistics != StatisticsSet::none && one_in(2);
    w.weights = one_in(5);
    if (one_in(8)) w.logits = one_of({LogitStage::scaled, LogitStage::capped, LogitStage::biased});
    w.weights_f32 = w.weights && one_in(2);
    if ((w.weights || w.logits != LogitStage::none) && one_in(2)) {
      w.weight_heads = {static_cast<std::int32_t>(random_.below(c_.heads))};
      w.weight_rows = {static_cast<std::int32_t>(random_.below(c_.queries))};
    }
    c_.dlse = one_in(4);
    c_.dweights = one_in(6);
  }

  Random random_;
  Case c_;
};

}  // namespace

Case drawn(std::uint64_t seed) { return Drawer(seed).draw(); }

std::string described(const Case& c) {
  std::string text(name_of(c.dtype));
  const auto add = [&](bool is, const std::string& what) { text += is ? ", " + what : ""; };
  const auto number = [](double x) {
    std::string digits = std::to_string(x);
    digits.erase(digits.find_last_not_of('0') + 1);
    return digits;
  };
  for (const auto& [letter, size] : {std::pair{" B", c.batch},
                                     {" H", c.heads},
                                     {" G", c.kv_heads},
                                     {" T", c.queries},
                                     {" S", c.keys},
                                     {" D", c.head_dim},
                                     {" E", c.value_dim}}) {
    text += letter + std::to_string(size);
  }
  const AttentionOptions& o = c.options;
  const auto side = [](std::int64_t n) { return n == kUnlimited ? std::string("-") : std::to_string(n); };
  add(c.storage.has_value(), "keys of another type");
  add(c.layout == Layout::tokens_outside, "tokens outside");
  add(c.layout == Layout::fused, "fused");
  add(c.packed, "packed");
  add(o.align == Align::bottom_right, "bottom right");
  add(c.first_positions || o.first_position, "positions");
  add(o.causal, "causal");
  const bool window = o.window.left != kUnlimited || o.window.right != kUnlimited;
  add(window,
      "window " + side(o.window.left) + " " + side(o.window.right) + " " + std::to_string(o.window.always_first));
  add(c.key_lengths, "key_lengths");
  add(c.key_start, "key_start");
  add(c.query_lengths, "query_lengths");
  if (c.keep) add(true, "keep " + to_string(*c.keep));
  if (c.bias) add(true, "bias " + to_string(*c.bias));
  add(c.bias && c.bias_hides > 0, "hiding " + number(c.bias_hides));
  add(c.bias_dtype.has_value(), "of another type");
  add(c.alibi, c.alibi_by_sequence ? "alibi by sequence" : "alibi");
  add(c.sink_logit, "sink");
  add(c.gates != Gates::none, c.gates == Gates::per_head ? "gates" : "gates by sequence");
  add(c.closed_nan, "NaN behind closed gates");
  add(c.hidden_nan, "NaN hidden");
  add(o.softcap > 0, "softcap " + number(o.softcap));
  add(o.dropout.p > 0, "dropout " + number(o.dropout.p));
  if (o.scale) add(true, "scale " + number(*o.scale));
  add(c.wants.weights, "weights");
  add(c.wants.logits != LogitStage::none, "logits");
  add(c.wants.statistics != StatisticsSet::none,
      c.wants.statistics == StatisticsSet::light ? "light statistics" : "full statistics");
  add(c.dlse, "dlse");
  add(c.dweights, "dweights");
  return text;
}

}  // namespace polyhead::test
