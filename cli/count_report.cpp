#include <fmt/format.h>

#include <functional>

#include "cli/count.h"

namespace polyhead::cli {
namespace {

double share(std::int64_t part, std::int64_t other) {
  return static_cast<double>(part) / static_cast<double>(part + other);
}

std::string layers_of(const Model& model) {
  return model.decoder_layers > 0 ? fmt::format("{}+{}", model.layers, model.decoder_layers)
                                  : std::to_string(model.layers);
}

std::int64_t with_biases(const Part& part) { return part.model_weights + part.model_biases; }

// ---- several models: one line each

Table table_of(const std::vector<Count>& counts) {
  Table table{.name = "models",
              .columns = {{"model", "model"},
                          {"width", "width", Style::count, 1},
                          {"heads", "heads", Style::count},
                          {"kv_heads", "kv heads", Style::count},
                          {"head_dim", "d_k", Style::count, 5},
                          {"layers", "layers", Style::count, 3},
                          {"layer_weights", "W_Q,K,V,O", Style::count},
                          {"layer_parameters", "with biases", Style::count, 6},
                          {"attention_weights", "all attention", Style::count},
                          {"ffn_weights", "all FFN", Style::count},
                          {"attention_share", "share", Style::percent, 2},
                          {"parameters", "parameters", Style::count},
                          {"tokens", "tokens", Style::count},
                          {"flops_last_token", "FLOPs", Style::scaled, 4},
                          {"flops_sequence", "FLOPs, all", Style::scaled}},
              .rows = {}};
  for (const Count& c : counts) {
    const Part &attention = c.of("attention"), &ffn = c.of("FFN"), &total = c.of("total");
    const Value attention_share =
        ffn.times > 0 ? Value(share(attention.model_weights, ffn.model_weights)) : Value(std::monostate{});
    table.rows.push_back({c.model.name, c.model.width, c.model.heads, c.model.kv_heads, c.model.head_dim,
                          layers_of(c.model), attention.weights, attention.weights + attention.biases,
                          attention.model_weights, ffn.model_weights, attention_share, with_biases(total),
                          c.model.tokens, total.flops_last, total.flops_sequence});
  }
  return table;
}

}  // namespace

Report overview(const std::vector<Count>& counts) {
  const Table table = table_of(counts);
  const std::string text =
      text_of(table, {"model", "width", "heads", "head_dim", "layers", "layer_weights", "layer_parameters",
                      "attention_share", "parameters", "flops_last_token"}) +
      "\nW_Q,K,V,O: one attention layer. Share: of attention in attention and FFN, without biases.\n"
      "FLOPs: of the last token of a typical sequence. 'polyhead count MODEL' itemises one of them.\n";
  return {.command = "count", .text = text, .fields = {}, .tables = {table}, .csv = table};
}

// ---- one model: every part

namespace {

Table table_of(const Count& c) {
  Table table{
      .name = "parts",
      .columns = {{"part", "part"},
                  {"kind", "kind"},
                  {"shape", "shape", Style::words, 4},
                  {"weights", "weights", Style::count, 2},
                  {"biases", "biases", Style::count, 5},
                  {"times", "times", Style::count, 3},
                  {"model_weights", "weights in all", Style::count},
                  {"model_parameters", "with biases", Style::count},
                  {"flops_last_token", "last token", Style::count},
                  {"flops_sequence", fmt::format("all {} tokens", fmt::group_digits(c.model.tokens)), Style::count}},
      .rows = {}};
  for (const Part& part : c.parts) {
    const bool total = part.kind == Kind::total;  // its parts occur different numbers of times: there is no "one"
    const auto one = [&](std::int64_t number) { return total ? Value(std::monostate{}) : Value(number); };
    table.rows.push_back({part.name,
                          part.kind == Kind::part ? "part"
                          : total                 ? "total"
                                                  : "sum",
                          part.shape, one(part.weights), one(part.biases), one(part.times), part.model_weights,
                          with_biases(part), part.flops_last, part.flops_sequence});
  }
  return table;
}

// Some of the parts, sums marked by "=".
Table rows_where(Table table, const Count& c, const std::function<bool(const Part&)>& keep) {
  std::vector<std::vector<Value>> rows;
  for (std::size_t i = 0; i < c.parts.size(); ++i) {
    if (!keep(c.parts[i])) continue;
    rows.push_back(table.rows[i]);
    rows.back()[0] = (c.parts[i].kind == Kind::part ? "  " : "= ") + c.parts[i].name;
  }
  table.rows = std::move(rows);
  return table;
}

std::string headline(const Model& m) {
  std::string text = fmt::format("{}: {}\nwidth {}, {} head{} of {} (d_k = {})", m.name, m.title, m.width, m.heads,
                                 m.heads == 1 ? "" : "s", m.head_dim, m.head_dim);
  if (m.kv_heads != m.heads) text += fmt::format(", {} key/value heads", m.kv_heads);
  if (m.ff > 0) text += fmt::format(", FFN {}{}", m.ff, m.gated_ff ? " gated" : "");
  text += m.decoder_layers > 0 ? fmt::format(", {} encoder and {} decoder layers", m.layers, m.decoder_layers)
                               : fmt::format(", {} layer{}", m.layers, m.layers == 1 ? "" : "s");
  if (m.causal) text += ", causal";
  if (m.vocabulary > 0) text += fmt::format(", vocabulary {}", fmt::group_digits(m.vocabulary));
  return text + '\n';
}

// One wide head instead of many narrow ones costs the same.
std::string one_head(const Count& c) {
  if (c.model.heads == 1 || c.model.kv_heads != c.model.heads) return {};
  Model single = c.model;
  single.head_dim *= single.heads;
  single.heads = single.kv_heads = 1;
  const Count counted = count(single);
  const Part &one = counted.of("attention"), &many = c.of("attention");
  const bool same = one.model_weights == many.model_weights && one.flops_sequence == many.flops_sequence;
  return '\n' +
         wrapped(fmt::format("One head of {} instead of {} of {}: {} attention weights, {} FLOPs; {}.", single.head_dim,
                             c.model.heads, c.model.head_dim, text_of(one.model_weights, Style::count),
                             text_of(one.flops_sequence, Style::count), same ? "the same" : "not the same"),
                 0) +
         '\n';
}

std::string shares(const Count& c) {
  const Part &attention = c.of("attention"), &ffn = c.of("FFN");
  if (ffn.times == 0) return {};
  const auto row = [](const std::string& name, std::int64_t a, std::int64_t f) -> std::vector<Value> {
    return {name, a, share(a, f), f, share(f, a)};
  };
  const Table table{.name = {},
                    .columns = {{"", ""},
                                {"", "attention", Style::count},
                                {"", "share", Style::percent},
                                {"", "FFN", Style::count},
                                {"", "share", Style::percent, 1}},
                    .rows = {row("  without biases", attention.model_weights, ffn.model_weights),
                             row("  with biases", with_biases(attention), with_biases(ffn))}};
  return "\nAttention against FFN\n" + text_of(table);
}

}  // namespace

Report itemised(const Count& c) {
  const Table table = table_of(c);
  const auto has_parameters = [](const Part& part) { return part.model_weights + part.model_biases > 0; };
  const auto does_work = [](const Part& part) { return part.flops_sequence > 0; };
  std::string text = headline(c.model);
  text += "\nParameters\n";
  text += text_of(rows_where(table, c, has_parameters),
                  {"part", "shape", "weights", "biases", "times", "model_weights", "model_parameters"});
  text += shares(c);
  text += "\nFLOPs\n";
  text += text_of(rows_where(table, c, does_work), {"part", "flops_last_token", "flops_sequence"});
  text += "A multiply-add is two; softmax, norms and biases are left out; the last token sees all the others.\n";
  if (c.model.decoder_layers > 0) text += "Encoder and decoder read as many tokens each.\n";
  text += one_head(c);
  const Model& m = c.model;
  return {.command = "count",
          .text = text,
          .fields = {{"model", m.name},
                     {"width", m.width},
                     {"heads", m.heads},
                     {"kv_heads", m.kv_heads},
                     {"head_dim", m.head_dim},
                     {"ff", m.ff},
                     {"layers", layers_of(m)},
                     {"tokens", m.tokens}},
          .tables = {table},
          .csv = table};
}

}  // namespace polyhead::cli
