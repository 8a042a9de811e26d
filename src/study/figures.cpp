#include "study/figures.h"

#include <algorithm>
#include <cmath>

#include "study/words.h"

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

Figure accuracies(const TaskStudy& task) {
  Lines lines{"step", "accuracy", {}, false, {}, {}};
  for (const Contender& contender : task.contenders) {
    lines.series.push_back(
        over_seeds(heads_text(contender.heads), steps_of(contender.courses), contender.courses,
                   [&](const Course& course, std::size_t n) { return point_at(course, n).accuracy; }));
  }
  return {"accuracy-" + task.task, "Accuracy on unseen sequences, task " + task.task,
          "Mean over " + counted(task.contenders[0].courses.size(), "seed") +
              "; the band spans the lowest to the highest. A seed stops once it stays at 99 %. Width " +
              std::to_string(task.contenders[0].courses[0].plan.model.width) +
              " for all: more heads are narrower heads.",
          lines};
}

// A value of every run by its number of heads, with 95 % intervals over seeds; `value` makes it from a task and a
// course.
template <class Value>
Figure by_heads(const std::string& id, const std::string& title, const std::string& caption, const Results& results,
                const Value& value) {
  Lines lines{"heads", "entropy relative to equal weights", {}, true, {}, {}};
  for (const std::int64_t heads : kHeadCounts) lines.x_ticks.push_back(static_cast<double>(heads));
  for (const TaskStudy& task : results.tasks) {
    const Common common = common_of(task.contenders);
    Series series{task.task, lines.x_ticks, {}, {}, {}};
    for (const Contender& contender : task.contenders) {
      const Estimate found =
          heads::estimate(values_of(contender.courses, [&](const Course& course) { return value(course, common); }));
      series.y.push_back(found.mean);
      series.low.push_back(found.low);
      series.high.push_back(found.high);
    }
    lines.series.push_back(series);
  }
  return {id, title, caption + " Mean over heads and seeds, with 95 % intervals over seeds.", lines};
}

Figure entropies_at_loss(const Results& results) {
  return by_heads("entropy-loss", "Attention entropy at equal loss",
                  "Of every run when its loss first fell to the lowest that all runs of its task have reached.",
                  results,
                  [](const Course& course, const Common& common) { return entropy_at_loss(course, common.loss); });
}

Figure entropies_at_step(const Results& results) {
  return by_heads("entropy-steps", "Attention entropy at equal steps",
                  "Of every run at the last step that all runs of its task took; some had learnt more by then.",
                  results,
                  [](const Course& course, const Common& common) { return entropy_at_step(course, common.step); });
}

Figure entropies(const TaskStudy& task) {
  constexpr std::size_t kMost = 16;
  Grid grid{"head, lowest entropy first", "", "entropy relative to equal weights", {}, {}, {}, true, 1};
  for (std::size_t h = 0; h < kMost; ++h) grid.columns.push_back(std::to_string(h));
  for (const Contender& contender : task.contenders) {
    grid.rows.push_back(heads_text(contender.heads));
    std::vector<double> row = contender.entropies(0);
    std::sort(row.begin(), row.end());
    row.resize(kMost, std::nan(""));
    grid.values.insert(grid.values.end(), row.begin(), row.end());
  }
  return {"entropy-" + task.task, "Attention entropy of every head, task " + task.task,
          "0: all weight on one key; 1: equal weight on all visible keys. First seed, where its training ended.", grid};
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
      "one further. Scores are those that roles are judged by, on random tokens: odds for induction, said as the "
      "weight "
      "on one key in eight, and the weight on the key before. Mean over seeds; the band spans the lowest to the "
      "highest.",
      lines};
}

// Previous-token scores of the first layer and induction scores of the second, step by step.
Figure evolution(const Formation& formation) {
  Grid grid{"step", "layer.head", "score in the role", {}, {}, {}, false, 1};
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
  return {
      "evolution", "Every head during training",
      "First layer: the weight on the key before. Second layer: odds of the token after the last occurrence, said as "
      "the weight on one key in eight. First seed.",
      grid};
}

