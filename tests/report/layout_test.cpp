// Where a figure has too little room, or a lot to say: labels keep apart, titles wrap, and nothing leaves the paper.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "report/canvas.h"
#include "report/describe.h"
#include "report/sample.h"
#include "report/shapes.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

std::vector<Shape> texts_of(const Shapes& shapes, const std::string& ink, double size) {
  std::vector<Shape> found = shapes.of("text", ink);
  std::erase_if(found, [&](const Shape& text) { return text.number("font-size") != size; });
  return found;
}

std::vector<std::string> words_of(const std::vector<Shape>& texts) {
  std::vector<std::string> words;
  for (const Shape& text : texts) words.push_back(text.text);
  return words;
}

bool has_text(const Shapes& shapes, const std::string& words) {
  const std::vector<Shape> all = shapes.of("text");
  return std::any_of(all.begin(), all.end(), [&](const Shape& text) { return text.text == words; });
}

// ---- axes

// The labels of x: those in the middle of their place.
std::vector<Shape> x_labels(const Shapes& shapes) {
  std::vector<Shape> labels = shapes.of("text", "soft");
  std::erase_if(labels, [](const Shape& text) { return text.attribute("text-anchor") != "middle"; });
  return labels;
}

TEST(Axes, EveryLabelOfXStandsBelowItsTickAndApartFromTheOthers) {
  Lines lines{"step", "y", {{"", {0, 1000}, {0, 1}, {}, {}}}, false, {}, {}};
  for (int n = 0; n <= 20; ++n) lines.x_ticks.push_back(50 * n);
  const Shapes shapes = shapes_of(lines, Place::narrow_page);
  std::vector<Shape> ticks = shapes.of("line", "axis");
  ASSERT_EQ(ticks.size(), 22u) << "the axis and a tick for every place, labelled or not";
  const Shape axis = ticks[0];
  const std::vector<Shape> labels = x_labels(shapes);
  EXPECT_GT(labels.size(), 4u);
  EXPECT_LT(labels.size(), 21u);
  double free_from = 0;
  for (const Shape& label : labels) {
    const double half = width_of(label.text, 12) / 2;
    EXPECT_GE(label.number("x") - half, free_from - kPixel) << label.text;
    free_from = label.number("x") + half + 6;
    const auto tick = std::find_if(ticks.begin() + 1, ticks.end(), [&](const Shape& line) {
      return std::abs(line.number("x1") - label.number("x")) < kPixel;
    });
    ASSERT_NE(tick, ticks.end()) << label.text;
    EXPECT_EQ(tick->number("y1"), axis.number("y1"));
    EXPECT_EQ(tick->number("y2"), axis.number("y1") + 4) << "downwards, to its label";
    EXPECT_EQ(label.number("y"), axis.number("y1") + 18);
  }
  EXPECT_EQ(words_of(x_labels(shapes_of(Lines{"", "", {{"", {0, 100}, {0, 1}, {}, {}}}, false, {}, {}}))),
            (std::vector<std::string>{"0", "20", "40", "60", "80", "100"}));
  EXPECT_EQ(
      words_of(x_labels(shapes_of(Lines{"", "", {{"", {0, 100}, {0, 1}, {}, {}}}, false, {}, {}}, Place::narrow_page))),
      (std::vector<std::string>{"0", "25", "50", "75", "100"}))
      << "fewer where there is less room";
}

// The axis may end before its last tick: what lies beyond is not drawn.
TEST(Axes, TicksBeyondTheAxisAreLeftOut) {
  const Shapes shapes = shapes_of(Lines{"x", "y", {{"", {0, 1}, {-10, 110}, {}, {}}}, false, {}, {}});
  EXPECT_TRUE(has_text(shapes, "0"));
  EXPECT_TRUE(has_text(shapes, "100"));
  EXPECT_FALSE(has_text(shapes, "−25") || has_text(shapes, "−20"));
  EXPECT_FALSE(has_text(shapes, "125") || has_text(shapes, "120"));
  EXPECT_EQ(shapes.of("line", "faint").size(), texts_of(shapes, "soft", 12).size() - x_labels(shapes).size());
}

