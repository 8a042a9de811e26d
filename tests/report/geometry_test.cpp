// Figures are right, not only drawn: every number is read back from the place, the length or the shade that stands for
// it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "report/canvas.h"
#include "report/shapes.h"

namespace polyhead::report {
namespace {

// What a place on the axis stands for, from the ticks' labels: the value at a y, or at an x.
class Axis {
 public:
  Axis(const Shapes& shapes, const std::vector<std::string>& labels, bool upright) {
    for (const std::string& label : labels) {
      const Shape text = shapes.text(label);
      std::string digits = label;
      if (digits.starts_with("−")) digits.replace(0, std::string("−").size(), "-");
      std::erase(digits, ',');
      places_.push_back(upright ? text.letters_y() : text.number("x"));
      values_.push_back(std::stod(digits));
    }
  }
  double operator()(double place) const {
    const double slope = (values_.back() - values_.front()) / (places_.back() - places_.front());
    return values_.front() + slope * (place - places_.front());
  }
  double pixel() const { return std::abs((*this)(1) - (*this)(0)); }
  // Between the first and the last the ticks stand where they should.
  void expect_even() const {
    for (std::size_t n = 0; n < values_.size(); ++n) EXPECT_NEAR((*this)(places_[n]), values_[n], kPixel * pixel());
  }

