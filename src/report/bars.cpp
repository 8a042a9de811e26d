// Bars in groups, from zero; whiskers show how certain each one is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

void check(const Bars& bars) {
  const std::size_t categories = bars.categories.size();
  if (categories == 0 || bars.series.empty()) refuse("bars need a category and a series");
  for (const BarSeries& series : bars.series) {
    expect_count("values of series '" + series.name + "'", series.values.size(), categories);
    const bool whiskers = !series.low.empty() || !series.high.empty();
    expect_count("low ends of series '" + series.name + "'", series.low.size(), whiskers ? categories : 0);
    expect_count("high ends of series '" + series.name + "'", series.high.size(), whiskers ? categories : 0);
  }
}

std::vector<double> ticks_for(const Bars& bars) {
  double low = 0, high = 0;
  const auto add = [&](const std::vector<double>& values) {
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  };
  for (const BarSeries& series : bars.series) {
    add(series.values);
    add(series.low);
    add(series.high);
  }
  if (!std::isfinite(high - low)) refuse("the range of the values is larger than a double can hold");
  return nice_ticks(low, high, 5);
}

void draw_whisker(Canvas& canvas, double x, double low, double high) {
  canvas.line(kInk, {x, low}, {x, high}, 1.25);
  for (const double end : {low, high}) canvas.line(kInk, {x - 3, end}, {x + 3, end}, 1.25);
}

struct Layout {
  Box box;
  double group = 0, bar = 0;

  double left_of(std::size_t category, std::size_t series) const {
    const double used = 0.76 * group;
    return box.left + static_cast<double>(category) * group + (group - used) / 2 + static_cast<double>(series) * bar;
  }
};

void draw_bars(Canvas& canvas, const Bars& bars, const Layout& layout, const Scale& y) {
  const bool alone = bars.series.size() == 1;
  for (std::size_t s = 0; s < bars.series.size(); ++s) {
    const BarSeries& series = bars.series[s];
    for (std::size_t c = 0; c < series.values.size(); ++c) {
      const double value = series.values[c];
      if (!std::isfinite(value)) continue;
      const double x = layout.left_of(c, s), top = std::min(y(value), y(0)), centre = x + layout.bar / 2;
      canvas.rectangle(series_ink(s), {x + 0.5, top}, layout.bar - 1, std::abs(y(value) - y(0)), 0.88);
      const bool whisker = !series.low.empty() && std::isfinite(series.low[c] + series.high[c]);
      if (whisker) draw_whisker(canvas, centre, y(series.low[c]), y(series.high[c]));
      const std::string words = number(value);
      if (!alone || width_of(words, 11) > layout.group) continue;
      const double above = whisker ? std::min(top, y(series.high[c])) : top;
      canvas.text(kInk, {centre, above - 5}, words, {.size = 11, .anchor = Anchor::middle});
    }
  }
}

bool crowded(const Bars& bars, double group) {
  return std::any_of(bars.categories.begin(), bars.categories.end(),
                     [&](const std::string& name) { return width_of(name, kTickSize) > group - 6; });
}

void draw_categories(Canvas& canvas, const Bars& bars, const Layout& layout, bool turned, double bottom) {
  canvas.line(kAxis, {layout.box.left, layout.box.bottom}, {layout.box.right, layout.box.bottom});
  for (std::size_t c = 0; c < bars.categories.size(); ++c) {
    const double centre = layout.box.left + (static_cast<double>(c) + 0.5) * layout.group;
    const Font font{.size = kTickSize, .anchor = turned ? Anchor::end : Anchor::middle, .turn = turned ? -35.0 : 0.0};
    canvas.text(kSoft, {turned ? centre + 4 : centre, layout.box.bottom + (turned ? 14 : 18)},
                shortened(visible(bars.categories[c]), turned ? 14 : 40), font);
  }
  canvas.text(kInk, {(layout.box.left + layout.box.right) / 2, bottom - 4}, bars.x_label,
              {.size = kLabelSize, .anchor = Anchor::middle});
}

std::string description_of(const Bars& bars) {
  std::string text = fmt::format("Bar chart of {} by {}.", bars.y_label, bars.x_label);
  for (const BarSeries& series : bars.series) {
    text += series.name.empty() ? "" : fmt::format(" {}:", series.name);
    for (std::size_t c = 0; c < series.values.size(); ++c) {
      text += fmt::format(" {} {};", bars.categories[c], number(series.values[c]));
    }
  }
  return text;
}

}  // namespace

Drawing draw(const Bars& bars, Sheet sheet) {
  check(bars);
  const std::vector<double> ticks = ticks_for(bars);
  const std::vector<std::string> labels = tick_labels(ticks);
  Drawing drawing{sheet.width, sheet.height, {}, description_of(bars)};
  std::vector<std::string> names;
  for (const BarSeries& series : bars.series) names.push_back(series.name);
  const double top = names.size() == 1 ? 34 : 30 + draw_legend(drawing.canvas, names, 22, sheet.width);
  Layout layout{box_for(sheet, labels, top, 4)};
  layout.group = (layout.box.right - layout.box.left) / static_cast<double>(bars.categories.size());
  const bool turned = crowded(bars, layout.group);
  if (turned) layout.box = box_for(sheet, labels, top, 4, 92);
  layout.bar = 0.76 * layout.group / static_cast<double>(bars.series.size());
  const Scale y(ticks.front(), ticks.back(), layout.box.bottom, layout.box.top);

  draw_y_axis(drawing.canvas, layout.box, y, ticks, bars.y_label);
  draw_bars(drawing.canvas, bars, layout, y);
  draw_categories(drawing.canvas, bars, layout, turned, sheet.height);
  if (ticks.front() < 0) drawing.canvas.line(kAxis, {layout.box.left, y(0)}, {layout.box.right, y(0)});
  return drawing;
}

}  // namespace polyhead::report