// ---- lines

// From the end of a line that ends early, or whose name had to move, a thin line leads to the name.
TEST(Leaders, GoFromTheEndOfALineToItsName) {
  Lines lines{"x", "y", {{"short", {0, 5}, {0, 1}, {}, {}}, {"long", {0, 10}, {1, 0}, {}, {}}}, false, {}, {}};
  const auto leaders = [](const Shapes& shapes) {
    std::vector<Shape> found = shapes.of("line", "axis");
    std::erase_if(found, [](const Shape& line) { return line.number("stroke-width") != 0.75; });
    return found;
  };
  const Shapes early = shapes_of(lines);
  ASSERT_EQ(leaders(early).size(), 1u) << "of the one that ends early";
  const Shape leader = leaders(early)[0], end = early.of("circle", "s0").back(), stroke = early.of("line", "s0")[0];
  EXPECT_NEAR(leader.number("x1"), end.number("cx") + 5, kPixel);
  EXPECT_NEAR(leader.number("y1"), end.number("cy"), kPixel);
  EXPECT_NEAR(leader.number("x2"), stroke.number("x1") - 2, kPixel);
  EXPECT_NEAR(leader.number("y2"), stroke.number("y1"), kPixel);
  // Two that end together: both names move, each keeps the end of its own line.
  lines.series = {{"a", {0, 10}, {0, 0.5}, {}, {}}, {"b", {0, 10}, {1, 0.5}, {}, {}}};
  const Shapes together = shapes_of(lines);
  ASSERT_EQ(leaders(together).size(), 2u);
  for (std::size_t s = 0; s < 2; ++s) {
    const std::string ink = "s" + std::to_string(s);
    EXPECT_NEAR(leaders(together)[s].number("y1"), together.of("circle", ink).back().number("cy"), kPixel);
    EXPECT_NEAR(leaders(together)[s].number("y2"), together.of("line", ink)[0].number("y1"), kPixel);
    EXPECT_NE(leaders(together)[s].number("y1"), leaders(together)[s].number("y2"));
  }
}

TEST(Events, StandWithinThePlotAndBelowWhatItMeasures) {
  const Lines lines{"x", "y", {{"", {0, 10}, {0, 1}, {}, {}}}, false, {}, {{-1, "before"}, {5, "now"}, {11, "after"}}};
  const Shapes shapes = shapes_of(lines);
  EXPECT_EQ(shapes.of("line", "soft").size(), 1u);
  EXPECT_FALSE(has_text(shapes, "before") || has_text(shapes, "after"));
  EXPECT_GE(shapes.text("now").number("y") - shapes.text("y").number("y"), 12);
  EXPECT_LT(shapes.text("now").number("y"), shapes.text("1.0").letters_y()) << "above the plot";
}

TEST(Bands, HaveTheColourOfTheirLine) {
  const Series plain{"a", {0, 1}, {0, 1}, {}, {}}, banded{"b", {0, 1}, {0.4, 0.6}, {0.3, 0.5}, {0.5, 0.7}};
  const Shapes shapes = shapes_of(Lines{"x", "y", {plain, banded, plain, banded}, false, {}, {}});
  std::vector<std::string> inks;
  for (const Shape& path : shapes.of("path")) {
    if (path.attribute("fill") != "none") inks.push_back(path.ink);
  }
  EXPECT_EQ(inks, (std::vector<std::string>{"s1", "s3"}));
}

// Many points are a line alone.
TEST(Dots, AreForFewPoints) {
  for (const int points : {24, 25}) {
    Series series;
    for (int n = 0; n < points; ++n) {
      series.x.push_back(n);
      series.y.push_back(n);
    }
    EXPECT_EQ(shapes_of(Lines{"x", "y", {series}, false, {}, {}}).of("circle").size(), points == 24 ? 24u : 0u);
  }
}

// ---- bars

