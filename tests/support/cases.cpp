#include "support/cases.h"

#include <array>
#include <initializer_list>

namespace polyhead::test {
namespace {

// One option, as a change to a case. Options of the same kind exclude each other.
struct Feature {
  std::string_view name;
  char kind;  // 'm' keep, 'b' bias, 'l' lengths, 'p' packed, 'w' window, 'h' kv heads, 'g' gates; others are alone
  void (*apply)(Case& c);
};

constexpr std::array kFeatures{
    Feature{"causal", 'c', [](Case& c) { c.options.causal = true; }},
    Feature{"window", 'w',
            [](Case& c) {
              c.options.window = {5, 2, 0};
            }},
    Feature{"window_first", 'w',
            [](Case& c) {
              c.options.window = {3, 0, 4};
            }},
    Feature{"keep_full", 'm',
            [](Case& c) {
              c.keep = Dims{c.batch, c.heads, c.queries, c.keys};
            }},
    Feature{"keep_keys", 'm',
            [](Case& c) {
              c.keep = Dims{c.batch, 1, 1, c.keys};
            }},
    Feature{"bias_full", 'b',
            [](Case& c) {
              c.bias = Dims{c.batch, c.heads, c.queries, c.keys};
            }},
    Feature{"bias_hiding", 'b',
            [](Case& c) {
              c.bias = Dims{c.heads, 1, c.keys};
              c.bias_hides = 0.2;
            }},
    Feature{"alibi", 'a', [](Case& c) { c.alibi = true; }},
    Feature{"key_lengths", 'l', [](Case& c) { c.key_lengths = true; }},
    Feature{"key_start", 'L', [](Case& c) { c.key_start = true; }},
    Feature{"query_lengths", 'q', [](Case& c) { c.query_lengths = true; }},
    Feature{"packed", 'p', [](Case& c) { c.packed = true; }},
    Feature{"gqa", 'h', [](Case& c) { c.kv_heads = c.heads / 2; }},
    Feature{"mqa", 'h', [](Case& c) { c.kv_heads = 1; }},
    Feature{"sink", 's', [](Case& c) { c.sink_logit = true; }},
    Feature{"dropout", 'd',
            [](Case& c) {
              c.options.dropout = {0.3, 0x9e3779b97f4a7c15u};
            }},
    Feature{"gates", 'g', [](Case& c) { c.gates = Gates::per_head; }},
    Feature{"sequence_gates", 'g', [](Case& c) { c.gates = Gates::per_sequence; }},
    Feature{"softcap", 't', [](Case& c) { c.options.softcap = 3; }},
    Feature{"scale", 'z', [](Case& c) { c.options.scale = -0.4; }},
    Feature{"hidden_nan", 'n', [](Case& c) { c.hidden_nan = true; }},
};

// Alone only: their neighbours among the options have been in all pairs.
constexpr std::array kSingleFeatures{
    Feature{"sequence_alibi", 'a', [](Case& c) { c.alibi = c.alibi_by_sequence = true; }},
    Feature{"packed_sequence_alibi", 'p', [](Case& c) { c.packed = c.alibi = c.alibi_by_sequence = true; }},
    Feature{"long_lengths", 'l',
            [](Case& c) { c.wide_integers = c.key_lengths = c.key_start = c.query_lengths = true; }},
    Feature{"long_packed", 'p', [](Case& c) { c.wide_integers = c.packed = true; }},
    Feature{"first_position", 'f',
            [](Case& c) {
              c.options.align = Align::unset;
              c.options.first_position = 3;
              c.options.causal = c.alibi = true;
            }},
    Feature{"first_position_before", 'f',
            [](Case& c) {
              c.options.align = Align::unset;
              c.options.first_position = -4;
              c.options.causal = c.sink_logit = true;
            }},
    Feature{"first_positions", 'f',
            [](Case& c) {
              c.options.align = Align::unset;
              c.first_positions = true;
              c.options.window = {5, 2, 1};
              c.options.causal = c.key_start = true;
            }},
    Feature{"packed_first_positions", 'f',
            [](Case& c) {
              c.options.align = Align::unset;
              c.first_positions = c.packed = c.wide_integers = true;
              c.options.causal = true;
            }},
};

// A packed batch takes neither masks by place nor lengths.
bool legal(const Feature& a, const Feature& b) {
  constexpr std::string_view kNotPacked = "mblLq";
  const auto clash = [&](char one, char other) { return one == 'p' && kNotPacked.find(other) != kNotPacked.npos; };
  return a.kind != b.kind && !clash(a.kind, b.kind) && !clash(b.kind, a.kind);
}

AttentionWants everything() {
  AttentionWants wants;
  wants.lse = wants.weights = wants.row_statistics = true;
  wants.statistics = StatisticsSet::full;
  wants.logits = LogitStage::biased;
  return wants;
}

struct Sizes {
  std::int64_t queries, keys, head_dim, value_dim;
};

// Collects cases under names that say all about them.
class Collector {
 public:
  explicit Collector(bool gradients) : gradients_(gradients) {}

