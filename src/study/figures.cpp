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

// The mean of value(seed, n) over seeds at every x, with the lowest and the highest.
template <class Seeds, class Value>
Series over_seeds(const std::string& name, const std::vector<double>& x, const Seeds& seeds, const Value& value) {
  Series series{name, x, {}, {}, {}};
  for (std::size_t n = 0; n < x.size(); ++n) {
    std::vector<double> values;
    for (const auto& seed : seeds) values.push_back(value(seed, n));
    const Spread found = spread(values);
    series.y.push_back(found.mean);
    series.low.push_back(found.low);
    series.high.push_back(found.high);
  }
  return series;
}

// A course that ended early keeps its last point.
const Point& point_at(const Course& course, std::size_t n) {
  return course.points[std::min(n, course.points.size() - 1)];
}

std::vector<double> steps_of(const std::vector<Course>& courses) {
  const auto longest = std::max_element(courses.begin(), courses.end(), [](const Course& a, const Course& b) {
    return a.points.size() < b.points.size();
  });
  std::vector<double> steps;
  for (const Point& point : longest->points) steps.push_back(static_cast<double>(point.step));
  return steps;
}

template <class Value>
Figure courses(const std::string& id, const std::string& title, const std::string& y_label,
               const std::vector<Contender>& contenders, const Value& value) {
  Lines lines{"step", y_label, {}, false, {}, {}};
  for (const Contender& contender : contenders) {
    lines.series.push_back(over_seeds(heads_text(contender.heads), steps_of(contender.courses), contender.courses,
                                      [&](const Course& course, std::size_t n) { return value(point_at(course, n)); }));
  }
  return {id, title,
          "Mean over seeds; the band spans the lowest to the highest seed. A seed stops once it stays at 99 %. Width " +
              std::to_string(contenders[0].courses[0].plan.model.width) + " for all: more heads are narrower heads.",
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
          "On sequences never trained on. Whiskers span the lowest to the highest seed.", bars};
}

Figure entropies(const std::vector<Contender>& contenders) {
  constexpr std::size_t kMost = 16;
  Grid grid{"head, lowest entropy first", "", "entropy relative to equal weights", {}, {}, {}, true, 1};
  for (std::size_t h = 0; h < kMost; ++h) grid.columns.push_back(std::to_string(h));
  for (const Contender& contender : contenders) {
    grid.rows.push_back(heads_text(contender.heads));
    std::vector<double> row = contender.entropies(0);
    std::sort(row.begin(), row.end());
    row.resize(kMost, std::nan(""));
    grid.values.insert(grid.values.end(), row.begin(), row.end());
  }
  const std::string& task = contenders[0].task;
  return {"entropy-" + task, "Attention entropy of every head, task " + task,
          "0: all weight on one key; 1: equal weight on all visible keys. First seed.", grid};
}

Figure formation(const Formations& formations) {
  Lines lines{"step", "score", {}, false, {}, {}};
  const auto add = [&](const std::string& name, const std::string& role, const std::vector<Formation>& seeds,
                       const auto& value) {
    std::vector<double> steps;
    for (const Point& point : seeds[0].course.points) steps.push_back(static_cast<double>(point.step));
    lines.series.push_back(over_seeds(name, steps, seeds, [&](const Formation& formation, std::size_t n) {
      return value(formation, formation.course.points[n]);
    }));
    lines.series.back().role = role;
  };
  const auto accuracy = [](const Formation&, const Point& point) { return point.accuracy; };
  add("accuracy, two layers", "", formations.two_layers, accuracy);
  add("best induction head", "induction", formations.two_layers,
      [](const Formation& f, const Point& point) { return spread(f.induction(point)).high; });
  add("best previous-token head", "previous token", formations.two_layers,
      [](const Formation& f, const Point& point) { return spread(f.previous(point)).high; });
  add("accuracy, one layer", "", formations.one_layer, accuracy);
  return {
      "formation", "How induction heads form",
      "Repeats of variable length: the next token is known only by finding the last occurrence of this one and looking "
      "one further. Scores are mean weights on the key such a head looks at, on random tokens. Mean over seeds; the "
      "band spans the lowest to the highest.",
      lines};
}