TEST(BarLabels, ThatDoNotFitAreTurnedAndStayOnThePaper) {
  Bars bars{"head", "loss", {}, {{"", {}, {}, {}}}};
  for (int n = 0; n < 12; ++n) {
    bars.categories.push_back("nnnnnnnnnnnn" + std::to_string(n));
    bars.series[0].values.push_back(n);
  }
  const Shapes shapes = shapes_of(bars);
  const double label = shapes.text("head").number("y");
  double before = 0;
  for (const std::string& category : bars.categories) {
    const Shape text = shapes.text(shortened(category, 14));
    EXPECT_EQ(text.attribute("transform").substr(0, 11), "rotate(-35 ") << "rising to the right";
    EXPECT_EQ(text.attribute("text-anchor"), "end");
    EXPECT_GT(text.number("x"), before);
    before = text.number("x");
    const double lowest = text.number("y") + width_of(text.text, 12) * std::sin(35 * std::numbers::pi / 180);
    EXPECT_LT(lowest, label) << "above what they measure";
  }
  EXPECT_LE(label, kWide.height);
  bars.categories.assign({"a", "b"});
  bars.series[0].values.assign({1, 2});
  EXPECT_FALSE(shapes_of(bars).text("a").has("transform"));
}

TEST(BarLabels, ZeroHasALineWhereBarsGoBelowIt) {
  const auto across = [](const std::vector<double>& values) {
    std::vector<Shape> lines = shapes_of(Bars{"head", "loss", {"a", "b"}, {{"", values, {}, {}}}}).of("line", "axis");
    std::vector<double> places;
    for (const Shape& line : lines) places.push_back(line.number("y1"));
    return places;
  };
  EXPECT_EQ(across({1, 2}).size(), 1u) << "the axis is zero";
  const Shapes shapes = shapes_of(Bars{"head", "loss", {"a", "b"}, {{"", {-1, 2}, {}, {}}}});
  ASSERT_EQ(across({-1, 2}).size(), 2u);
  EXPECT_NEAR(across({-1, 2})[1], shapes.text("0").letters_y(), 0.3);
}

TEST(BarLabels, ValuesThatDoNotFitAreNotWritten) {
  Bars bars{"head", "loss", {}, {{"", {}, {}, {}}}};
  for (int n = 0; n < 60; ++n) {
    bars.categories.push_back("c");
    bars.series[0].values.push_back(12345);
  }
  EXPECT_FALSE(has_text(shapes_of(bars), "12,345"));
  bars.categories.resize(4);
  bars.series[0].values.resize(4);
  EXPECT_TRUE(has_text(shapes_of(bars), "12,345"));
}

// ---- grids

TEST(Grids, TheFullShadeIsTheValueThatIsAskedFor) {
  Grid grid{"x", "y", "v", {"r"}, {"a", "b"}, {0.2, 0.4}, false};
  const auto shade = [](const Grid& one) {
    std::vector<Shape> cells = shapes_of(one).of("rect", "heat");
    std::erase_if(cells, [](const Shape& cell) { return cell.has("class"); });
    return std::vector{cells.at(0).shade(), cells.at(1).shade()};
  };
  EXPECT_EQ(shade(grid), (std::vector{0.5, 1.0}));
  grid.full = 0.8;
  EXPECT_EQ(shade(grid), (std::vector{0.25, 0.5}));
  EXPECT_TRUE(has_text(shapes_of(grid), "0.8")) << "at the end of the ramp";
}

TEST(Grids, NumbersAreWrittenWhereTheyAreWantedAndFit) {
  Grid grid{"x", "y", "v", {"r"}, {"a", "b"}, {0.25, 1}, true};
  EXPECT_EQ(words_of(shapes_of(grid).of("text", "on-low")), std::vector<std::string>{"0.2"});
  EXPECT_EQ(words_of(shapes_of(grid).of("text", "on-high")), std::vector<std::string>{"1.0"});
  grid.values = {2.5e-5, 1e-4};  // too small for four decimals
  EXPECT_EQ(words_of(shapes_of(grid).of("text", "on-low")), std::vector<std::string>{"2.5e-05"});
  grid.numbers = false;
  EXPECT_TRUE(shapes_of(grid).of("text", "on-low").empty() && shapes_of(grid).of("text", "on-high").empty());
  Grid wide{"x", "y", "v", {"r"}, {}, {}, true};
  for (int n = 0; n < 40; ++n) {
    wide.columns.push_back(std::to_string(n));
    wide.values.push_back(n == 7 ? kNan : 0.25);
  }
  const Shapes narrow = shapes_of(wide);
  EXPECT_TRUE(narrow.of("text", "on-low").empty() && narrow.of("text", "on-high").empty()) << "cells of 16 pixels";
  EXPECT_TRUE(has_text(narrow, "–")) << "what is missing is said all the same";
  const std::vector<Shape> labels = x_labels(narrow);
  double free_from = 0;
  for (const Shape& label : labels) {
    if (label.text == "–") continue;
    EXPECT_GE(label.number("x") - width_of(label.text, 12) / 2, free_from - kPixel) << label.text;
    free_from = label.number("x") + width_of(label.text, 12) / 2 + 6;
  }
}

