// Figures of random numbers, some of which are none, read back shape by shape.
#include "support/random.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/shapes.h"

namespace polyhead::report {
namespace {

using test::Random;

// Of either sign, or positive only; one in `rarely` is no number.
std::vector<double> numbers(Random& random, std::int64_t count, double size, bool signs, std::int64_t rarely) {
  std::vector<double> made;
  for (std::int64_t n = 0; n < count; ++n) {
    const double value = size * (signs ? 2 * random.uniform() - 1 : random.uniform());
    const double none[] = {kNan, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    made.push_back(random.below(rarely) == 0 ? none[random.below(3)] : value);
  }
  return made;
}

std::vector<std::string> names(const char* first, std::int64_t count) {
  std::vector<std::string> made;
  for (std::int64_t n = 0; n < count; ++n) made.push_back(first + std::to_string(n));
  return made;
}

Shapes numbers_of(const std::variant<Lines, Bars, Grid, HeadGrid>& plot) {
  const std::string drawn = svg({"id", "title", "", plot}, Place::page);
  EXPECT_EQ(drawn.find("nan"), drawn.npos);
  EXPECT_EQ(drawn.find("inf"), drawn.npos);
  return Shapes(drawn);
}

// Pixels are a * value + b, the same for all of them.
struct Pairs {
  std::vector<std::pair<double, double>> all;  // value, pixel

  void add(double value, double pixel) { all.emplace_back(value, pixel); }
  void expect_straight(double tolerance) const {
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    if (all.empty() || low->first == high->first) return;
    const double a = (high->second - low->second) / (high->first - low->first);
    for (const auto& [value, pixel] : all) EXPECT_NEAR(pixel, low->second + a * (value - low->first), tolerance);
  }
};

TEST(RandomGrids, HaveAShadeForEveryNumberAndLettersThatCanBeRead) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const std::int64_t rows = 1 + random.below(6), columns = 1 + random.below(7);
    const double size = std::pow(10, static_cast<double>(random.below(6)) - 2);
    Grid grid{"x", "y", "v", names("r", rows), names("c", columns), {}, seed % 5 != 0, 0};
    grid.values = numbers(random, rows * columns, size, seed % 2 == 0, 6);
    grid.full = seed % 3 == 0 ? 0.8 * size : 0;
    double largest = 0;
    for (const double value : grid.values) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
    if (grid.full > 0 || largest == 0) largest = grid.full > 0 ? grid.full : 1;
    const Shapes shapes = numbers_of(grid);
    std::vector<Shape> cells[2] = {shapes.of("rect", "heat"), shapes.of("rect", "cold")};
    for (auto& hue : cells) std::erase_if(hue, [](const Shape& cell) { return cell.has("class"); });
    std::vector<Shape> letters = shapes.of("text", "on-low"), on_high = shapes.of("text", "on-high");
    letters.insert(letters.end(), on_high.begin(), on_high.end());
    std::size_t at[2] = {0, 0}, written = 0;
    for (std::size_t i = 0; i < grid.values.size(); ++i) {
      if (!std::isfinite(grid.values[i])) continue;
      const int hue = grid.values[i] < 0;
      ASSERT_LT(at[hue], cells[hue].size()) << "seed " << seed;
      const Shape& cell = cells[hue][at[hue]++];
      const double share = std::abs(grid.values[i]) / largest;
      EXPECT_NEAR(cell.shade(), std::clamp(share, 0.03, 1.0), 0.006) << "seed " << seed;
      const auto column = static_cast<std::int64_t>(i) % columns;
      EXPECT_NEAR(cell.middle_x(), shapes.text("c" + std::to_string(column)).number("x"), 1) << "seed " << seed;
      for (const Shape& text : letters) {
        if (std::abs(text.number("x") - cell.middle_x()) > 1 || std::abs(text.letters_y() - cell.middle_y()) > 2)
          continue;
        EXPECT_EQ(text.ink, share > 0.655 ? "on-high" : "on-low") << "seed " << seed << ", " << grid.values[i];
        ++written;
      }
    }
    EXPECT_EQ(written, letters.size()) << "every number lies in its cell";
  }
}

TEST(RandomLines, GoThroughWhatCanBeDrawn) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Lines lines{"x", "y", {}, seed % 3 == 0, {}, {}};
    const std::int64_t count = 2 + random.below(40), series = 1 + random.below(4);
    for (std::int64_t s = 0; s < series; ++s) {
      Series& one = lines.series.emplace_back();
      one.name = "s" + std::to_string(s);
      for (std::int64_t n = 0; n < count; ++n) one.x.push_back(1 + 3 * static_cast<double>(n));
      one.y = numbers(random, count, 10, true, 7);
      one.y[0] = 1;
      if (random.below(2) == 0) continue;
      one.low = numbers(random, count, 3, true, 7);
      one.high = numbers(random, count, 3, true, 7);
    }
    const Shapes shapes = numbers_of(lines);
    Pairs x, y;
    for (std::size_t s = 0; s < lines.series.size(); ++s) {
      const Series& one = lines.series[s];
      std::vector<double> line_y, line_x, tops;  // of what is drawn, in order
      std::size_t starts = 0, outlines = 0;
      bool down = false, in_band = false;
      for (std::size_t n = 0; n < one.x.size(); ++n) {
        const bool drawn = std::isfinite(one.y[n]);
        const bool banded = drawn && !one.low.empty() && std::isfinite(one.low[n]) && std::isfinite(one.high[n]);
        starts += drawn && !down;
        outlines += banded && !in_band;
        if (drawn) {
          line_x.push_back(lines.log_x ? std::log(one.x[n]) : one.x[n]);
          line_y.push_back(one.y[n]);
        }
        if (banded) tops.push_back(one.high[n]);
        down = drawn;
        in_band = banded;
      }
      std::size_t bands = 0;
      for (const Shape& path : shapes.of("path", "s" + std::to_string(s))) {
        const std::vector<Dot> corners = corners_of(path.attribute("d"));
        const auto begun = static_cast<std::size_t>(
            std::count_if(corners.begin(), corners.end(), [](const Dot& dot) { return dot.pen == 'M'; }));
        if (path.attribute("fill") != "none") {
          ++bands;
          EXPECT_EQ(begun, outlines);
          EXPECT_EQ(corners.size(), 2 * tops.size());
          continue;
        }
        EXPECT_EQ(begun, starts);
        ASSERT_EQ(corners.size(), line_y.size());
        for (std::size_t n = 0; n < corners.size(); ++n) {
          x.add(line_x[n], corners[n].x);
          y.add(line_y[n], corners[n].y);
        }
      }
      EXPECT_EQ(bands, tops.empty() ? 0u : 1u);
      EXPECT_EQ(shapes.of("circle", "s" + std::to_string(s)).size(), count <= 24 ? line_y.size() : 0);
    }
    x.expect_straight(2 * kPixel);
    y.expect_straight(2 * kPixel);
  }
}

