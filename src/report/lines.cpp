// Curves. Names are at the ends of the lines, so that nobody has to match colours with a legend.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/axes.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

constexpr double kNameSize = 12, kNameSpace = 16, kSwatch = 14;
constexpr double kInset = 6;  // distance of the first and the last x from the plot's edges

struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

void check(const Lines& lines) {
  for (const Series& series : lines.series) {
    expect_count("values y of series '" + series.name + "'", series.y.size(), series.x.size());
    const bool band = !series.low.empty() || !series.high.empty();
    expect_count("values low of series '" + series.name + "'", series.low.size(), band ? series.x.size() : 0);
    expect_count("values high of series '" + series.name + "'", series.high.size(), band ? series.x.size() : 0);
    const bool positive = std::all_of(series.x.begin(), series.x.end(), [](double x) { return x > 1e-300; });
    if (lines.log_x && !positive) refuse("a logarithmic x axis needs every x > 0 in series '" + series.name + "'");
  }
}

struct Extents {
  Extent x, y;
};

Extents extents_of(const Lines& lines) {
  Extents extents;
  for (const Series& series : lines.series) {
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (std::isfinite(series.y[i])) extents.x.add(series.x[i]);
      extents.y.add(series.y[i]);
      if (series.low.empty()) continue;
      extents.y.add(series.low[i]);
      extents.y.add(series.high[i]);
    }
  }
  if (extents.x.empty()) refuse("no series has a finite point");
  if (!std::isfinite(extents.x.high - extents.x.low) || !std::isfinite(extents.y.high - extents.y.low)) {
    refuse("the range of the values is larger than a double can hold");
  }
  return extents;
}

struct Paper {
  Box box;
  Scale x, y;
};

bool drawable(const Series& series, std::size_t i) { return std::isfinite(series.x[i]) && std::isfinite(series.y[i]); }

std::string path_of(const Series& series, const Paper& paper) {
  std::string path;
  bool down = false;  // the pen
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const bool drawn = drawable(series, i);
    if (drawn) path += fmt::format("{}{:.1f} {:.1f}", down ? 'L' : 'M', paper.x(series.x[i]), paper.y(series.y[i]));
    down = drawn;
  }
  return path;
}

// One closed outline per stretch without gaps.
std::string band_of(const Series& series, const Paper& paper) {
  std::string path, back;
  for (std::size_t i = 0; i <= series.x.size() && !series.low.empty(); ++i) {
    const bool inside = i < series.x.size() && drawable(series, i) && std::isfinite(series.low[i] + series.high[i]);
    if (inside) {
      const double x = paper.x(series.x[i]);
      path += fmt::format("{}{:.1f} {:.1f}", back.empty() ? 'M' : 'L', x, paper.y(series.high[i]));
      back = fmt::format("L{:.1f} {:.1f}", x, paper.y(series.low[i])) + back;
    } else if (!back.empty()) {
      path += back + 'Z';
      back.clear();
    }
  }
  return path;
}

Ink ink_of(const Lines& lines, std::size_t s) {
  return lines.series[s].role.empty() ? series_ink(s) : role_ink(lines.series[s].role);
}

void draw_series(Canvas& canvas, const Lines& lines, const Paper& paper) {
  for (std::size_t s = 0; s < lines.series.size(); ++s) {
    const std::string band = band_of(lines.series[s], paper);
    if (!band.empty()) canvas.fill(ink_of(lines, s), band, 0.16);
  }
  constexpr std::size_t kFew = 24;  // with up to this many points, each gets a dot
  for (std::size_t s = 0; s < lines.series.size(); ++s) {
    const Series& series = lines.series[s];
    canvas.stroke(ink_of(lines, s), path_of(series, paper), 2);
    for (std::size_t i = 0; i < series.x.size() && series.x.size() <= kFew; ++i) {
      if (drawable(series, i)) canvas.dot(ink_of(lines, s), {paper.x(series.x[i]), paper.y(series.y[i])}, 3);
    }
  }
}

struct Name {
  std::size_t series = 0;
  double line_end = 0, y = 0;
  double last_x = 0, last_y = 0;  // as numbers
};

// Moves names apart, each as little as possible: those that would touch form a block around the middle of their ends.
void spread(std::vector<Name>& names, const Box& box) {
  struct Block {
    double sum = 0;  // of the places where each name would have the block begin
    std::size_t count = 0;
    double start() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < names.size(); ++i) {
    blocks.push_back({names[i].line_end - kNameSpace * static_cast<double>(i), 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].start() > blocks.back().start()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back() = {blocks.back().sum + last.sum, blocks.back().count + last.count};
    }
  }
  const double lowest = std::max(box.top, box.bottom - kNameSpace * static_cast<double>(names.size() - 1));
  std::size_t i = 0;
  for (const Block& block : blocks) {
    for (std::size_t n = 0; n < block.count; ++n, ++i) {
      names[i].y = std::clamp(block.start(), box.top, lowest) + kNameSpace * static_cast<double>(i);
    }
  }
}