TEST(Grids, NamesHaveUpToThirtyLetters) {
  const std::string fits(30, 'i'), longer(31, 'i'), cut = std::string(29, 'i') + "…";
  for (const std::string& name : {fits, longer}) {
    const std::string shown = name == fits ? fits : cut;
    EXPECT_TRUE(has_text(shapes_of(Grid{"x", "y", "v", {"r"}, {name}, {1}, true}), shown)) << "a column";
    EXPECT_TRUE(has_text(shapes_of(Grid{"x", "y", "v", {name}, {"c"}, {1}, true}), shown)) << "a row";
  }
}

TEST(Grids, TheLargestIsSaidAmongNumbers) {
  const std::string text = svg({"id", "t", "", Grid{"x", "y", "v", {"r"}, {"a", "b", "c"}, {kNan, 2, 1}, true}});
  EXPECT_NE(text.find("The largest value, 2, is at r, b."), text.npos);
}

// The shade goes with the value, and the faintest can still be seen.
TEST(Grids, SmallValuesAreNotInvisible) {
  std::vector<Shape> cells = shapes_of(Grid{"x", "y", "v", {"r"}, {"a", "b", "c"}, {0.0001, 0.1, 1}, false}).of("rect");
  std::erase_if(cells, [](const Shape& cell) { return cell.has("class"); });
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].shade(), 0.03);
  EXPECT_EQ(cells[1].shade(), 0.1);
}

// ---- the ramp

TEST(Ramps, StandBetweenTheirEnds) {
  const Shapes shapes = shapes_of(Grid{"x", "rows", "score", {"r"}, {"a"}, {123456}, false});
  std::vector<Shape> ramp = shapes.of("rect");
  std::erase_if(ramp, [](const Shape& cell) { return !cell.has("class"); });
  ASSERT_EQ(ramp.size(), 16u);
  for (std::size_t n = 1; n < 16; ++n) {
    EXPECT_NEAR(ramp[n].left(), ramp[n - 1].right(), 0.02);
    EXPECT_GT(ramp[n].shade(), ramp[n - 1].shade());
  }
  const Shape high = shapes.text("123,456"), low = shapes.text("0"), label = shapes.text("score");
  EXPECT_LE(ramp.back().right(), high.number("x") - width_of("123,456", 11));
  EXPECT_LE(low.number("x"), ramp.front().left());
  EXPECT_LE(label.number("x"), low.number("x") - width_of("0", 11));
}

// At the right edge of the cells, or where there are few of them where most figures would end.
TEST(Ramps, EndWhereTheGridDoes) {
  Grid grid{"x", "rows", "score", {"r"}, {"a"}, {3}, false};
  EXPECT_EQ(shapes_of(grid).text("3").number("x"), 420);
  EXPECT_EQ(shapes_of(grid, Place::narrow_page).text("3").number("x"), kNarrow.width);
  for (int n = 1; n < 12; ++n) grid.columns.push_back(std::to_string(n));
  grid.values.assign(12, 3.0);
  EXPECT_NEAR(shapes_of(grid).of("text", "soft").at(0).number("x"), kWide.width, 1);
}