  Case start(Sizes sizes, DType dtype = DType::f32, Align align = Align::unset) const {
    Case c;
    if (sizes.queries < (gradients_ ? 10 : 2)) c.batch = 7;  // with a handful of rows the rule would judge by luck
    c.queries = sizes.queries;
    c.keys = sizes.keys;
    c.head_dim = sizes.head_dim;
    c.value_dim = sizes.value_dim;
    c.dtype = dtype;
    c.options.align = align;
    c.wants = everything();
    c.dlse = c.dweights = gradients_;
    return c;
  }

  void add(Case c, std::string name) {
    const bool uneven = c.queries != c.keys || c.key_lengths || c.key_start || c.query_lengths || c.packed;
    const bool placed = c.options.first_position || c.first_positions;
    if (uneven && !placed && c.options.align == Align::unset) c.options.align = Align::top_left;
    // The stages of logits take turns.
    if (c.wants.logits != LogitStage::none) c.wants.logits = static_cast<LogitStage>(1 + cases_.size() % 3);
    name += "_" + std::string(name_of(c.dtype)) + "_" + std::to_string(c.queries) + "x" + std::to_string(c.keys) + "_" +
            std::to_string(c.head_dim) + "x" + std::to_string(c.value_dim);
    if (c.options.align == Align::top_left) name += "_top";
    if (c.options.align == Align::bottom_right) name += "_bottom";
    c.name = std::move(name);
    cases_.push_back(std::move(c));
  }

  // Every option alone, and none.
  void add_singles(Sizes sizes, DType dtype, Align align) {
    add(start(sizes, dtype, align), "nothing");
    add_each(kFeatures, sizes, dtype, align);
  }
  // Those that are in no pair, alone.
  void add_more_singles(Sizes sizes, DType dtype) { add_each(kSingleFeatures, sizes, dtype, Align::top_left); }
  template <class Features>
  void add_each(const Features& features, Sizes sizes, DType dtype, Align align) {
    for (const Feature& feature : features) {
      Case c = start(sizes, dtype, align);
      feature.apply(c);
      add(std::move(c), std::string(feature.name));
    }
  }
  void add_singles_both_ways(Sizes sizes, DType dtype) {
    add_singles(sizes, dtype, Align::top_left);
    add_singles(sizes, dtype, Align::bottom_right);
  }

  // Alignments take turns.
  void add_pairs(Sizes sizes, DType dtype) {
    int turn = 0;
    for (const Feature& a : kFeatures) {
      for (const Feature& b : kFeatures) {
        if (&a >= &b || !legal(a, b)) continue;
        Case c = start(sizes, dtype, turn++ % 2 == 0 ? Align::top_left : Align::bottom_right);
        a.apply(c);
        b.apply(c);
        add(std::move(c), std::string(a.name) + "_and_" + std::string(b.name));
      }
    }
  }

  std::vector<Case> take() { return std::move(cases_); }

