// Cases of attention as items: both catalogues, and larger ones for what tiles and tensor cores do.
#include "cuda/attention_runs.h"
#include "cuda/items.h"

namespace polyhead::test::gpu {
namespace {

// Larger than a tile in every direction, in the types and head dims that have kernels of their own.
std::vector<Case> large_cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, const Case& c) {
    cases.push_back(c);
    cases.back().name = "large_" + std::move(name) + "_" + std::string(name_of(c.dtype)) + "_" +
                        std::to_string(c.head_dim) + "x" + std::to_string(c.value_dim);
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [D, E] : {std::pair{64, 64}, {128, 128}, {256, 256}, {192, 128}, {72, 40}}) {
      Case c;
      c.batch = 2;
      c.heads = 2;
      c.kv_heads = 1;
      c.queries = 219;
      c.keys = 331;
      c.head_dim = D;
      c.value_dim = E;
      c.dtype = dtype;
      c.options.align = Align::bottom_right;
      c.layout = test::Layout::tokens_outside;
      c.wants.lse = true;
      add("plain", c);
      c.options.causal = true;
      add("causal", c);
      Case window = c, padded = c, packed = c, gated = c, drop = c, sink = c, keep = c, bias = c;
      // Few rows to a kv head, as decoding has them.
      Case few = c, few_padded = c;
      few.queries = few_padded.queries = 3;
      few.keys = few_padded.keys = 531;
      add("few", few);
      few_padded.key_lengths = few_padded.key_start = few_padded.hidden_nan = few_padded.sink_logit = true;
      few_padded.gates = test::Gates::per_sequence;
      add("few_padded", few_padded);
      window.options.window = {.left = 70, .right = 0, .always_first = 9};
      add("window", window);
      padded.key_lengths = padded.key_start = padded.query_lengths = padded.hidden_nan = true;
      add("padded", padded);
      packed.packed = true;
      add("packed", packed);
      Case behind = c;
      behind.options.align = Align::top_left;  // keys behind the last query: nobody sees them
      behind.hidden_nan = true;
      add("behind", behind);
      gated.gates = test::Gates::per_sequence;
      add("gates", gated);
      Case closed = gated;
      closed.kv_heads = 2;
      closed.closed_nan = true;
      add("closed_nan", closed);
      closed.alibi = true;
      add("closed_nan_alibi", closed);
      drop.options.dropout = {0.2, 99};
      add("dropout", drop);
      drop.key_lengths = drop.key_start = drop.hidden_nan = true;
      add("dropout_padded", drop);
      sink.sink_logit = sink.alibi = true;
      sink.options.softcap = 20;
      add("sink_alibi_softcap", sink);
      Case one = c;
      one.alibi = true;
      add("alibi", one);
      one.options.causal = false;  // the first keys that a row meets are far behind it, with the lowest logits
      one.options.align = Align::top_left;
      add("alibi_ahead", one);
      one.alibi = false;
      one.options.softcap = 20;
      add("softcap", one);
      one.options.softcap = 10;  // some scores are beyond what a polynomial is taken for, most of them are not
      add("softcap_low", one);
      one.options.softcap = 2;  // which many scores reach
      add("softcap_reached", one);
      Case many = sink;
      many.gates = test::Gates::per_sequence;
      many.options.dropout = {0.1, 5};
      many.options.window = {.left = 70, .right = 0, .always_first = 9};
      many.packed = true;
      add("many_at_once", many);
      many.packed = false;
      many.options.align = Align::top_left;  // keys behind the last query: nobody sees them
      many.hidden_nan = true;
      many.keep = Dims{c.batch, 1, 1, c.keys};
      add("many_behind_keep", many);
      keep.keep = Dims{c.batch, 1, 1, c.keys};
      keep.hidden_nan = true;
      add("keep", keep);
      keep.keep = Dims{c.batch, c.heads, c.queries, c.keys};
      add("keep_rows", keep);
      bias.bias = Dims{c.heads, c.queries, c.keys};
      bias.bias_hides = 0.3;
      add("bias", bias);
      bias.bias_pieces = true;
      add("bias_pieces", bias);
      bias.bias_hides = 0;
      bias.bias = Dims{c.batch, 1, c.queries, c.keys};
      add("bias_pieces_by_sequence", bias);
      bias.bias = Dims{c.queries, c.keys};
      bias.key_lengths = bias.query_lengths = bias.hidden_nan = true;
      add("bias_pieces_padded", bias);
      bias.bias_hides = 1;
      add("bias_pieces_hiding_all", bias);
      bias.key_start = true;
      add("bias_pieces_starting_late", bias);
      Case framed = c;
      framed.bias = Dims{c.queries, c.keys};
      framed.bias_pieces = framed.sink_logit = true;
      framed.batch = 1;
      framed.gates = test::Gates::per_sequence;
      framed.options.window = {.left = 70, .right = 0, .always_first = 9};
      add("bias_pieces_window_sink_gates", framed);
    }
  }
  return cases;
}

// Those of f32 that the tensor cores take. Where everything is hidden there is nothing to round.
std::vector<Case> tf32_cases() {
  std::vector<Case> cases;
  for (const Case& c : large_cases()) {
    if (c.dtype == DType::f32 && std::max(c.head_dim, c.value_dim) <= 128 && c.bias_hides < 1) cases.push_back(c);
  }
  return cases;
}

// The same with the light statistics, of heads and of rows.
std::vector<Case> described_cases() {
  std::vector<Case> cases = large_cases();
  for (Case& c : cases) {
    c.name += "_described";
    c.wants.statistics = StatisticsSet::light;
    c.wants.row_statistics = true;
  }
  return cases;
}

// More tiles than multiprocessors, so that a block of threads takes several one after the other.
std::vector<Case> many_tiles_cases() {
  std::vector<Case> cases;
  for (const Case& all : large_cases()) {
    const bool capped = all.name.starts_with("large_softcap_low_"),
               biased = all.name.starts_with("large_bias_pieces_by_");
    if (!(capped || biased) || all.head_dim > 128 || all.head_dim != all.value_dim) continue;
    Case c = all;
    c.name += "_many_tiles";
    c.heads = 72;
    c.kv_heads = 36;
    c.options.causal = false;
    if (biased) c.bias = Dims{c.batch, c.heads, c.queries, c.keys};
    cases.push_back(c);
  }
  return cases;
}

std::vector<Item> items_of(const std::vector<Case>& cases, const std::string& kind,
                           std::string (*run)(Context&, const Case&)) {
  std::vector<Item> items;
  for (const Case& c : cases) {
    items.push_back({kind + "/" + c.name, [c, run](Context& context) { return run(context, c); }});
  }
  return items;
}

}  // namespace

std::vector<Item> many_tiles_items() { return items_of(many_tiles_cases(), "forward", run_forward); }

std::vector<Item> attention_items() {
  std::vector<Item> items;
  const auto add = [&](const std::vector<Case>& cases, const std::string& kind, auto run) {
    for (Item& item : items_of(cases, kind, run)) items.push_back(std::move(item));
  };
  add(test::catalogue(), "forward", run_forward);
  add(large_cases(), "forward", run_forward);
  add(described_cases(), "forward", run_forward);
  add(test::gradient_catalogue(), "backward", run_backward);
  add(large_cases(), "backward", run_backward);
  add(large_cases(), "backward_to_inputs", run_backward_to_inputs);
  add(tf32_cases(), "tf32", run_tf32);
  return items;
}

}  // namespace polyhead::test::gpu
