// Figures: every kind is an SVG that can be drawn, whatever its texts are, and refuses what does not fit together.
#include "report/figure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stack>

#include "polyhead/error.h"
#include "report/png.h"
#include "report/sample.h"
#include "report/shapes.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

// Tags open and close in order, and no attribute or text holds a bare < or &.
void expect_well_formed(const std::string& svg) {
  std::stack<std::string> open;
  for (std::size_t at = 0; (at = svg.find('<', at)) != std::string::npos;) {
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    at = end;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.top(), tag.substr(1));
      open.pop();
    } else if (tag.back() != '/') {
      open.push(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_TRUE(open.empty());
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

TEST(Figures, OfEveryKindAreDrawn) {
  for (const Figure& figure : sample_page().figures) {
    for (const Place place : {Place::file, Place::page, Place::narrow_page}) {
      const std::string text = svg(figure, place);
      expect_well_formed(text);
      EXPECT_TRUE(png(text).starts_with("\x89PNG\r\n\x1A\n")) << figure.id;
      EXPECT_NE(text.find("role=\"img\""), std::string::npos);
      EXPECT_NE(text.find("<title>"), std::string::npos);
      // A file has no text beside it: what the caption says is in the description.
      const std::string described = text.substr(text.find("<desc>"), text.find("</desc>") - text.find("<desc>"));
      EXPECT_GT(described.size(), 40u) << figure.id;
      EXPECT_EQ(!figure.caption.empty() && described.starts_with("<desc>" + escaped(figure.caption)),
                !figure.caption.empty() && place == Place::file);
      EXPECT_EQ(text.find("nan"), std::string::npos) << figure.id;
      EXPECT_EQ(text.find("inf"), std::string::npos) << figure.id;
      EXPECT_EQ(text.find("style="), std::string::npos) << "the page's policy allows no such attribute";
    }
  }
}

// Cairo leaves the alpha channel out of a PNG in which every pixel is opaque: the colour type in the header is 2,
// not 6.
TEST(Figures, CoverTheirWholeSheet) {
  constexpr std::size_t kColourType = 25;
  for (const Figure& figure : sample_page().figures) {
    for (const double scale : {1.0, 2.0}) EXPECT_EQ(png(svg(figure), scale).at(kColourType), 2) << figure.id;
  }
}

TEST(Figures, TextIsNeverMarkup) {
  const std::string evil = "<img src=x onerror=alert(1)>\u202E\x01\xFF]]>&";
  const std::vector<Figure> figures{
      {"a", evil, evil, Lines{evil, evil, {{evil, {1, 2}, {1, 2}, {0, 1}, {2, 3}}}, false, {}, {{1, evil}}}},
      {"b", evil, evil, Bars{evil, evil, {evil}, {{evil, {1}, {}, {}}, {evil, {2}, {}, {}}}}},
      {"c", evil, evil, Grid{evil, evil, evil, {evil}, {evil}, {1}, true}},
      {"d", evil, evil, HeadGrid{{evil}, {evil}, {{evil, evil, {1}}}, 4}}};
  for (const Figure& figure : figures) {
    const std::string text = svg(figure);
    expect_well_formed(text);
    EXPECT_EQ(text.find("<img"), std::string::npos);
    EXPECT_EQ(text.find("\u202E"), std::string::npos);
    EXPECT_FALSE(png(text, 1).empty());
  }
}

TEST(Lines, AGapIsNotBridged) {
  const Lines lines{"x", "y", {{"s", {1, 2, 3, 4, 5}, {1, 2, kNan, 4, 5}, {}, {}}}, false, {}, {}};
  const std::string text = svg({"a", "t", "", lines});
  const std::size_t path = text.find(" d=\"M");
  ASSERT_NE(path, std::string::npos);
  const std::string drawn = text.substr(path, text.find('"', path + 4) - path);
  EXPECT_EQ(count(drawn, "M"), 2) << drawn;
  EXPECT_EQ(count(text, "<circle"), 4);
}

TEST(Lines, NamesDoNotTouch) {
  Lines lines{"x", "y", {}, false, {}, {}};
  for (int i = 0; i < 7; ++i)
    lines.series.push_back({"series " + std::to_string(i), {0, 1}, {0.5, 1 + 1e-3 * i}, {}, {}});
  const std::string text = svg({"a", "t", "", lines}, Place::page);
  std::vector<double> places;
  for (int i = 0; i < 7; ++i) {
    const std::size_t name = text.rfind(">series " + std::to_string(i) + "</text>");
    const std::size_t y = text.rfind(" y=\"", name);
    places.push_back(std::stod(text.substr(y + 4)));
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i] - places[i - 1], 12);
}

TEST(HeadGrids, ARunOfOneShadeIsOneShape) {
  HeadGrid grid{{"a", "b"}, {"a", "b", "c"}, {{"head", "", {0.5F, 0.5F, 0, 1, 0, 0}}}, 4};
  const std::string text = svg({"a", "t", "", grid});
  const std::size_t cells = text.find("<g class=\"heat\"");
  EXPECT_EQ(count(text.substr(cells, text.find("</g>", cells) - cells), "<rect"), 2);
}

template <class Plot>
void expect_refused(const Plot& plot, ErrorCode code) {
  try {
    svg({"a", "t", "", plot});
    ADD_FAILURE() << "was drawn";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

TEST(Figures, WhatDoesNotFitIsRefused) {
  expect_refused(Lines{}, ErrorCode::value);
  expect_refused(Lines{"x", "y", {{"s", {1}, {kNan}, {}, {}}}, false, {}, {}}, ErrorCode::value);
  expect_refused(Lines{"x", "y", {{"s", {1, 2}, {1}, {}, {}}}, false, {}, {}}, ErrorCode::shape);
  expect_refused(Lines{"x", "y", {{"s", {1}, {1}, {0}, {}}}, false, {}, {}}, ErrorCode::shape);
  expect_refused(Lines{"x", "y", {{"s", {0, 1}, {1, 2}, {}, {}}}, true, {}, {}}, ErrorCode::value);
  expect_refused(Lines{"x", "y", {{"s", {0, 1}, {-1e308, 1e308}, {}, {}}}, false, {}, {}}, ErrorCode::value);
  expect_refused(Lines{"x", "y", {{"s", {-1e308, 1e308}, {0, 1}, {}, {}}}, false, {}, {}}, ErrorCode::value);
  expect_refused(Bars{"x", "y", {"a", "b"}, {{"s", {-1e308, 1e308}, {}, {}}}}, ErrorCode::value);
  expect_refused(Bars{}, ErrorCode::value);
  expect_refused(Bars{"x", "y", {"a"}, {{"s", {1, 2}, {}, {}}}}, ErrorCode::shape);
  expect_refused(Grid{}, ErrorCode::value);
  expect_refused(Grid{"x", "y", "v", {"a"}, {"b"}, {1, 2}, true}, ErrorCode::shape);
  expect_refused(HeadGrid{}, ErrorCode::value);
  expect_refused(HeadGrid{{"a"}, {"b"}, {{"h", "", {1, 2}}}, 4}, ErrorCode::shape);
  expect_refused(HeadGrid{{"a"}, {"b"}, {{"h", "", {1}}}, 0}, ErrorCode::value);
  const std::vector<std::string> tokens(500, "a");
  expect_refused(HeadGrid{tokens, tokens, {{"h", "", std::vector<float>(250'000)}}, 4}, ErrorCode::value);
  const std::vector<std::string> fewer(250, "a");  // one head of these would do
  const HeadPanel head{"h", "", std::vector<float>(125'000)};
  expect_refused(HeadGrid{tokens, fewer, {head, head}, 4}, ErrorCode::value);
}

TEST(Figures, ExtremesAreDrawn) {
  const std::vector<Figure> figures{
      {"a", "", "", Lines{"", "", {{"", {5}, {7}, {}, {}}}, false, {}, {}}},
      {"b", "", "", Lines{"", "", {{"", {1}, {1e300}, {}, {}}, {"n", {1}, {-1e300}, {}, {}}}, true, {}, {}}},
      {"c", "", "", Bars{"", "", {"a", "b"}, {{"", {0, kNan}, {}, {}}}}},
      {"d", "", "", Grid{"", "", "", {"a"}, {"b", "c"}, {kNan, kNan}, true}},
      {"tiny", "", "", Lines{"", "", {{"", {1, 2}, {0, 5e-324}, {}, {}}}, false, {}, {}}},
      {"small", "", "", Lines{"", "", {{"", {0, 1e-200}, {1e-200, 3e-200}, {}, {}}}, false, {}, {}}},
      {"e", "", "", Grid{"", "", "", {"a"}, {"b", "c"}, {-1, 1}, true}}};
  for (const Figure& figure : figures) EXPECT_FALSE(png(svg(figure)).empty()) << figure.id;
}

// Width and height stand in the header of the PNG, most significant byte first.
int number_at(const std::string& bytes, std::size_t at) {
  int number = 0;
  for (std::size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

TEST(Png, HasTheSizeThatWasAskedFor) {
  const std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"20\"></svg>";
  const std::string bytes = png(svg, 3);
  EXPECT_EQ(number_at(bytes, 16), 90);
  EXPECT_EQ(number_at(bytes, 20), 60);
  EXPECT_THROW(png(svg, 0), Error);
  EXPECT_THROW(png(svg, 1e6), Error);
  EXPECT_THROW(png(svg, kNan), Error);
  EXPECT_THROW(png("no picture"), Error);
  EXPECT_THROW(png(""), Error);
}

}  // namespace
}  // namespace polyhead::report