TEST(Ramps, ACaptionThatWouldTouchHasALineOfItsOwn) {
  const auto places = [](const std::string& caption) {
    const Shapes shapes = shapes_of(Grid{"x", caption, "score", {"r"}, {"a"}, {1}, false});
    return std::pair{shapes.text(caption).number("y"), shapes.text("r").letters_y()};
  };
  const auto [y, row] = places("layer");
  const auto [low, low_row] = places(std::string(60, 'm'));
  EXPECT_EQ(low, y + 22);
  EXPECT_EQ(low_row, row + 22) << "and the cells begin below it";
}

// ---- heads side by side

TEST(Panels, TitlesStayWithinThem) {
  HeadGrid grid{{"q"}, {"k"}, {}, 8};
  for (int n = 0; n < 8; ++n) grid.heads.push_back({"a head with a long title", "and a note", {1}});
  const Shapes shapes = shapes_of(grid);
  std::vector<Shape> titles = texts_of(shapes, "ink", 12);
  std::erase_if(titles, [](const Shape& text) { return !text.has("font-weight"); });
  ASSERT_EQ(titles.size(), 8u);
  for (std::size_t n = 1; n < 8; ++n) {
    const double room = titles[n].number("x") - titles[n - 1].number("x");
    EXPECT_LT(width_of(titles[n].text, 12), room * 1.1) << titles[n].text;
    EXPECT_TRUE(titles[n].text.starts_with("a h") && titles[n].text.ends_with("…"));
  }
}

TEST(Panels, WhereCellsAreSmallEveryNthTokenHasALabel) {
  HeadGrid grid{{}, {}, {}, 4};
  for (int n = 0; n < 50; ++n) {
    grid.queries.push_back("q" + std::to_string(n));
    grid.keys.push_back("k" + std::to_string(n));
  }
  for (int n = 0; n < 4; ++n) grid.heads.push_back({"head", "", std::vector<float>(2500, 0.5F)});
  std::vector<Shape> queries = shapes_of(grid).of("text", "soft"), keys = queries;
  std::erase_if(queries, [](const Shape& text) { return text.text[0] != 'q' || text.text[1] == 'u'; });
  std::erase_if(keys, [](const Shape& text) { return text.text[0] != 'k' || text.text != "k" + text.text.substr(1); });
  ASSERT_GT(queries.size(), 5u);
  for (std::size_t n = 1; n < queries.size(); ++n) {
    EXPECT_GE(queries[n].number("y") - queries[n - 1].number("y"), queries[n].number("font-size") - kPixel);
  }
  for (std::size_t n = 1; n < 5; ++n) {
    EXPECT_GE(keys[n].number("x") - keys[n - 1].number("x"), keys[n].number("font-size") - kPixel);
  }
}

TEST(Panels, AWeightAboveOneIsNoDarkerThanOne) {
  std::vector<Shape> cells =
      shapes_of(HeadGrid{{"q"}, {"a", "b"}, {{"head", "", {0.25F, 1.5F}}}, 1}).of("rect", "heat");
  std::erase_if(cells, [](const Shape& cell) { return cell.has("class"); });
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].shade(), 0.5);
  EXPECT_EQ(cells[1].shade(), 1);
}

// ---- the file

TEST(Files, HaveATitleInLinesAndAMarginAllAround) {
  std::string title;
  for (int n = 0; n < 30; ++n) title += (n == 0 ? "word" : " word") + std::to_string(n);
  const Lines lines{"x", "y", {{"", {0, 1}, {0, 1}, {}, {}}}, false, {}, {}};
  const Shapes shapes(svg({"id", title, "", lines}));
  const Shape frame = shapes.of("svg").at(0), paper = shapes.of("rect", "paper").at(0);
  std::vector<Shape> parts = texts_of(shapes, "ink", 16);
  ASSERT_GT(parts.size(), 1u);
  std::string joined;
  for (std::size_t n = 0; n < parts.size(); ++n) {
    joined += (n == 0 ? "" : " ") + parts[n].text;
    EXPECT_EQ(parts[n].number("x"), 20);
    EXPECT_LE(20 + width_of(parts[n].text, 16), frame.number("width") - 20);
    if (n > 0) {
      EXPECT_NEAR(parts[n].number("y") - parts[n - 1].number("y"), 20.8, kPixel);
    }
  }
  EXPECT_EQ(joined, title);
  EXPECT_EQ(frame.number("width"), kWide.width + 40);
  EXPECT_EQ(paper.number("width"), frame.number("width"));
  EXPECT_EQ(paper.number("height"), frame.number("height"));
  const std::string moved = shapes.of("g").at(0).attribute("transform");
  const double down = std::strtod(moved.c_str() + moved.find(' '), nullptr);
  EXPECT_EQ(moved.substr(0, 12), "translate(20");
  EXPECT_GT(down, parts.back().number("y")) << "the plot begins below";
  EXPECT_NEAR(frame.number("height"), down + kWide.height + 20, 1);
}