 private:
  std::vector<double> places_, values_;
};

// ---- lines

const Lines kLines{"step",
                   "accuracy",
                   {{"rising", {0, 50, 100}, {0, 0.25, 1}, {0, 0.15, 0.9}, {0.1, 0.45, 1}},
                    {"falling", {0, 50, 100}, {0.8, 0.6, 0.4}, {}, {}}},
                   false,
                   {},
                   {{50, "half way"}}};

TEST(Geometry, LinesGoThroughTheirPoints) {
  for (const Place place : {Place::page, Place::narrow_page}) {
    const Shapes shapes = shapes_of(kLines, place);
    const Axis y(shapes, {"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}, true), x(shapes, {"0", "100"}, false);
    y.expect_even();
    x.expect_even();
    for (std::size_t s = 0; s < 2; ++s) {
      const Series& series = kLines.series[s];
      std::vector<Shape> paths = shapes.of("path", "s" + std::to_string(s));
      std::erase_if(paths, [](const Shape& path) { return path.attribute("fill") != "none"; });
      ASSERT_EQ(paths.size(), 1u);
      const std::vector<Dot> corners = corners_of(paths[0].attribute("d"));
      const std::vector<Shape> dots = shapes.of("circle", "s" + std::to_string(s));
      ASSERT_EQ(corners.size(), 3u);
      ASSERT_EQ(dots.size(), 3u);
      for (std::size_t n = 0; n < 3; ++n) {
        EXPECT_NEAR(x(corners[n].x), series.x[n], kPixel * x.pixel());
        EXPECT_NEAR(y(corners[n].y), series.y[n], 2 * kPixel * y.pixel());
        EXPECT_NEAR(dots[n].number("cx"), corners[n].x, kPixel);
        EXPECT_NEAR(dots[n].number("cy"), corners[n].y, kPixel);
        EXPECT_EQ(corners[n].pen, n == 0 ? 'M' : 'L');
      }
    }
  }
}

TEST(Geometry, EveryTickHasItsLine) {
  const Shapes shapes = shapes_of(kLines);
  const std::vector<Shape> lines = shapes.of("line", "faint");
  const std::vector<std::string> labels{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"};
  ASSERT_EQ(lines.size(), labels.size());
  for (std::size_t n = 0; n < labels.size(); ++n) {
    EXPECT_NEAR(lines[n].number("y1"), shapes.text(labels[n]).letters_y(), 0.2) << labels[n];
    EXPECT_EQ(lines[n].number("y1"), lines[n].number("y2"));
    EXPECT_LT(shapes.text(labels[n]).number("x"), lines[n].number("x1"));
  }
}

// Events are dashed, and nothing else is.
TEST(Geometry, OnlyEventsAreDashed) {
  const Shapes shapes = shapes_of(kLines);
  int dashed = 0;
  for (const Shape& line : shapes.of("line")) {
    if (line.attribute("stroke-dasharray").empty()) continue;
    EXPECT_EQ(line.ink, "soft");
    ++dashed;
  }
  EXPECT_EQ(dashed, static_cast<int>(kLines.events.size()));
}

TEST(Geometry, WhiskersStayOnThePaper) {
  const Shapes shapes = shapes_of(Bars{"head", "y", {"a"}, {{"s", {1}, {-3}, {2}}}});
  for (const Shape& line : shapes.of("line", "ink")) {
    for (const char* end : {"y1", "y2"}) {
      EXPECT_LE(line.number(end), shapes.text("−3").letters_y() + 1);
      EXPECT_GE(line.number(end), shapes.text("2").letters_y() - 1);
    }
  }
}

// Cells are square; where there are more queries than keys they are flat, so that a panel is no taller than it is wide.
TEST(Geometry, PanelsAreNoTallerThanWide) {
  for (const auto& [queries, keys] : {std::pair{2, 6}, {6, 2}, {4, 4}}) {
    HeadGrid grid{{}, {}, {}, 1};
    for (int n = 0; n < queries; ++n) grid.queries.push_back("q");
    for (int n = 0; n < keys; ++n) grid.keys.push_back("k");
    grid.heads.push_back({"head", "", std::vector<float>(static_cast<std::size_t>(queries * keys), 1.0F)});
    double left = 1e9, right = 0, top = 1e9, bottom = 0;
    for (const Shape& cell : shapes_of(grid).of("rect")) {
      if (cell.has("class")) continue;  // the key, above
      left = std::min(left, cell.left());
      right = std::max(right, cell.right());
      top = std::min(top, cell.top());
      bottom = std::max(bottom, cell.bottom());
    }
    const double expected = queries < keys ? static_cast<double>(queries) / keys : 1;
    EXPECT_NEAR((bottom - top) / (right - left), expected, 0.01) << queries << " by " << keys;
  }
}

// The axis has room for the band, not only for the line.
TEST(Geometry, ABandStaysOnThePaper) {
  const Shapes shapes = shapes_of(Lines{"step", "y", {{"a", {0, 1}, {1, 1}, {-4, -4}, {6, 6}}}, false, {}, {}});
  std::vector<Shape> bands = shapes.of("path");
  std::erase_if(bands, [](const Shape& path) { return path.attribute("fill") == "none"; });
  ASSERT_EQ(bands.size(), 1u);
  for (const Dot& corner : corners_of(bands[0].attribute("d"))) {
    EXPECT_GE(corner.y, shapes.text("6").letters_y() - 1);
    EXPECT_LE(corner.y, shapes.text("−4").letters_y() + 1);
  }
}

TEST(Geometry, ABandGoesFromLowToHigh) {
  const Shapes shapes = shapes_of(kLines);
  const Axis y(shapes, {"0.0", "1.0"}, true), x(shapes, {"0", "100"}, false);
  std::vector<Shape> bands = shapes.of("path");
  std::erase_if(bands, [](const Shape& path) { return path.attribute("fill") == "none"; });
  ASSERT_EQ(bands.size(), 1u) << "the second series has none";
  EXPECT_EQ(bands[0].ink, "s0");
  EXPECT_LT(bands[0].shade(), 0.5) << "what lies behind shows";
  const std::vector<Dot> corners = corners_of(bands[0].attribute("d"));
  ASSERT_EQ(corners.size(), 6u);
  const Series& series = kLines.series[0];
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_NEAR(y(corners[n].y), series.high[n], 2 * kPixel * y.pixel());
    EXPECT_NEAR(y(corners[5 - n].y), series.low[n], 2 * kPixel * y.pixel());
    EXPECT_NEAR(x(corners[n].x), series.x[n], kPixel * x.pixel());
    EXPECT_NEAR(x(corners[5 - n].x), series.x[n], kPixel * x.pixel());
  }
}

TEST(Geometry, APointWithoutAValueTakesNoRoom) {
  Lines lines = kLines;
  lines.series[1].x.push_back(1000);
  lines.series[1].y.push_back(kNan);
  const std::vector<Shape> with = shapes_of(lines).of("circle"), without = shapes_of(kLines).of("circle");
  ASSERT_EQ(with.size(), without.size());
  for (std::size_t n = 0; n < with.size(); ++n) EXPECT_EQ(with[n].number("cx"), without[n].number("cx"));
}

// A name stands beside a stroke in the colour of its line, as high as the line ends.
TEST(Geometry, NamesStandAtTheEndsOfTheirLines) {
  const Shapes shapes = shapes_of(kLines);
  for (std::size_t s = 0; s < 2; ++s) {
    const Shape name = shapes.text(kLines.series[s].name);
    const std::vector<Shape> strokes = shapes.of("line", "s" + std::to_string(s));
    ASSERT_EQ(strokes.size(), 1u);
    EXPECT_NEAR(strokes[0].number("y1"), name.letters_y(), 0.5);
    EXPECT_EQ(strokes[0].number("y1"), strokes[0].number("y2"));
    EXPECT_LT(strokes[0].number("x2"), name.number("x"));
    const std::vector<Shape> dots = shapes.of("circle", "s" + std::to_string(s));
    EXPECT_NEAR(dots.back().number("cy"), strokes[0].number("y1"), 1) << "nothing pushes it away";
    EXPECT_GT(strokes[0].number("x1"), dots.back().number("cx"));
  }
}

// Where names are too long for that they stand above, each behind a swatch of its colour, in the order of the series.
TEST(Geometry, ALegendHasTheColoursOfItsLines) {
  Lines lines = kLines;
  lines.series[0].name = "a name that is much too long to stand at the end of any line";
  const Shapes shapes = shapes_of(lines);
  for (std::size_t s = 0; s < 2; ++s) {
    const Shape name = shapes.text(lines.series[s].name);
    const std::vector<Shape> swatches = shapes.of("rect", "s" + std::to_string(s));
    ASSERT_EQ(swatches.size(), 1u);
    EXPECT_NEAR(swatches[0].middle_y(), name.letters_y(), 2);
    EXPECT_LT(swatches[0].right(), name.number("x"));
    EXPECT_GT(swatches[0].right() + 12, name.number("x")) << "the nearest one";
  }
}

// Where lines end together their names stand one below the other, around that place or, at the edge, up from it.
TEST(Geometry, NamesThatWouldTouchMoveApart) {
  for (const double end : {0.5, 0.0}) {
    Lines lines{"step", "accuracy", {{"top", {0, 1}, {0, 1}, {}, {}}}, false, {}, {}};
    for (const char* name : {"a", "b", "c"}) lines.series.push_back({name, {0, 1}, {1, end}, {}, {}});
    const Shapes shapes = shapes_of(lines);
    const double line_end = shapes.of("circle", "s1").back().number("cy");
    const double a = shapes.text("a").letters_y(), b = shapes.text("b").letters_y(), c = shapes.text("c").letters_y();
    EXPECT_NEAR(b - a, 16, kPixel);
    EXPECT_NEAR(c - b, 16, kPixel);
    EXPECT_NEAR(end > 0 ? b : c, line_end, kPixel) << end;
  }
}

// Entries that do not fit go to the next line of the legend, and the plot begins below them.
TEST(Geometry, ALegendStaysWithinItsWidth) {
  Lines lines = kLines;
  lines.series[0].name = std::string(60, 'n');
  lines.series[1].name = std::string(50, 'm');
  const Shapes shapes = shapes_of(lines);
  const Shape first = shapes.text(lines.series[0].name), second = shapes.text(lines.series[1].name);
  EXPECT_EQ(second.number("x"), first.number("x")) << "a line of its own";
  EXPECT_GT(second.letters_y(), first.letters_y() + 12);
  EXPECT_GT(shapes.text("1.0").letters_y(), second.number("y"));
  lines.series[0].name = std::string(30, 'n');
  lines.series[1].name = std::string(5, 'm');
  const Shapes side_by_side = shapes_of(lines, Place::narrow_page);
  EXPECT_EQ(side_by_side.text("mmmmm").number("y"), side_by_side.text(lines.series[0].name).number("y"));
}

TEST(Geometry, EventsStandAtTheirPlace) {
  const Shapes shapes = shapes_of(kLines);
  const Axis x(shapes, {"0", "100"}, false);
  std::vector<Shape> upright = shapes.of("line", "soft");
  ASSERT_EQ(upright.size(), 1u);
  EXPECT_NEAR(x(upright[0].number("x1")), 50, kPixel * x.pixel());
  EXPECT_EQ(upright[0].number("x1"), upright[0].number("x2"));
  EXPECT_NEAR(shapes.text("half way").number("x"), upright[0].number("x1"), 6);
}

// Where there is no room on the right the label stands on the left.
TEST(Geometry, LabelsOfEventsStayInThePlot) {
  Lines lines = kLines;
  lines.events = {{99, "a label that is long enough to leave the plot"}};
  const Shapes shapes = shapes_of(lines);
  const Shape label = shapes.text(lines.events[0].label);
  EXPECT_EQ(label.attribute("text-anchor"), "end");
  EXPECT_LT(label.number("x"), shapes.of("line", "soft")[0].number("x1"));
}

TEST(Geometry, ALogarithmicAxisIsOne) {
  const Lines lines{"length", "time", {{"", {1, 10, 100, 1000}, {1, 2, 3, 4}, {}, {}}}, true, {1, 10, 100, 1000}, {}};
  const Shapes shapes = shapes_of(lines);
  const std::vector<Shape> dots = shapes.of("circle");
  ASSERT_EQ(dots.size(), 4u);
  const char* const labels[] = {"1", "10", "100", "1,000"};
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_NEAR(dots[n].number("cx"),
                dots[0].number("cx") + static_cast<double>(n) * (dots[3].number("cx") - dots[0].number("cx")) / 3,
                kPixel);
    if (n > 0) {
      EXPECT_NEAR(shapes.text(labels[n]).number("x"), dots[n].number("cx"), kPixel);
    }
  }
}

// ---- bars

const Bars kBars{"head",
                 "loss",
                 {"0.0", "0.1", "0.2"},
                 {{"zero", {4, -1, kNan}, {3.5, -1.5, 0}, {5, -0.25, 1}}, {"mean", {2, 0.5, 1}, {}, {}}}};

TEST(Geometry, BarsAreAsHighAsTheirValues) {
  const Shapes shapes = shapes_of(kBars);
  const Axis y(shapes, {"−2", "0", "2", "4"}, true);
  y.expect_even();
  const double zero = shapes.text("0").letters_y();
  for (std::size_t s = 0; s < 2; ++s) {
    std::vector<Shape> bars = shapes.of("rect", "s" + std::to_string(s));
    ASSERT_FALSE(bars.empty());
    bars.erase(bars.begin());  // the legend's swatch comes first
    std::size_t n = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      const double value = kBars.series[s].values[c];
      if (std::isnan(value)) continue;
      ASSERT_LT(n, bars.size());
      const Shape& bar = bars[n++];
      const double end = value > 0 ? bar.top() : bar.bottom(), foot = value > 0 ? bar.bottom() : bar.top();
      EXPECT_NEAR(y(end), value, 3 * kPixel * y.pixel());
      EXPECT_NEAR(foot, zero, 0.5);
    }
    EXPECT_EQ(n, bars.size()) << "none for what is no number";
  }
}

// The two bars of a category stand side by side around its label, the first on the left.
TEST(Geometry, BarsStandOverTheirLabels) {
  const Shapes shapes = shapes_of(kBars);
  std::vector<Shape> first = shapes.of("rect", "s0"), second = shapes.of("rect", "s1");
  for (std::size_t c = 0; c < 2; ++c) {
    const double label = shapes.text(kBars.categories[c]).number("x");
    EXPECT_NEAR((first[c + 1].left() + second[c + 1].right()) / 2, label, 1) << kBars.categories[c];
    EXPECT_LE(first[c + 1].right(), second[c + 1].left());
  }
  EXPECT_NEAR(second[3].middle_x() - shapes.text("0.2").number("x"),
              second[1].middle_x() - shapes.text("0.0").number("x"), 1);
}

TEST(Geometry, WhiskersEndAtTheirValues) {
  const Shapes shapes = shapes_of(kBars);
  const Axis y(shapes, {"−2", "0", "2", "4"}, true);
  std::vector<Shape> upright = shapes.of("line", "ink");
  std::erase_if(upright, [](const Shape& line) { return line.number("x1") != line.number("x2"); });
  ASSERT_EQ(upright.size(), 2u) << "of the first series, where there is a number";
  const std::vector<Shape> bars = shapes.of("rect", "s0");
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(y(upright[c].number("y1")), kBars.series[0].low[c], 3 * kPixel * y.pixel());
    EXPECT_NEAR(y(upright[c].number("y2")), kBars.series[0].high[c], 3 * kPixel * y.pixel());
    EXPECT_NEAR(upright[c].number("x1"), bars[c + 1].middle_x(), 0.5) << "in the middle of its bar";
  }
}

// The value of a lone series is written above its bar, and above the whisker where that reaches higher.
TEST(Geometry, ValuesStandAboveWhateverIsHighest) {
  const Shapes shapes = shapes_of(Bars{"head", "loss", {"a", "b"}, {{"zero", {1.25, -2.25}, {0.5, -3}, {4, -1}}}});
  std::vector<Shape> upright = shapes.of("line", "ink");
  std::erase_if(upright, [](const Shape& line) { return line.number("x1") != line.number("x2"); });
  const std::vector<Shape> bars = shapes.of("rect", "s0");
  ASSERT_EQ(upright.size(), 2u);
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(shapes.text("1.25").number("y"), upright[0].number("y2") - 5, kPixel);
  EXPECT_NEAR(shapes.text("−2.25").number("y"), bars[1].top() - 5, kPixel);
  EXPECT_NEAR(shapes.text("1.25").number("x"), bars[0].middle_x(), kPixel);
}

TEST(Geometry, WhiskersHaveACapAtEitherEnd) {
  const Shapes shapes = shapes_of(kBars);
  std::vector<Shape> upright = shapes.of("line", "ink"), caps = upright;
  std::erase_if(upright, [](const Shape& line) { return line.number("x1") != line.number("x2"); });
  std::erase_if(caps, [](const Shape& line) { return line.number("y1") != line.number("y2"); });
  ASSERT_EQ(caps.size(), 2 * upright.size());
  for (std::size_t n = 0; n < upright.size(); ++n) {
    EXPECT_EQ(caps[2 * n].number("y1"), upright[n].number("y1"));
    EXPECT_EQ(caps[2 * n + 1].number("y1"), upright[n].number("y2"));
    EXPECT_NEAR((caps[2 * n].number("x1") + caps[2 * n].number("x2")) / 2, upright[n].number("x1"), kPixel);
  }
}

TEST(Geometry, ASingleSeriesWritesItsValuesAboveItsBars) {
  const Bars bars{"head", "loss", {"a", "b"}, {{"", {3, 7}, {}, {}}}};
  const Shapes shapes = shapes_of(bars);
  const std::vector<Shape> drawn = shapes.of("rect", "s0");
  ASSERT_EQ(drawn.size(), 2u);
  const auto number = [&](const std::string& words) {  // above, not on the axis
    std::vector<Shape> found = shapes.of("text", "ink");
    std::erase_if(found, [&](const Shape& text) { return text.text != words; });
    return found.at(0);
  };
  EXPECT_NEAR(number("3").number("x"), drawn[0].middle_x(), 1);
  EXPECT_NEAR(number("7").number("x"), drawn[1].middle_x(), 1);
  EXPECT_LT(number("7").number("y"), drawn[1].top());
  EXPECT_GT(number("7").number("y"), drawn[1].top() - 12);
}

// ---- grids

const Grid kGrid{"head", "layer", "score", {"r0", "r1"}, {"c0", "c1", "c2"}, {0.1, 0.4, 0.8, 0.2, kNan, 0.6}, true};

std::vector<Shape> cells_of(const Shapes& shapes, const std::string& ink) {
  std::vector<Shape> cells = shapes.of("rect", ink);
  std::erase_if(cells, [](const Shape& cell) { return cell.has("class"); });  // those of the ramp name their ink
  return cells;
}

TEST(Geometry, CellsStandInTheirRowAndColumn) {
  const Shapes shapes = shapes_of(kGrid);
  const std::vector<Shape> cells = cells_of(shapes, "heat");
  ASSERT_EQ(cells.size(), 5u);
  std::size_t n = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const double x = shapes.text(kGrid.columns[i % 3]).number("x"), y = shapes.text(kGrid.rows[i / 3]).letters_y();
    if (std::isnan(kGrid.values[i])) {
      const Shape dash = shapes.text("–");
      EXPECT_NEAR(dash.number("x"), x, 1);
      EXPECT_NEAR(dash.letters_y(), y, 2);
      continue;
    }
    EXPECT_NEAR(cells[n].middle_x(), x, 1);
    EXPECT_NEAR(cells[n].middle_y(), y, 2);
    EXPECT_NEAR(cells[n].shade(), kGrid.values[i] / 0.8, 0.006) << "the largest is the darkest";
    ++n;
  }
}