 private:
  bool gradients_;
  std::vector<Case> cases_;
};

constexpr std::initializer_list<DType> kTypes = {DType::f32, DType::f16, DType::bf16, DType::f64};

std::string text_of(const Dims& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += "_" + std::to_string(size);
  return text;
}

void add_masks(Collector& cases, Sizes sizes) {
  const Case model = cases.start(sizes, DType::f32, Align::bottom_right);
  const std::int64_t b = model.batch, h = model.heads, t = model.queries, s = model.keys;
  for (const Dims& shape : {Dims{1}, Dims{s}, Dims{t, s}, Dims{t, 1}, Dims{1, s}, Dims{h, 1, 1}, Dims{h, t, s},
                            Dims{1, 1, t, s}, Dims{b, 1, t, s}, Dims{b, h, 1, 1}, Dims{b, h, 1, s}, Dims{b, 1, t, 1}}) {
    Case keep = model, bias = model;
    keep.keep = shape;
    cases.add(keep, "keep" + text_of(shape));
    bias.bias = shape;
    bias.bias_hides = 0.1;
    cases.add(bias, "bias" + text_of(shape));
  }
  for (const DType dtype : kTypes) {
    Case c = cases.start(sizes, dtype, Align::top_left);
    c.bias = Dims{h, t, s};
    c.bias_dtype = dtype == DType::f32 ? DType::bf16 : DType::f32;
    cases.add(c, "bias_of_another_type");
  }
  Case all_hidden = model;
  all_hidden.bias = Dims{t, s};
  all_hidden.bias_hides = 1;
  all_hidden.sink_logit = true;
  cases.add(all_hidden, "all_hidden_but_the_sink");
}

void add_positions(Collector& cases) {
  for (const Sizes sizes : {Sizes{37, 131, 16, 16}, Sizes{131, 37, 16, 16}}) {
    for (const Align align : {Align::top_left, Align::bottom_right}) {
      Case left = cases.start(sizes, DType::f32, align), right = left, far = left, self = left, all = left;
      left.options.window.left = 9;
      cases.add(left, "window_left");
      right.options.window.right = 1;
      cases.add(right, "window_right");
      far.options.window = {40, 30, 2};  // wider than a block of keys is likely to be
      far.options.causal = far.alibi = true;
      cases.add(far, "window_far_causal_alibi");
      self.options.window = {0, 0, 0};
      cases.add(self, "window_self");
      all.key_lengths = all.key_start = all.query_lengths = all.alibi = all.sink_logit = all.hidden_nan = true;
      all.options.causal = true;
      all.batch = 3;
      all.kv_heads = 2;
      all.gates = Gates::per_sequence;
      all.options.softcap = 8;
      all.options.dropout = {0.1, 7};
      cases.add(all, "many_at_once");
    }
  }
  Case square = cases.start({37, 37, 16, 16});
  square.options.causal = square.alibi = true;
  cases.add(square, "square_causal_alibi");
}

void add_layouts(Collector& cases) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t kv_heads : {4, 2}) {
      for (const Layout layout : {Layout::tokens_outside, Layout::fused}) {
        Case c = cases.start({37, 37, 24, 24}, dtype);
        c.options.causal = c.hidden_nan = c.query_lengths = true;
        c.kv_heads = kv_heads;
        c.layout = layout;
        cases.add(c,
                  std::string(layout == Layout::fused ? "fused" : "tokens_outside") + "_" + std::to_string(kv_heads));
      }
    }
  }
}

void add_empties(Collector& cases) {
  const auto add = [&](const char* name, auto change) {
    Case c = cases.start({5, 7, 8, 8}, DType::f32, Align::top_left);
    change(c);
    cases.add(c, name);
    Case biased = c;
    c.sink_logit = c.options.causal = true;
    c.gates = Gates::per_head;
    cases.add(c, std::string(name) + "_sink_causal_gates");
    for (const bool per_query : {false, true}) {
      biased.bias = per_query ? Dims{c.queries, 1} : Dims{1, c.keys};
      cases.add(biased, std::string(name) + (per_query ? "_bias_of_queries" : "_bias_of_keys"));
    }
  };
  add("no_batch", [](Case& c) { c.batch = 0; });
  add("no_heads", [](Case& c) { c.heads = c.kv_heads = 0; });
  add("no_queries", [](Case& c) { c.queries = 0; });
  add("no_keys", [](Case& c) { c.keys = 0; });
  add("no_head_dim", [](Case& c) { c.head_dim = 0; });
  add("no_value_dim", [](Case& c) { c.value_dim = 0; });
}

// Keys that no query sees, in every place where there can be some, with NaN in them.
void add_hidden(Collector& cases) {
  Case gap = cases.start({3, 100, 8, 8}, DType::f32, Align::bottom_right);  // between the first keys and the window
  gap.hidden_nan = true;
  gap.options.causal = true;
  gap.options.window = {.left = 8, .right = 0, .always_first = 4};
  cases.add(gap, "nan_in_the_gap");
  Case capped = cases.start({5, 10, 8, 8}, DType::f32, Align::top_left);
  capped.hidden_nan = true;
  capped.keep = Dims{1, 1, 1, 10};
  capped.options.softcap = 5;
  cases.add(capped, "nan_behind_keep_and_softcap");
}

