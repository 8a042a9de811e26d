#include "study/figures.h"

#include <algorithm>
#include <cmath>

namespace polyhead::study {
namespace {

using report::Bars;
using report::Figure;
using report::Grid;
using report::Lines;
using report::Series;

// One point of every course, as a series with the spread over seeds.
template <class Value>
Series series_of(const Contender& contender, const Value& value) {
  Series series{heads_text(contender.heads), {}, {}, {}, {}};
  for (std::size_t n = 0; n < contender.courses[0].points.size(); ++n) {
    std::vector<double> values;
    for (const Course& course : contender.courses) values.push_back(value(course.points[n]));
    const Spread found = spread(values);
    series.x.push_back(static_cast<double>(contender.courses[0].points[n].step));
    series.y.push_back(found.mean);
    series.low.push_back(found.low);
    series.high.push_back(found.high);
  }
  return series;
}

template <class Value>
Figure courses(const std::string& id, const std::string& title, const std::string& y_label,
               const std::vector<Contender>& contenders, const Value& value) {
  Lines lines{"step", y_label, {}, false, {}, {}};
  for (const Contender& contender : contenders) lines.series.push_back(series_of(contender, value));
  return {id, title,
          "Mean over seeds; the band goes from the lowest seed to the highest. Width 256 throughout: more heads are "
          "narrower heads.",
          lines};
}

Figure final_accuracies(const Results& results) {
  Bars bars{"heads", "accuracy", {}, {}};
  for (const std::int64_t heads : kHeadCounts) bars.categories.push_back(std::to_string(heads));
  for (const auto* contenders : {&results.copy, &results.classify}) {
    report::BarSeries series{(*contenders)[0].task, {}, {}, {}};
    for (const Contender& contender : *contenders) {
      const Spread found = final_accuracy(contender);
      series.values.push_back(found.mean);
      series.low.push_back(found.low);
      series.high.push_back(found.high);
    }
    bars.series.push_back(series);
  }
  return {"final-accuracy", "Accuracy after training, by number of heads",
          "On sequences that were never trained on. Whiskers go from the lowest seed to the highest.", bars};
}

Figure entropies(const std::vector<Contender>& contenders) {
  constexpr std::size_t kMost = 16;
  Grid grid{"head, the most focused first", "", "entropy relative to equal weights", {}, {}, {}, true};
  for (std::size_t h = 0; h < kMost; ++h) grid.columns.push_back(std::to_string(h));
  for (const Contender& contender : contenders) {
    grid.rows.push_back(heads_text(contender.heads));
    std::vector<double> row = contender.entropies[0];
    std::sort(row.begin(), row.end());
    row.resize(kMost, std::nan(""));
    grid.values.insert(grid.values.end(), row.begin(), row.end());
  }
  const std::string& task = contenders[0].task;
  return {"entropy-" + task, "Attention entropy of every head, task " + task,
          "0: all weight on one key; 1: equal weights on all visible ones. First seed.", grid};
}

Figure formation(const Formations& formations) {
  Lines lines{"step", "score", {}, false, {}, {}};
  const auto add = [&](const std::string& name, const Formation& from, const auto& value) {
    Series series{name, {}, {}, {}, {}};
    for (const Snapshot& snapshot : from.snapshots) {
      series.x.push_back(static_cast<double>(snapshot.point.step));
      series.y.push_back(value(snapshot));
    }
    lines.series.push_back(series);
  };
  add("accuracy, two layers", formations.two_layers, [](const Snapshot& s) { return s.point.accuracy; });
  add("best induction head", formations.two_layers, [](const Snapshot& s) { return Formation::most(s.induction); });
  add("best previous-token head", formations.two_layers, [](const Snapshot& s) { return Formation::most(s.previous); });
  add("accuracy, one layer", formations.one_layer, [](const Snapshot& s) { return s.point.accuracy; });
  return {
      "formation", "How induction heads form",
      "Repeats of variable length: what comes next can only be known by finding the last occurrence and looking one "
      "further. Scores are mean weights on the key that such a head looks at, on random tokens.",
      lines};
}

// Previous-token scores of the first layer and induction scores of the second, step by step.
Figure evolution(const Formation& formation) {
  Grid grid{"step", "layer.head", "weight on the key of the role", {}, {}, {}, false};
  constexpr std::size_t kMost = 31;
  const std::size_t stride = (formation.snapshots.size() + kMost - 1) / kMost;
  for (std::size_t n = 0; n < formation.snapshots.size(); n += stride) {
    grid.columns.push_back(std::to_string(formation.snapshots[n].point.step));
  }
  for (std::size_t head = 0; head < formation.roles.size(); ++head) {
    const bool first = formation.roles[head].id.layer == 0;
    grid.rows.push_back(to_string(formation.roles[head].id) + (first ? " previous token" : " induction"));
    for (std::size_t n = 0; n < formation.snapshots.size(); n += stride) {
      const Snapshot& snapshot = formation.snapshots[n];
      grid.values.push_back(first ? snapshot.previous[head] : snapshot.induction[head]);
    }
  }
  return {"evolution", "Every head on its way",
          "First layer: weight on the token before. Second layer: weight on the "
          "token after the last occurrence.",
          grid};
}

std::vector<std::string> head_names(const Anatomy& anatomy) {
  std::vector<std::string> names;
  for (const heads::Importance& head : anatomy.examination.importance) names.push_back(to_string(head.id));
  return names;
}

Figure importance(const Anatomy& anatomy) {
  report::BarSeries gradient{"gradient of the gate", {}, {}, {}};
  for (const heads::Importance& head : anatomy.examination.importance) gradient.values.push_back(head.normalised);
  return {"importance", "Importance of every head by the gradient of its gate",
          "Mean over sequences of |d loss / d gate|, divided by the l2 norm of its layer.",
          Bars{"layer.head", "importance", head_names(anatomy), {gradient}}};
}

Figure damage(const Anatomy& anatomy) {
  report::BarSeries zero{"output made 0", {}, {}, {}}, mean{"output made its mean", {}, {}, {}};
  for (const heads::Importance& head : anatomy.examination.importance) {
    zero.values.push_back(head.zero.mean);
    zero.low.push_back(head.zero.low);
    zero.high.push_back(head.zero.high);
    mean.values.push_back(head.mean.mean);
    mean.low.push_back(head.mean.low);
    mean.high.push_back(head.mean.high);
  }
  return {"damage", "What the loss gains without a head", "With 95 % intervals over sequences.",
          Bars{"layer.head", "loss gained (nats)", head_names(anatomy), {zero, mean}}};
}

Series curve_of(const std::string& name, const heads::PruneCurve& curve) {
  Series series{name, {0}, {curve.accuracy}, {}, {}};
  for (std::size_t n = 0; n < curve.steps.size(); ++n) {
    series.x.push_back(static_cast<double>(n + 1));
    series.y.push_back(curve.steps[n].accuracy);
  }
  return series;
}

Figure pruning(const Anatomy& anatomy) {
  Lines lines{"heads taken out", "accuracy", {}, false, {}, {}};
  lines.series = {curve_of("least important first, ranked anew", anatomy.iterative),
                  curve_of("ranked once", anatomy.one_shot)};
  Series random = curve_of("random order", anatomy.random[0]);
  for (std::size_t n = 0; n < random.y.size(); ++n) {
    std::vector<double> values;
    for (const heads::PruneCurve& curve : anatomy.random) values.push_back(curve_of("", curve).y[n]);
    const Spread found = spread(values);
    random.y[n] = found.mean;
    random.low.push_back(found.low);
    random.high.push_back(found.high);
  }
  lines.series.push_back(random);
  lines.events = {{static_cast<double>(anatomy.iterative.within_budget), "1 point"}};
  return {"pruning", "Accuracy as heads go",
          "Ranked on some sequences, judged on others. Random: mean of " + std::to_string(anatomy.random.size()) +
              " orders, with the lowest and the highest. The upright line is where one point of accuracy is spent.",
          lines};
}

// All heads of a model over its first sample, side by side.
Figure head_grid(const std::string& id, const report::Model& model) {
  const report::Sample& sample = model.samples[0];
  report::HeadGrid grid{sample.tokens, sample.tokens, {}, model.heads.size() > 4 ? 4 : 2};
  const std::size_t cells = sample.tokens.size() * sample.tokens.size();
  for (std::size_t n = 0; n < model.heads.size(); ++n) {
    const report::Head& head = model.heads[n];
    const auto begin = sample.weights.begin() + static_cast<std::ptrdiff_t>(n * cells);
    grid.heads.push_back({"layer " + std::to_string(head.layer) + " · head " + std::to_string(head.head),
                          head.role,
                          {begin, begin + static_cast<std::ptrdiff_t>(cells)}});
  }
  return {id, "All heads of “" + model.name + "”", "Rows are queries, columns are keys; darker is more weight.", grid};
}

}  // namespace

std::vector<Figure> figures(const Results& results, const std::vector<report::Model>& models) {
  const auto loss = [](const Point& point) { return point.loss; };
  const auto accuracy = [](const Point& point) { return point.accuracy; };
  return {courses("loss-copy", "Copying: loss on unseen sequences", "loss (nats)", results.copy, loss),
          courses("loss-classify", "Classification: loss on unseen sequences", "loss (nats)", results.classify, loss),
          courses("accuracy-classify", "Classification: accuracy on unseen sequences", "accuracy", results.classify,
                  accuracy),
          final_accuracies(results),
          entropies(results.copy),
          entropies(results.classify),
          formation(results.formations),
          evolution(results.formations.two_layers),
          head_grid("heads-repeat", models[0]),
          importance(results.anatomy),
          damage(results.anatomy),
          pruning(results.anatomy),
          head_grid("heads-grammar", models[1])};
}

}  // namespace polyhead::study