TEST(Geometry, NumbersStandInTheirCells) {
  const Shapes shapes = shapes_of(kGrid);
  const std::vector<Shape> cells = cells_of(shapes, "heat");
  const char* const numbers[] = {"0.10", "0.40", "0.80", "0.20", "0.60"};
  for (std::size_t n = 0; n < 5; ++n) {
    std::vector<Shape> found = shapes.of("text");
    std::erase_if(found, [&](const Shape& text) { return text.text != numbers[n]; });
    ASSERT_GE(found.size(), 1u) << numbers[n];
    const auto inside = std::find_if(found.begin(), found.end(), [&](const Shape& text) {
      return std::abs(text.number("x") - cells[n].middle_x()) < 1 &&
             std::abs(text.letters_y() - cells[n].middle_y()) < 2;
    });
    ASSERT_NE(inside, found.end()) << numbers[n];
    EXPECT_EQ(inside->ink, cells[n].shade() > 0.655 ? "on-high" : "on-low") << "legible";
  }
}

TEST(Geometry, WhatIsBelowZeroHasItsOwnHue) {
  const Shapes shapes = shapes_of(Grid{"x", "y", "v", {"r"}, {"a", "b", "c"}, {-2, 1, 0.5}, false});
  const std::vector<Shape> cold = cells_of(shapes, "cold"), warm = cells_of(shapes, "heat");
  ASSERT_EQ(cold.size(), 1u);
  ASSERT_EQ(warm.size(), 2u);
  EXPECT_NEAR(cold[0].middle_x(), shapes.text("a").number("x"), 1);
  EXPECT_NEAR(cold[0].shade(), 1, 0.01);
  EXPECT_NEAR(warm[0].shade(), 0.5, 0.01) << "both hues have one scale";
  EXPECT_NEAR(warm[1].shade(), 0.25, 0.01);
  // The ramp goes from the one through nothing to the other.
  std::vector<Shape> ramp = shapes.of("rect");
  std::erase_if(ramp, [](const Shape& cell) { return !cell.has("class"); });
  ASSERT_EQ(ramp.size(), 16u);
  EXPECT_EQ(ramp.front().ink, "cold");
  EXPECT_EQ(ramp.back().ink, "heat");
  EXPECT_GT(ramp.front().shade(), 0.9);
  EXPECT_LT(ramp[8].shade(), 0.1);
  EXPECT_GT(ramp.back().shade(), 0.9);
  EXPECT_LT(shapes.text("−2").number("x"), ramp.front().left() + 1);
  EXPECT_GT(shapes.text("2").number("x"), ramp.back().right());
}

