#include "report/sample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace polyhead::report {
namespace {

using Score = std::function<double(int query, int key)>;

struct Kind {
  std::string role;
  Score score;
};

// Any numbers that look random and are the same everywhere.
double noise(int a, int b, int c) {
  return std::fmod(std::abs(std::sin(12.9898 * a + 78.233 * b + 37.719 * c)) * 43758.5453, 1.0);
}

std::vector<Kind> kinds() {
  return {{"previous token", [](int q, int k) { return k == q - 1 ? 5.0 : 0.0; }},
          {"first token", [](int, int k) { return k == 0 ? 5.0 : 0.0; }},
          {"induction", [](int q, int k) { return q >= 8 && k == q - 7 ? 6.0 : 0.0; }},
          {"self", [](int q, int k) { return k == q ? 4.0 : 0.0; }},
          {"local", [](int q, int k) { return -0.4 * std::abs(q - k); }},
          {"", [](int, int) { return 0.0; }}};
}

// Softmax of the scores and some noise, over the keys up to the query.
void add_head(std::vector<float>& weights, int queries, int keys, bool causal, int seed, const Score& score) {
  for (int q = 0; q < queries; ++q) {
    std::vector<double> row(static_cast<std::size_t>(keys));
    double sum = 0;
    for (int k = 0; k < (causal ? q + 1 : keys); ++k) {
      row[static_cast<std::size_t>(k)] = std::exp(score(q, k) + 1.5 * noise(q, k, seed));
      sum += row[static_cast<std::size_t>(k)];
    }
    for (const double value : row) weights.push_back(static_cast<float>(value / sum));
  }
}

std::vector<std::string> sentence(int length) {
  const std::vector<std::string> words{"<bos>",    "the", " animal", " did", " not",   " cross", " the", " road",
                                       " because", " it", " was",    " too", " tired", ".",      "\n"};
  std::vector<std::string> tokens;
  for (int i = 0; i < length; ++i) tokens.push_back(words[static_cast<std::size_t>(i) % words.size()]);
  return tokens;
}

// Tokens as somebody might write them who wishes us ill.
std::vector<std::string> hostile() {
  return {"<img src=x onerror=alert(1)>",
          "</script><script>alert(2)</script>",
          "a\u202Eb",
          "\u200B",
          "\x01\x7F",
          "\xFF\xC0",
          "&amp;",
          "'\"`",
          "\n",
          "漢字",
          "🙂",
          "{{script}}"};
}

Sample sample_of(const std::string& name, std::vector<std::string> tokens, const std::vector<Head>& heads) {
  Sample sample{name, std::move(tokens), {}, {}, {}};
  const std::vector<Kind> all = kinds();
  const int length = static_cast<int>(sample.tokens.size());
  for (const Head& head : heads) {
    if (!head.kept) continue;
    sample.heads.emplace_back(head.layer, head.head);
    const Kind& kind = all[static_cast<std::size_t>(head.layer * 5 + head.head * 7) % all.size()];
    add_head(sample.weights, length, length, true, head.layer * 100 + head.head, kind.score);
  }
  return sample;
}

std::vector<Head> heads_of(int layers, int heads) {
  const std::vector<Kind> all = kinds();
  std::vector<Head> list;
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      const std::string& role = all[static_cast<std::size_t>(layer * 5 + head * 7) % all.size()].role;
      const double importance = noise(layer, head, 3), damage = 0.05 * importance - 0.004;
      Head one{layer,          head,           role, 0.5 + 0.5 * noise(layer, head, 1), {}, {}, importance, damage,
               damage - 0.004, damage + 0.004, true};
      for (const Kind& kind : all) {
        if (!kind.role.empty())
          one.roles.emplace_back(kind.role, kind.role == role ? *one.score : noise(head, layer, 9) / 4);
      }
      one.statistics = {{"entropy (nats)", 3 * noise(layer, head, 5)},
                        {"mass on the first key", noise(layer, head, 6)},
                        {"mass on the previous key", noise(layer, head, 7)},
                        {"mean distance", 20 * noise(layer, head, 8)}};
      if (role.empty()) one.score.reset();
      list.push_back(one);
    }
  }
  return list;
}

Model large_model() {
  Model model{"8 layers, 8 heads", "Made-up attention over 128 tokens: 64 heads.", heads_of(8, 8), {}};
  model.samples.push_back(sample_of("a long text", sentence(128), model.heads));
  model.samples.push_back(sample_of("a short text", sentence(14), model.heads));
  return model;
}

Model pruned_model() {
  Model model{"2 layers, pruned", "Heads that went are still listed.", heads_of(2, 4), {}};
  model.heads[1].kept = model.heads[6].kept = false;
  model.samples.push_back(sample_of("hostile tokens", hostile(), model.heads));
  Sample cross{"cross-attention", {"le", "chat", "dort"}, {"the", "cat", "sleepwalks", "here"}, {{0, 0}}, {}};
  add_head(cross.weights, 3, 4, false, 1, [](int q, int k) { return q == k ? 3.0 : 0.0; });
  model.samples.push_back(cross);
  return model;
}

Figure curves() {
  Lines lines{"step", "accuracy (%)", {}, false, {}, {{600, "copying begins"}}};
  for (const int heads : {1, 2, 4, 8, 16}) {
    Series series{"h = " + std::to_string(heads), {}, {}, {}, {}};
    for (int step = 0; step <= 2000; step += 25) {
      const double y = 100 / (1 + std::exp((700.0 - 18 * heads - step) / 150)) - 6 * std::abs(std::log2(heads / 4.0));
      const double wide = 4 + 3 * noise(step, heads, 1);
      series.x.push_back(step);
      series.y.push_back(y);
      series.low.push_back(y - wide);
      series.high.push_back(y + wide);
    }
    lines.series.push_back(series);
  }
  return {"accuracy", "Accuracy on the copy task, by number of heads",
          "Median of five seeds; bands are the middle half.", lines};
}