TEST(RandomBars, AreAsLongAsTheirNumbers) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::int64_t categories = 1 + random.below(8), series = 1 + random.below(3);
    Bars bars{"x", "y", names("c", categories), {}};
    for (std::int64_t s = 0; s < series; ++s) {
      BarSeries& one = bars.series.emplace_back(BarSeries{"s" + std::to_string(s), {}, {}, {}});
      one.values = numbers(random, categories, 20, seed % 2 == 0, 6);
      if (random.below(2) == 0) continue;
      one.low = numbers(random, categories, 20, seed % 2 == 0, 6);
      one.high = numbers(random, categories, 20, seed % 2 == 0, 6);
    }
    const Shapes shapes = numbers_of(bars);
    Pairs lengths;  // of bars and whiskers, in pixels
    lengths.add(0, 0);
    std::vector<double> whiskers;
    for (std::size_t s = 0; s < bars.series.size(); ++s) {
      const BarSeries& one = bars.series[s];
      std::vector<Shape> drawn = shapes.of("rect", "s" + std::to_string(s));
      std::erase_if(drawn, [](const Shape& bar) { return bar.number("fill-opacity") == 1; });  // of the legend
      std::size_t at = 0;
      for (std::size_t c = 0; c < one.values.size(); ++c) {
        if (!std::isfinite(one.values[c])) continue;
        ASSERT_LT(at, drawn.size());
        lengths.add(std::abs(one.values[c]), drawn[at++].number("height"));
        if (!one.low.empty() && std::isfinite(one.low[c]) && std::isfinite(one.high[c])) {
          whiskers.push_back(std::abs(one.high[c] - one.low[c]));
        }
      }
      EXPECT_EQ(at, drawn.size());
    }
    std::vector<Shape> lines = shapes.of("line", "ink");
    std::erase_if(lines, [](const Shape& line) { return line.number("x1") != line.number("x2"); });  // the caps
    ASSERT_EQ(lines.size(), whiskers.size());
    for (std::size_t n = 0; n < lines.size(); ++n) {
      lengths.add(whiskers[n], std::abs(lines[n].number("y2") - lines[n].number("y1")));
    }
    lengths.expect_straight(3 * kPixel);
  }
}

}  // namespace
}  // namespace polyhead::report