// ---- heads side by side

HeadGrid four_heads() {
  HeadGrid grid{{"q0", "q1"}, {"k0", "k1", "k2"}, {}, 2};
  for (int h = 0; h < 3; ++h) {
    HeadPanel panel{"head " + std::to_string(h), "role " + std::to_string(h), std::vector<float>(6, 0.0F)};
    panel.weights[static_cast<std::size_t>(h)] = 1;          // query 0 looks at key h
    panel.weights[3 + static_cast<std::size_t>(h)] = 0.25F;  // query 1 a little
    grid.heads.push_back(panel);
  }
  return grid;
}

TEST(Geometry, PanelsHaveTheirWeightsWhereQueriesAndKeysMeet) {
  const Shapes shapes = shapes_of(four_heads());
  const std::vector<Shape> cells = cells_of(shapes, "heat");
  ASSERT_EQ(cells.size(), 6u);
  for (std::size_t h = 0; h < 3; ++h) {
    const Shape title = shapes.text("head " + std::to_string(h)), note = shapes.text("role " + std::to_string(h));
    const Shape &dark = cells[2 * h], &light = cells[2 * h + 1];
    EXPECT_NEAR(dark.shade(), 1, 0.01);
    EXPECT_NEAR(light.shade(), 0.5, 0.01) << "the square root of a quarter";
    EXPECT_NEAR(light.top(), dark.bottom(), 0.1) << "query 1 below query 0";
    EXPECT_NEAR(dark.left() - title.number("x"), static_cast<double>(h) * dark.number("width"), 0.5) << "key " << h;
    EXPECT_NEAR(light.left(), dark.left(), 0.1);
    EXPECT_LT(title.number("y"), dark.top());
    EXPECT_LT(title.number("y"), note.number("y"));
    EXPECT_EQ(note.number("x"), title.number("x"));
  }
  EXPECT_EQ(shapes.text("head 0").number("y"), shapes.text("head 1").number("y")) << "two columns";
  EXPECT_EQ(shapes.text("head 0").number("x"), shapes.text("head 2").number("x"));
  EXPECT_LT(shapes.text("head 0").number("y"), shapes.text("head 2").number("y"));
}