void add_numbers(Collector& cases) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const auto& [name, logits] :
         {std::pair{"spread_logits", Logits::spread}, {"high_logits", Logits::high}, {"low_logits", Logits::low}}) {
      Case c = cases.start({37, 131, 16, 16}, dtype, Align::bottom_right);
      c.logits = logits;
      // Among logits that differ only in their last places, the largest is a matter of rounding.
      if (logits != Logits::spread) c.wants.statistics = StatisticsSet::none;
      if (logits != Logits::spread) c.wants.row_statistics = false;
      cases.add(c, name);
    }
  }
  for (const DType dtype : kTypes) {
    Case zero = cases.start({37, 131, 16, 16}, dtype, Align::top_left);
    zero.options.scale = 0;
    cases.add(zero, "scale_zero");
  }
}

void add_closed_gates(Collector& cases) {
  for (const DType dtype : kTypes) {
    for (const Gates gates : {Gates::per_head, Gates::per_sequence}) {
      Case c = cases.start({7, 13, 8, 8}, dtype, Align::top_left);
      c.gates = gates;
      c.closed_nan = true;
      cases.add(c, gates == Gates::per_head ? "closed_nan" : "closed_nan_by_sequence");
    }
  }
}

void add_wants(Collector& cases) {
  for (const DType dtype : kTypes) {
    const Case model = cases.start({37, 131, 16, 16}, dtype, Align::bottom_right);
    Case light = model, chosen = model, wide = model, padded = model, packed = model;
    light.wants.statistics = StatisticsSet::light;
    cases.add(light, "light_statistics");
    chosen.wants.weight_heads = {3, 0};
    chosen.wants.weight_rows = {36, 5, 6};
    chosen.gates = Gates::per_head;
    cases.add(chosen, "chosen_weights");
    wide.wants.weights_f32 = true;
    wide.wants.row_statistics = false;
    cases.add(wide, "f32_weights");
    padded = chosen;
    padded.query_lengths = padded.key_start = padded.key_lengths = true;
    cases.add(padded, "chosen_weights_padded");
    packed = chosen;
    packed.packed = true;
    cases.add(packed, "chosen_weights_packed");
    Case many = cases.start({300, 9, 4, 4}, dtype, Align::top_left);  // more rows than a kernel takes at a time
    for (std::int32_t row = 300; row-- > 0;) many.wants.weight_rows.push_back(row);
    cases.add(many, "chosen_weights_of_many");
    Case lse = model, nothing = model;
    lse.wants = nothing.wants = {};
    lse.wants.lse = true;
    cases.add(lse, "lse_only");
    cases.add(nothing, "output_only");
  }
}

}  // namespace

std::vector<Case> catalogue() {
  Collector cases(false);
  cases.add_pairs({37, 131, 16, 16}, DType::f32);
  cases.add_singles({1, 1, 16, 16}, DType::f32, Align::top_left);
  cases.add_singles({37, 37, 40, 40}, DType::f32, Align::unset);
  for (const Sizes sizes : {Sizes{7, 13, 5, 33}, {13, 7, 33, 5}, {1, 311, 16, 16}, {5, 701, 8, 8}, {131, 37, 16, 24}}) {
    cases.add_singles_both_ways(sizes, DType::f32);
  }
  cases.add_singles({33, 321, 64, 64}, DType::f32, Align::bottom_right);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    cases.add_singles({7, 13, 5, 33}, dtype, Align::top_left);
    cases.add_singles({37, 131, 64, 64}, dtype, Align::bottom_right);
  }
  add_masks(cases, {17, 67, 16, 16});
  add_positions(cases);
  add_layouts(cases);
  add_empties(cases);
  add_closed_gates(cases);
  add_hidden(cases);
  add_numbers(cases);
  add_wants(cases);
  for (const Sizes sizes :
       {Sizes{37, 131, 16, 16}, {7, 13, 5, 33}, {131, 37, 16, 24}, {5, 701, 8, 8}, {1, 311, 16, 16}}) {
    cases.add_more_singles(sizes, DType::f32);
  }
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) cases.add_more_singles({37, 131, 16, 16}, dtype);
  return cases.take();
}