// Wherever figures stand, all of their shapes and the beginnings of their words are on the paper.
TEST(Files, HoldAllThatIsDrawn) {
  for (const Figure& figure : sample_page().figures) {
    for (const Place place : {Place::page, Place::narrow_page}) {
      const Shapes shapes(svg(figure, place));
      const Shape paper = shapes.of("svg").at(0);
      SCOPED_TRACE(figure.id + (place == Place::page ? "" : ", narrow"));
      const auto expect_inside = [&](double x, double y) {
        EXPECT_TRUE(x >= -0.5 && x <= paper.number("width") + 0.5) << x;
        EXPECT_TRUE(y >= -0.5 && y <= paper.number("height") + 0.5) << y;
      };
      for (const Shape& rect : shapes.of("rect")) {
        expect_inside(rect.left(), rect.top());
        expect_inside(rect.right(), rect.bottom());
      }
      for (const Shape& line : shapes.of("line")) {
        expect_inside(line.number("x1"), line.number("y1"));
        expect_inside(line.number("x2"), line.number("y2"));
      }
      for (const Shape& dot : shapes.of("circle")) expect_inside(dot.number("cx"), dot.number("cy"));
      for (const Shape& text : shapes.of("text")) expect_inside(text.number("x"), text.number("y"));
      EXPECT_LE(paper.number("width"), place == Place::page ? kWide.width + 2 : kNarrow.width + 120);
    }
  }
}

// ---- a head of the page

// Every statistic by the rows that it is counted in.
TEST(Describe, IsWhatTheSurveySays) {
  heads::HeadSurvey survey;
  const auto set = [&](Statistic field, double value) { survey.sums[static_cast<std::size_t>(field)] = value; };
  set(Statistic::rows, 10);
  set(Statistic::entropy, 15);
  set(Statistic::normalised_rows, 8);
  set(Statistic::normalised_entropy, 2);
  set(Statistic::max_weight, 5);
  set(Statistic::first_weight, 1);
  set(Statistic::self_rows, 4);
  set(Statistic::self_weight, 3);
  set(Statistic::previous_rows, 9);
  set(Statistic::previous_weight, 6);
  set(Statistic::distance, 70);
  const heads::HeadRoles roles{{2, 5}, {{"induction", 0.3, 0.4, 0.1}, {"first token", 0.7, 0.4, 0.1}}};
  const Head head = describe(roles, &survey);
  EXPECT_EQ(head.layer, 2);
  EXPECT_EQ(head.head, 5);
  EXPECT_EQ(head.role, "first token") << "the one that holds";
  EXPECT_EQ(head.score, 0.7);
  EXPECT_EQ(head.roles, (std::vector<std::pair<std::string, double>>{{"induction", 0.3}, {"first token", 0.7}}));
  EXPECT_EQ(head.statistics, (std::vector<std::pair<std::string, double>>{{"entropy (nats)", 1.5},
                                                                          {"entropy, relative", 0.25},
                                                                          {"largest weight", 0.5},
                                                                          {"on the first key", 0.1},
                                                                          {"on itself", 0.75},
                                                                          {"on the key before", 6.0 / 9},
                                                                          {"mean distance", 7}}));
  EXPECT_TRUE(describe(roles, nullptr).statistics.empty());
  EXPECT_TRUE(describe({{0, 0}, {}}, nullptr).role.empty());
}

}  // namespace
}  // namespace polyhead::report