TEST(Geometry, TokensStandAtTheirCells) {
  HeadGrid grid = four_heads();
  grid.heads.resize(1);
  grid.heads[0].weights = {1, 0, 0.5F, 0.3F, 0.9F, 0.1F};
  const Shapes shapes = shapes_of(grid);
  const std::vector<Shape> cells = cells_of(shapes, "heat");  // (0,0) (0,2) (1,0) (1,1) (1,2)
  ASSERT_EQ(cells.size(), 5u);
  EXPECT_NEAR(shapes.text("q0").letters_y(), cells[0].middle_y(), 1);
  EXPECT_NEAR(shapes.text("q1").letters_y(), cells[2].middle_y(), 1);
  EXPECT_LT(shapes.text("q0").number("x"), cells[0].left());
  for (const auto& [key, cell] : {std::pair<const char*, std::size_t>{"k0", 2}, {"k1", 3}, {"k2", 4}}) {
    const Shape text = shapes.text(key);  // turned upright: its middle is left of where it is written
    EXPECT_NEAR(text.number("x") - 0.35 * text.number("font-size"), cells[cell].middle_x(), 1) << key;
    EXPECT_GT(text.number("y"), cells[cell].bottom());
    EXPECT_EQ(text.attribute("transform").substr(0, 11), "rotate(-90 ");
  }
}