Figure times() {
  Lines lines{"sequence length (tokens)", "time (ms)", {}, true, {16, 64, 256, 1024, 4096}, {}};
  for (const bool pruned : {false, true}) {
    Series series{pruned ? "half of the heads pruned" : "all heads", {}, {}, {}, {}};
    for (const double length : {16.0, 64.0, 256.0, 1024.0, 4096.0}) {
      series.x.push_back(length);
      series.y.push_back(length == 256 && pruned ? std::numeric_limits<double>::quiet_NaN()
                                                 : length * (pruned ? 0.006 : 0.01));
    }
    lines.series.push_back(series);
  }
  return {"time", "Time of a layer", "The logarithmic axis has the lengths that were measured; one was not.", lines};
}

Figure damage() {
  Bars bars{"head", "accuracy lost (points)", {}, {{"knocked out", {}, {}, {}}, {"mean-ablated", {}, {}, {}}}};
  for (int head = 0; head < 8; ++head) {
    bars.categories.push_back("0." + std::to_string(head));
    for (std::size_t s = 0; s < 2; ++s) {
      const double value = 6 * noise(head, static_cast<int>(s), 4) - 0.8;
      bars.series[s].values.push_back(value);
      bars.series[s].low.push_back(value - 0.5);
      bars.series[s].high.push_back(value + 0.5);
    }
  }
  return {"damage", "What is lost without each head", "Whiskers are 95% intervals over 1,000 sequences.", bars};
}

Figure importance() {
  Grid grid{"head", "layer", "importance", {}, {}, {}, true};
  for (int i = 0; i < 8; ++i) {
    grid.rows.push_back(std::to_string(i));
    grid.columns.push_back(std::to_string(i));
  }
  for (int i = 0; i < 64; ++i) grid.values.push_back(noise(i / 8, i % 8, 3));
  grid.values[10] = std::numeric_limits<double>::quiet_NaN();
  return {"importance", "Importance of every head", "Mean of |dL/dgate|. A dash marks a head that was pruned.", grid};
}

Figure heads() {
  HeadGrid grid{sentence(14), sentence(14), {}, 4};
  int seed = 0;
  for (const Kind& kind : kinds()) {
    HeadPanel panel{"layer 0 · head " + std::to_string(seed), kind.role.empty() ? "no clear role" : kind.role, {}};
    panel.role = kind.role;
    add_head(panel.weights, 14, 14, true, seed++, kind.score);
    grid.heads.push_back(panel);
  }
  return {"patterns", "Six heads over one sentence", "", grid};
}

}  // namespace

Page hostile_page(const std::string& behind) {
  const auto bad = [&](const std::string& place) { return "<b class=bad onclick=bad=1>" + place + "</b>" + behind; };
  Page page{bad("title"), bad("lead"), {{bad("about name"), bad("about value")}}, {}, {}, {}, {}};
  page.findings = {{bad("finding"), "figure"}};
  const Lines lines{bad("x label"),       bad("y label"), {{bad("series"), {0, 1}, {0, 1}, {}, {}}}, false, {},
                    {{0.5, bad("event")}}};
  page.figures = {{"figure", bad("figure title"), bad("caption"), lines}};
  page.tables = {{"table", bad("table title"), bad("table caption"), {bad("column")}, {{bad("cell")}}}};
  page.chapters = {{bad("question"),
                    {{bad("task"), bad("asks"), {{bad("token"), true}}, bad("answer")}},
                    {"figure", "table"},
                    bad("verdict"),
                    bad("caveat")}};
  Head head{0, 0, bad("role"), 0.5, {{bad("role"), 0.5}}, {{bad("statistic"), 1.0}}, 0.5, {}, {}, {}, true};
  Sample sample{
      bad("sample"), {bad("query"), bad("query 1")}, {bad("key"), bad("key 1")}, {{0, 0}}, {0.5F, 0.5F, 0.25F, 0.75F}};
  page.models = {{bad("model"), bad("note"), {head}, {sample}}, {bad("other model"), "", {head}, {sample, sample}}};
  page.models[0].samples.push_back(sample);
  return page;
}

Page sample_page() {
  Page page{"What the heads of a small transformer do",
            "A page for the tests: its attention is made up.",
            {},
            {},
            {},
            {},
            {}};
  page.about = {
      {"version", "0.0.0"}, {"machine", "2 cores"}, {"date", "2026-01-01"}, {"seed", "1"}, {"time", "2 min 5 s"}};
  page.findings = {{"Four heads learn the task fastest; sixteen narrow ones end 12 points lower.", "accuracy"},
                   {"Six of eight heads of layer 0 can go without loss.", "damage"},
                   {"Pruning half of the heads saves 40 % of the time at 4,096 tokens.", "time"},
                   {"A finding that tries <img src=x onerror=alert(3)> & fails.", "summary"}};
  page.figures = {curves(), times(), damage(), importance(), heads()};
  page.tables = {{"summary",
                  "The five models",
                  "Accuracy after 2,000 steps.",
                  {"model", "heads", "parameters", "accuracy (%)"},
                  {}}};
  for (const int h : {1, 2, 4, 8, 16}) {
    page.tables[0].rows.push_back(
        {"h = " + std::to_string(h), std::int64_t{h}, std::int64_t{262144}, 100 - 6 * std::abs(std::log2(h / 4.0))});
  }
  page.models = {large_model(), pruned_model()};
  return page;
}

}  // namespace polyhead::report