std::vector<Case> spoilt_catalogue() {
  Collector cases(false);
  const std::pair<const char*, Spoilt> places[] = {{"queries", Spoilt::queries},   {"keys", Spoilt::keys},
                                                   {"values", Spoilt::values},     {"bias", Spoilt::bias},
                                                   {"upstream", Spoilt::upstream}, {"gates", Spoilt::gates}};
  const auto add = [&](Case c, const std::string& what) {
    // What the statistics of such a row are is not said.
    c.wants.statistics = StatisticsSet::none;
    c.wants.row_statistics = false;
    for (const auto& [name, place] : places) {
      c.spoilt = place;
      if (place == Spoilt::bias) c.bias = Dims{c.heads, c.queries, c.keys};
      c.gates = place == Spoilt::gates ? Gates::per_head : Gates::none;
      for (const bool infinite : {false, true}) {
        c.infinite = infinite;
        // +inf in a bias is an error; a softcap makes a number of infinity; which infinities a gradient of one, or a
        // gate, comes to is not said.
        const bool capped = c.options.softcap > 0 && place != Spoilt::values, unsaid = place >= Spoilt::upstream;
        if (infinite && (place == Spoilt::bias || unsaid || capped)) continue;
        cases.add(c, (infinite ? "infinite_" : "nan_") + std::string(name) + "_" + what);
      }
      c.bias.reset();
    }
  };
  for (const DType dtype : kTypes) {
    Case causal = cases.start({37, 131, 16, 16}, dtype, Align::bottom_right);
    causal.options.causal = true;
    causal.heads = 2;
    causal.kv_heads = 1;
    add(causal, "causal");
    Case keep = cases.start({9, 23, 5, 7}, dtype, Align::top_left);
    keep.keep = Dims{keep.queries, keep.keys};
    keep.sink_logit = keep.dlse = true;
    add(keep, "keep");
    Case capped = cases.start({33, 40, 8, 8}, dtype, Align::top_left);
    capped.options.softcap = 4;
    capped.options.window = {.left = 6, .right = 3, .always_first = 2};
    capped.options.dropout = {.p = 0.2, .seed = 3};
    capped.dweights = true;
    add(capped, "softcap_window_dropout");
  }
  Case few = cases.start({3, 600, 20, 20}, DType::f32, Align::bottom_right);  // decodes
  few.options.causal = true;
  few.options.window.left = 299;
  add(few, "few");
  few.dtype = DType::bf16;
  add(few, "few");
  return cases.take();
}

std::vector<Case> gradient_catalogue() {
  Collector cases(true);
  cases.add_pairs({7, 13, 5, 6}, DType::f32);
  cases.add_singles({1, 1, 4, 4}, DType::f32, Align::top_left);
  cases.add_singles_both_ways({13, 7, 4, 3}, DType::f32);
  cases.add_singles({37, 131, 16, 16}, DType::f32, Align::bottom_right);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    cases.add_singles({11, 19, 8, 8}, dtype, Align::top_left);
  }
  add_masks(cases, {5, 7, 4, 4});
  add_positions(cases);
  add_layouts(cases);
  add_empties(cases);
  add_closed_gates(cases);
  add_hidden(cases);
  add_numbers(cases);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) cases.add_more_singles({37, 131, 16, 16}, dtype);
  std::vector<Case> all = cases.take();
  // Most callers have only a gradient of the output, and that is a path of its own.
  for (std::size_t n = 0; n < all.size(); n += 3) all[n].dlse = all[n].dweights = false;
  for (std::size_t n = 1; n < all.size(); n += 6) all[n].dweights = false;
  return all;
}

std::vector<Case> shard_catalogue() {
  std::vector<Case> cases = gradient_catalogue();
  // Few rows would be judged by luck: nothing normalises the errors of a row's weights away. Where logits are far
  // apart, 16 bits of the output are no yardstick.
  std::erase_if(cases, [](const Case& c) {
    return (c.queries > 1 && c.queries < 10) || (c.logits == Logits::spread && size_of(c.dtype) == 2);
  });
  for (Case& c : cases) {
    c.name = "shard_" + c.name;
    c.shard = true;
    c.dweights = false;
  }
  return cases;
}

}  // namespace polyhead::test