std::vector<std::string> head_names(const Anatomy& anatomy) {
  std::vector<std::string> names;
  for (const HeadImportance& head : anatomy.examination.importance) names.push_back(to_string(head.id));
  return names;
}

Figure damage(const TaskStudy& task) {
  const Anatomy& anatomy = task.anatomies[0];
  report::BarSeries zero{"output made 0", {}, {}, {}}, mean{"output made its mean", {}, {}, {}};
  for (const HeadImportance& head : anatomy.examination.importance) {
    zero.values.push_back(head.zero.mean);
    zero.low.push_back(head.zero.low);
    zero.high.push_back(head.zero.high);
    mean.values.push_back(head.mean.mean);
    mean.low.push_back(head.mean.low);
    mean.high.push_back(head.mean.high);
  }
  return {"damage", "How much the loss rises without each head, task " + task.task,
          "With 95 % intervals over sequences. First seed of the models with " + heads_text(kDissected) + ".",
          Bars{"layer.head", "rise of the loss (nats)", head_names(anatomy), {zero, mean}}};
}

// Each head out alone, the one whose absence costs most first.
Figure alone(const Results& results) {
  Bars bars{"head, costliest first", "accuracy lost", {}, {}};
  for (std::int64_t n = 1; n <= results.tasks[0].dissected().all_heads(); ++n)
    bars.categories.push_back(std::to_string(n));
  for (const TaskStudy& task : results.tasks) {
    report::BarSeries series{task.task, {}, {}, {}};
    for (const HeadImportance& head : task.anatomies[0].examination.importance)
      series.values.push_back(head.accuracy_loss);
    std::sort(series.values.rbegin(), series.values.rend());
    bars.series.push_back(series);
  }
  return {"alone", "Accuracy lost without one head",
          "Every head out alone, in models with " + heads_text(kDissected) + ". First seed of each task.", bars};
}

// The share of heads that can go, with 95 % intervals over seeds.
Figure removal(const Results& results) {
  Bars bars{"task and heads", "share of heads that can go", {}, {}};
  using Count = double (*)(const Removal&);
  const std::pair<const char*, Count> orders[] = {
      {"by what each costs alone", [](const Removal& one) { return static_cast<double>(one.ranked.within_budget); }},
      {"by gradient", [](const Removal& one) { return static_cast<double>(one.by_gradient.within_budget); }},
      {"random order", [](const Removal& one) { return one.mean_random(); }}};
  for (const auto& [name, count] : orders) {
    report::BarSeries series{name, {}, {}, {}};
    for (const TaskStudy& task : results.tasks) {
      for (const Contender& contender : task.contenders) {
        if (contender.heads < kDissected) continue;
        if (bars.series.empty()) bars.categories.push_back(task.task + " " + std::to_string(contender.heads));
        const Estimate found = heads::estimate(values_of(contender.removals, [&, &count = count](const Removal& one) {
          return count(one) / static_cast<double>(contender.all_heads());
        }));
        series.values.push_back(found.mean);
        series.low.push_back(std::max(found.low, 0.0));
        series.high.push_back(std::min(found.high, 1.0));
      }
    }
    bars.series.push_back(series);
  }
  return {"removal", "Heads that can go for one point of accuracy",
          "Ranked on some sequences, judged on others. Whiskers are 95 % intervals over seeds; random: " +
              std::to_string(results.tasks[0].contenders[0].removals[0].random.size()) + " orders for every seed.",
          bars};
}

double accuracy_after(const PruneCurve& curve, std::size_t removed) {
  return removed == 0 ? curve.accuracy : curve.steps[removed - 1].accuracy;
}