// What stands for a letter that hides is longer than the letter.
TEST(Geometry, TitlesOfHiddenLettersFitTheirPanels) {
  HeadGrid grid = four_heads();
  for (int n = 0; n < 20; ++n) grid.heads[0].title += "\u202E";
  const Shapes shapes = shapes_of(grid);
  const std::vector<Shape> texts = shapes.of("text");
  const auto title =
      std::find_if(texts.begin(), texts.end(), [](const Shape& shape) { return shape.text.starts_with("head 0‹"); });
  ASSERT_NE(title, texts.end());
  EXPECT_TRUE(title->text.ends_with("…")) << title->text;
}

// Queries once for every row of panels, keys once beneath every column of them: three panels in two columns.
TEST(Geometry, TokensStandOncePerRowAndColumnOfPanels) {
  const Shapes shapes = shapes_of(four_heads());
  const auto named = [&](const std::string& words) {
    std::vector<Shape> found = shapes.of("text", "soft");
    std::erase_if(found, [&](const Shape& text) { return text.text != words; });
    return found;
  };
  const std::vector<Shape> queries = named("q0"), keys = named("k0"), cells = cells_of(shapes, "heat");
  ASSERT_EQ(queries.size(), 2u);
  EXPECT_NEAR(queries[0].letters_y(), cells[0].middle_y(), 1) << "the first row: heads 0 and 1";
  EXPECT_NEAR(queries[1].letters_y(), cells[4].middle_y(), 1) << "the second: head 2";
  ASSERT_EQ(keys.size(), 2u);
  const double first = shapes.text("head 0").number("x"), second = shapes.text("head 1").number("x");
  std::vector<double> places{keys[0].number("x"), keys[1].number("x")};
  std::sort(places.begin(), places.end());
  EXPECT_TRUE(places[0] > first && places[0] < second);
  EXPECT_GT(places[1], second);
}