// Previous-token scores of the first layer and induction scores of the second, step by step.
Figure evolution(const Formation& formation) {
  Grid grid{"step", "layer.head", "weight on the role's key", {}, {}, {}, false, 1};
  constexpr std::size_t kMost = 31;
  const std::vector<Point>& points = formation.course.points;
  const std::size_t stride = (points.size() + kMost - 1) / kMost;
  for (std::size_t n = 0; n < points.size(); n += stride) grid.columns.push_back(std::to_string(points[n].step));
  for (std::size_t head = 0; head < formation.roles.size(); ++head) {
    const bool first = formation.roles[head].id.layer == 0;
    grid.rows.push_back(to_string(formation.roles[head].id) + (first ? " previous token" : " induction"));
    for (std::size_t n = 0; n < points.size(); n += stride) {
      grid.values.push_back((first ? formation.previous(points[n]) : formation.induction(points[n]))[head]);
    }
  }
  return {"evolution", "Every head during training",
          "First layer: weight on the previous token. Second layer: weight on the token after the last occurrence. "
          "First seed.",
          grid};
}

std::vector<std::string> head_names(const Anatomy& anatomy) {
  std::vector<std::string> names;
  for (const HeadImportance& head : anatomy.examination.importance) names.push_back(to_string(head.id));
  return names;
}

Figure importance(const Anatomy& anatomy) {
  report::BarSeries gradient{"gradient of the gate", {}, {}, {}};
  for (const HeadImportance& head : anatomy.examination.importance) gradient.values.push_back(head.normalised);
  return {"importance", "Importance of every head by the gradient of its gate",
          "Mean over sequences of |d loss / d gate|, divided by the l2 norm of its layer. First seed.",
          Bars{"layer.head", "importance", head_names(anatomy), {gradient}}};
}

Figure damage(const Anatomy& anatomy) {
  report::BarSeries zero{"output made 0", {}, {}, {}}, mean{"output made its mean", {}, {}, {}};
  for (const HeadImportance& head : anatomy.examination.importance) {
    zero.values.push_back(head.zero.mean);
    zero.low.push_back(head.zero.low);
    zero.high.push_back(head.zero.high);
    mean.values.push_back(head.mean.mean);
    mean.low.push_back(head.mean.low);
    mean.high.push_back(head.mean.high);
  }
  return {"damage", "How much the loss rises without each head", "With 95 % intervals over sequences. First seed.",
          Bars{"layer.head", "rise of the loss (nats)", head_names(anatomy), {zero, mean}}};
}

double accuracy_after(const PruneCurve& curve, std::size_t removed) {
  return removed == 0 ? curve.accuracy : curve.steps[removed - 1].accuracy;
}

Figure pruning(const std::vector<Anatomy>& anatomies) {
  std::vector<double> removed;
  for (std::size_t n = 0; n <= anatomies[0].iterative.steps.size(); ++n) removed.push_back(static_cast<double>(n));
  std::vector<const PruneCurve*> iterative, one_shot, random;
  for (const Anatomy& anatomy : anatomies) {
    iterative.push_back(&anatomy.iterative);
    one_shot.push_back(&anatomy.one_shot);
    for (const PruneCurve& curve : anatomy.random) random.push_back(&curve);
  }
  const auto after = [](const PruneCurve* curve, std::size_t n) { return accuracy_after(*curve, n); };
  Lines lines{"heads removed", "accuracy", {}, false, {}, {}};
  lines.series = {over_seeds("least important of those left", removed, iterative, after),
                  over_seeds("one ranking", removed, one_shot, after),
                  over_seeds("random order", removed, random, after)};
  return {"pruning", "Accuracy as heads are removed",
          "Ranked on some sequences, judged on others. Mean over " + std::to_string(anatomies.size()) +
              (anatomies.size() == 1 ? " seed" : " seeds") + "; the band spans the lowest to the highest. Random: " +
              std::to_string(anatomies[0].random.size()) + " orders per seed.",
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
                          {begin, begin + static_cast<std::ptrdiff_t>(cells)},
                          head.role});
  }
  return {id, "All heads of “" + model.name + "”",
          "Rows are queries, columns are keys; the stronger the shade, the more weight.", grid};
}

}  // namespace

std::vector<Figure> figures(const Results& results, const std::vector<report::Model>& models) {
  const auto loss = [](const Point& point) { return point.loss; };
  const auto accuracy = [](const Point& point) { return point.accuracy; };
  return {final_accuracies(results),
          courses("accuracy-classify", "Classification: accuracy on unseen sequences", "accuracy", results.classify,
                  accuracy),
          courses("loss-classify", "Classification: loss on unseen sequences", "loss (nats)", results.classify, loss),
          courses("loss-copy", "Copying: loss on unseen sequences", "loss (nats)", results.copy, loss),
          entropies(results.classify),
          entropies(results.copy),
          formation(results.formations),
          evolution(results.formations.two_layers[0]),
          head_grid("heads-repeat", models[0]),
          head_grid("heads-grammar", models[1]),
          importance(results.anatomies[0]),
          damage(results.anatomies[0]),
          pruning(results.anatomies)};
}

}  // namespace polyhead::study