// The names in the order of their lines' ends.
std::vector<Name> names_of(const Lines& lines, const Paper& paper) {
  std::vector<Name> names;
  for (std::size_t s = 0; s < lines.series.size(); ++s) {
    const Series& series = lines.series[s];
    for (std::size_t i = series.x.size(); i-- > 0;) {
      if (!drawable(series, i)) continue;
      names.push_back({s, paper.y(series.y[i]), paper.y(series.y[i]), series.x[i], series.y[i]});
      break;
    }
  }
  std::stable_sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.line_end < b.line_end; });
  spread(names, paper.box);
  return names;
}

void draw_names(Canvas& canvas, const Lines& lines, const Paper& paper) {
  if (lines.series.size() == 1 && lines.series[0].name.empty()) return;
  const double x = paper.box.right + 8;
  for (const Name& name : names_of(lines, paper)) {
    const double from = paper.x(name.last_x);
    if (std::abs(name.y - name.line_end) > 2 || from < paper.box.right - kInset - 2) {
      canvas.line(kAxis, {from + 5, name.line_end}, {x - 2, name.y}, 0.75);
    }
    canvas.line(ink_of(lines, name.series), {x, name.y}, {x + kSwatch, name.y}, 3);
    canvas.text(kInk, {x + kSwatch + 5, name.y + 0.35 * kNameSize}, lines.series[name.series].name,
                {.size = kNameSize});
  }
}

void draw_events(Canvas& canvas, const Lines& lines, const Paper& paper) {
  for (const Event& event : lines.events) {
    const double x = paper.x(event.x);
    if (!(x >= paper.box.left && x <= paper.box.right)) continue;
    canvas.line(kSoft, {x, paper.box.top - 18}, {x, paper.box.bottom}, 1, true);
    const double room = paper.box.right - x;
    const bool fits = width_of(event.label, kTickSize) < room;
    canvas.text(kSoft, {fits ? x + 5 : x - 5, paper.box.top - 8}, event.label,
                {.size = kTickSize, .anchor = fits ? Anchor::start : Anchor::end});
  }
}

std::string description_of(const Lines& lines, const Paper& paper) {
  std::string text = fmt::format("Line chart of {} over {}.", lines.y_label, lines.x_label);
  for (const Name& name : names_of(lines, paper)) {
    text += fmt::format(" {} ends at {}.", lines.series[name.series].name, number(name.last_y));
  }
  return text;
}

// The width that names at the ends of the lines take; if that is too much, they go into a legend above.
double names_width(const Lines& lines) {
  double widest = 0;
  for (const Series& series : lines.series) widest = std::max(widest, width_of(series.name, kNameSize));
  return widest == 0 ? 14 : widest + 8 + kSwatch + 8;
}

std::vector<std::string> names_in(const Lines& lines) {
  std::vector<std::string> names;
  for (const Series& series : lines.series) names.push_back(series.name);
  return names;
}

std::vector<double> x_ticks_for(const Lines& lines, const Extent& x, int count) {
  if (!lines.x_ticks.empty()) return lines.x_ticks;
  return lines.log_x ? log_ticks(x.low, x.high) : nice_ticks(x.low, x.high, count);
}

}  // namespace

Drawing draw(const Lines& lines, Sheet sheet) {
  check(lines);
  const Extents extents = extents_of(lines);
  const std::vector<double> y_ticks = nice_ticks(extents.y.low, extents.y.high, 5);
  const Range range = range_for(extents.y.low, extents.y.high, y_ticks);
  const bool legend = names_width(lines) > 0.36 * sheet.width;
  Drawing drawing{sheet.width, sheet.height, {}, {}};
  double top = lines.events.empty() ? 26 : 44;
  if (legend) top += draw_legend(drawing.canvas, names_in(lines), 22, sheet.width);
  const Box box = box_for(sheet, tick_labels(y_ticks), top, legend ? 14 : names_width(lines));
  const Paper paper{box, Scale(extents.x.low, extents.x.high, box.left + kInset, box.right - kInset, lines.log_x),
                    Scale(range.low, range.high, box.bottom, box.top)};

  drawing.description = description_of(lines, paper);
  draw_y_axis(drawing.canvas, box, paper.y, y_ticks, lines.y_label);
  draw_x_axis(drawing.canvas, box, paper.x, x_ticks_for(lines, extents.x, sheet.width > 400 ? 6 : 4), lines.x_label);
  draw_events(drawing.canvas, lines, paper);
  draw_series(drawing.canvas, lines, paper);
  if (!legend) draw_names(drawing.canvas, lines, paper);
  return drawing;
}

}  // namespace polyhead::report