// ---- the inks

TEST(Geometry, EverySeriesHasAColourOfItsOwn) {
  std::set<std::string_view> names, colours;
  for (std::size_t n = 0; n < 7; ++n) {
    names.insert(series_ink(n).name);
    colours.insert(series_ink(n).colour);
  }
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(colours.size(), 7u);
  EXPECT_EQ(series_ink(7).name, series_ink(0).name);
}

// The description is what those get who cannot see it.
TEST(Geometry, DescriptionsSayTheNumbers) {
  const auto described = [](const auto& plot) {
    const std::string text = svg({"id", "title", "", plot}, Place::page);
    return text.substr(text.find("<desc>") + 6, text.find("</desc>") - text.find("<desc>") - 6);
  };
  EXPECT_NE(described(kLines).find("rising ends at 1."), std::string::npos);
  EXPECT_NE(described(kLines).find("falling ends at 0.4."), std::string::npos);
  EXPECT_NE(described(kBars).find("zero: 0.0 4; 0.1 −1;"), std::string::npos) << described(kBars);
  EXPECT_NE(described(kGrid).find("The largest value, 0.8, is at r0, c2."), std::string::npos);
  const Grid below{"x", "y", "v", {"r0", "r1"}, {"c0", "c1"}, {1, 2, 9, 4}, true};
  EXPECT_NE(described(below).find("The largest value, 9, is at r1, c0."), std::string::npos);
}