// Of the models that are taken apart, whose curves go to the end.
Figure pruning(const TaskStudy& task) {
  const Contender& contender = task.dissected();
  std::vector<double> removed;
  for (std::size_t n = 0; n <= contender.removals[0].ranked.steps.size(); ++n)
    removed.push_back(static_cast<double>(n));
  std::vector<const PruneCurve*> ranked, by_gradient, random;
  for (const Removal& one : contender.removals) {
    ranked.push_back(&one.ranked);
    by_gradient.push_back(&one.by_gradient);
    for (const PruneCurve& curve : one.random) random.push_back(&curve);
  }
  const auto after = [](const PruneCurve* curve, std::size_t n) { return accuracy_after(*curve, n); };
  Lines lines{"heads removed", "accuracy", {}, false, {}, {}};
  lines.series = {over_seeds("by what each costs alone", removed, ranked, after),
                  over_seeds("by gradient", removed, by_gradient, after),
                  over_seeds("random order", removed, random, after)};
  return {"pruning", "Accuracy as heads are removed, task " + task.task,
          "Models with " + heads_text(contender.heads) + ". Ranked on some sequences, judged on others. Mean over " +
              counted(contender.removals.size(), "seed") + "; the band spans the lowest to the highest.",
          lines};
}

// Heads of a model over its first sample, side by side; of all, or of those that are kept.
Figure head_grid(const std::string& id, const std::string& title, const report::Model& model, bool kept) {
  const report::Sample& sample = model.samples[0];
  report::HeadGrid grid{sample.tokens, sample.tokens, {}, model.heads.size() > 4 ? 4 : 2};
  const std::size_t cells = sample.tokens.size() * sample.tokens.size();
  for (std::size_t n = 0; n < model.heads.size(); ++n) {
    const report::Head& head = model.heads[n];
    if (kept && !head.kept) continue;
    const auto begin = sample.weights.begin() + static_cast<std::ptrdiff_t>(n * cells);
    grid.heads.push_back({"layer " + std::to_string(head.layer) + " · head " + std::to_string(head.head),
                          head.role,
                          {begin, begin + static_cast<std::ptrdiff_t>(cells)},
                          head.role});
  }
  return {id, title, "Rows are queries, columns are keys; the stronger the shade, the more weight.", grid};
}

// If all can go, one has to be shown.
Figure survivors(const TaskStudy& task, const report::Model& model) {
  const auto stay =
      std::count_if(model.heads.begin(), model.heads.end(), [](const report::Head& head) { return head.kept; });
  Figure figure = head_grid("survivors-" + task.task,
                            stay > 0 ? "The heads that stay, task " + task.task : "All heads can go, task " + task.task,
                            model, stay > 0);
  figure.caption += " First seed: " + std::to_string(stay) + " of " + heads_text(std::ssize(model.heads)) + " stay.";
  return figure;
}

}  // namespace

std::vector<Figure> figures(const Results& results, const std::vector<report::Model>& models) {
  std::vector<Figure> all;
  for (const TaskStudy& task : results.tasks) all.push_back(accuracies(task));
  all.push_back(entropies_at_loss(results));
  all.push_back(entropies_at_step(results));
  for (const TaskStudy& task : results.tasks) all.push_back(entropies(task));
  all.push_back(formation(results.formations));
  all.push_back(evolution(results.formations.two_layers[0]));
  const TaskStudy& last = results.tasks.back();
  all.push_back(head_grid("heads-repeat", "All heads of “" + models[0].name + "”", models[0], false));
  all.push_back(damage(last));
  all.push_back(alone(results));
  all.push_back(pruning(last));
  all.push_back(removal(results));
  for (std::size_t n = 0; n < results.tasks.size(); ++n) all.push_back(survivors(results.tasks[n], models[n + 1]));
  all.push_back(head_grid("heads-" + last.task, "All heads of “" + models[results.tasks.size()].name + "”",
                          models[results.tasks.size()], false));
  return all;
}

}  // namespace polyhead::study