// Text that would be markup, or hide, in every place that a figure shows text.
TEST(Geometry, HostileTextIsTextEverywhere) {
  const std::string bad = "<b>\"'&\u202Ex";
  const std::vector<std::variant<Lines, Bars, Grid, HeadGrid>> plots{
      Lines{bad + "0",
            bad + "1",
            {{bad + "2", {0, 1}, {0, 1}, {}, {}}, {bad + "3", {0, 1}, {1, 0}, {}, {}}},
            false,
            {},
            {{0.5, bad + "4"}}},
      Bars{bad + "0", bad + "1", {bad + "2"}, {{bad + "3", {1}, {}, {}}, {bad + "4", {1}, {}, {}}}},
      Grid{bad + "0", bad + "1", bad + "2", {bad + "3"}, {bad + "4"}, {1}, true},
      HeadGrid{{bad + "0"}, {bad + "1"}, {{bad + "2", bad + "3", {1}}}, 1}};
  for (const auto& plot : plots) {
    for (const Place place : {Place::file, Place::page, Place::narrow_page}) {
      const std::string text = svg({"id", bad + "title", bad + "caption", plot}, place);
      EXPECT_EQ(text.find("<b>"), text.npos);
      EXPECT_EQ(text.find("\u202E"), text.npos);
      std::size_t shown = 0;
      for (const Shape& shape : Shapes(text).of("text")) shown += shape.text.starts_with("<b>\"'&‹U+20");
      EXPECT_GE(shown, 4u) << plot.index();
    }
  }
}

}  // namespace
}  // namespace polyhead::report
