// Figures of every kind and pages, beside the files that hold what they look like. Other tests say what is right about
// them; these, that nothing changes its words or its ink unnoticed.
#include "support/kept.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "report/page.h"
#include "report/png.h"
#include "report/shapes.h"
#include "report/sources.h"
#include "report/text.h"
#include "support/said.h"

namespace polyhead::report {
namespace kept {

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/report" / name;
}

const std::string kLong = "a name that is much too long to stand at the end of any line";

std::vector<Figure> all_figures() {
  std::vector<double> many(25);  // too many points for dots
  std::iota(many.begin(), many.end(), 0);
  const Series rising{"rising", {0, 50, 100}, {0, 0.25, 1}, {0, 0.15, 0.9}, {0.1, 0.45, 1}};
  const Series falling{"falling", {0, 50, 100}, {0.8, kNan, 0.4}, {}, {}},
      beside{"beside", {0, 80}, {0.8, 0.41}, {}, {}};
  const Lines lines{"step", "accuracy", {rising, falling, beside}, false, {}, {{50, "half way"}, {99, "near the end"}}};
  const Lines powers{"length", "time (ms)", {{kLong, {16, 64, 1024}, {-2, 3e6, 1.5e6}, {}, {}}, falling}, true, {}, {}};
  Lines late = powers;
  late.series[1].x = {16, 300, 4096};
  const Bars alone{"head", "loss (nats)", {"0.0", "0.1"}, {{"zero", {4, -1}, {3.5, -1.5}, {5, -0.25}}}};
  const Bars groups{"a long name of a task",
                    "",
                    {"one category", "a second of a name that is cut", "3", "4", "5", "6", "7"},
                    {{"zero", {4, -1, kNan, 2, 2, 2, 2}, {}, {}}, {"mean", {2, 0.5, 1, 3, 3, 3, 3}, {}, {}}}};
  const Grid grid{
      "head", "layer", "importance", {"0", "one of a long name"}, {"0", "1", "2"}, {0.5, -1, kNan, 0, 0.25, 2}};
  const Grid dense{"head", "", "entropy", {"a", "b"}, {"10", "11", "12", "13"}, {1, 2, 3, 4, 5, 6, 7, 8}, false, 10};
  const HeadGrid heads{{"the", " cat", "\n"},
                       {"a", "b", "c", "d"},
                       {{"layer 0 · head 0", "self", {1, 0, 0, 0, .25F, .25F, .5F, 0, 0, 0, 0, 2}},
                        {"layer 0 · head 1", "", std::vector<float>(12, 0.25F)},
                        {"layer 1 · head 0", "none", std::vector<float>(12, 0.0F)}},
                       2};
  return {{"lines", "Lines", "", lines},
          {"powers", "A title of many words that does not fit on a single line of a figure and has to be wrapped", "c",
           late},
          {"one", "One line", "", Lines{"step", "loss", {{"alone", many, many, {}, {}}}, false, {}, {}}},
          {"bars", "Bars <& more>", "Whiskers.", alone},
          {"groups", "Groups", "", groups},
          {"grid", "A grid", "", grid},
          {"dense", "Dense", "", dense},
          {"heads", "Heads", "", heads}};
}

// The words of a figure, and what its shapes look like, with the number of those that look so. Where they stand and how
// dark they are is what the figure says: geometry_test and layout_test read it back.
std::string looks_of(const std::string& svg) {
  static const std::set<std::string> places{"x",  "y",     "x1",     "x2",        "y1",      "y2", "cx",
                                            "cy", "width", "height", "transform", "viewBox", "d"};
  const Shapes shapes(svg);
  std::map<std::string, int> looks;
  std::string words;
  for (const Shape& shape : shapes.all()) {
    std::string look = shape.kind;
    const bool shaded = shape.ink == "heat" || shape.ink == "cold";
    for (const auto& [name, value] : shape.attributes) {
      if (!places.contains(name) && !(shaded && name == "fill-opacity")) look += " " + name + "=" + value;
    }
    ++looks[look];
    if (shape.kind == "text") words += (words.empty() ? "" : " | ") + shape.text;
  }
  std::string text = svg.substr(svg.find("<title>"), svg.find("</desc>") - svg.find("<title>")) + "\n" + words + "\n";
  for (const auto& [look, count] : looks) text += std::to_string(count) + " × " + look + "\n";
  return text;
}

TEST(Kept, Figures) {
  std::string text;
  for (const Figure& figure : all_figures()) {
    text += "=== " + figure.id + "\n" + looks_of(svg(figure, Place::file));
    text += "--- in a narrow page\n" + looks_of(svg(figure, Place::narrow_page));
  }
  expect_kept(fixture("figures.txt"), text);
}

// Where letters stand, about.
struct Letters {
  double left, right, top, bottom;

  explicit Letters(const Shape& text) {
    const double size = text.number("font-size"), width = width_of(text.text, size);
    const double x = text.number("x"), y = text.number("y");
    const std::string anchor = text.attribute("text-anchor");
    const double before = anchor == "end" ? width : anchor == "middle" ? width / 2 : 0;
    if (text.attribute("transform").starts_with("rotate(-90 ")) {
      *this = {x - 0.7 * size, x + 0.1 * size, y + before - width, y + before};
    } else {
      *this = {x - before, x - before + width, y - 0.7 * size, y + 0.1 * size};
    }
  }
  Letters(double left, double right, double top, double bottom) : left(left), right(right), top(top), bottom(bottom) {}
  bool touches(const Letters& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

TEST(Figures, LettersStayOnThePaperAndApart) {
  for (const Figure& figure : all_figures()) {
    for (const Place place : {Place::page, Place::narrow_page}) {
      if (figure.id == "lines" && place == Place::narrow_page) continue;  // events do not make way for each other
      const Shapes shapes(svg(figure, place));
      const Shape paper = shapes.of("svg").at(0);
      std::vector<Shape> texts = shapes.of("text");
      std::erase_if(texts, [](const Shape& text) {  // slanted ones have a test of their own
        return text.text.empty() || text.attribute("transform").starts_with("rotate(-35 ");
      });
      for (std::size_t n = 0; n < texts.size(); ++n) {
        const Letters here(texts[n]);
        SCOPED_TRACE(figure.id + (place == Place::page ? ": " : ", narrow: ") + texts[n].text);
        EXPECT_TRUE(here.left > -1 && here.right < paper.number("width") + 1) << here.left << " to " << here.right;
        EXPECT_TRUE(here.top > -1 && here.bottom < paper.number("height") + 1) << here.top << " to " << here.bottom;
        for (std::size_t other = 0; other < n; ++other) {
          EXPECT_FALSE(here.touches(Letters(texts[other]))) << "touches " << texts[other].text;
        }
      }
    }
  }
}

// What the code makes of a page: without the lines of page.html and whatever else stands in files of its own, without
// drawings and packed weights.
std::string made_of(std::string html) {
  const auto cut = [&](std::string_view part, const std::string& name) {
    const std::size_t at = html.find(part);
    if (at != html.npos) html.replace(at, part.size(), name);
  };
  cut(kPageStyle, "STYLE");
  cut(kPageScript, "SCRIPT");
  cut(kLiveScript, "LIVE SCRIPT");
  cut(kAskingHtml, "ASKING\n");
  cut(kSwitchesHtml, "SWITCHES\n");
  for (const auto& [before, behind] : {std::pair{"'sha256-", "'"}, {"<svg", "</svg>"}, {"\"weights\":[", "]"}}) {
    for (std::size_t at = 0; (at = html.find(before, at)) != html.npos;) {
      at += std::string_view(before).size();
      html.erase(at, html.find(behind, at) - at);
    }
  }
  std::istringstream page{std::string(kPageHtml)}, all(html);
  std::set<std::string> known;
  std::string line, rest;
  while (std::getline(page, line)) known.insert(line);
  while (std::getline(all, line)) rest += known.contains(line) ? "" : line + "\n";
  return rest;
}

Page page() {
  Page made{"A <title>", "What it is about.", {{"version", "1"}, {"time", "2 s"}}, {}, {}, {}, {}};
  made.figures = {all_figures()[0], all_figures()[3]};
  made.tables = {{"t", "A table", "Its caption.", {"name", "count", "share"}, {}}, {"u", "Empty", "", {"x"}, {}}};
  made.tables[0].rows = {
      {"a & b", std::int64_t{1234567}, 0.123456}, {"c", Cell{}, -12345.678}, {"d", std::int64_t{-5}, kNan}};
  made.findings = {{"First.", "lines"}, {"Second.", "t"}, {"Third.", "lines"}, {"Fourth.", "u"}};
  Head head{1, 2, "self", 0.5, {{"self", 0.5}, {"first", 0.25}}, {{"entropy", 1.5}}, 0.75, 0.125, 0.0625, 0.25, false};
  Sample sample{"text", {"a", " b"}, {"x", "y", "\n"}, {{1, 2}}, {0, 0.25F, 0.75F, 1, 0, 0}};
  sample.predictions = {{{" c", 0.5}, {"d", 0.25}}, {}};
  sample.losses = {1.25};
  sample.embedding = {0.5, -0.5};
  made.models = {{"model", "A note.", {head, Head{}}, {sample, Sample{"", {"q"}, {}, {{0, 0}}, {0.5F}}}}};
  return made;
}

TEST(Kept, Pages) {
  Page made = page();
  std::string text = made_of(html(made));
  made.chapters = {{"Why?", {{"copy", "Say it again.", {{"a", false}, {"<b>", true}}, "class 1"}}, {"bars", "t"}},
                   {"How?", {}, {"lines", "u"}}};
  text += made_of(html(made));
  made.findings.clear();
  made.chapters.clear();
  made.live = Live{"runs/copy", {{"Text", "a text", "What it shows."}}, "Any text.", 1024, "runs/other"};
  expect_kept(fixture("pages.txt"), text + made_of(html(made)));
}

// Every list of a figure and a page too long or too short, every number and name out of range.
TEST(Kept, Refusals) {
  Said said;
  const auto draw = [&](const std::string& what, const auto& plot) {
    said(what, [&] { svg({"id", "Title", "", plot}); });
  };
  const Lines lines{"x", "y", {{"one", {1, 2}, {3, 4}, {3, 3}, {5, 5}}}, false, {}, {}};
  const auto of_lines = [&](const std::string& what, const std::function<void(Lines&)>& spoil) {
    Lines wrong = lines;
    spoil(wrong);
    draw("lines, " + what, wrong);
  };
  of_lines("as they are", [](Lines&) {});
  of_lines("no band", [](Lines& l) { l.series[0].low = l.series[0].high = {}; });
  for (std::vector<double> Series::*list : {&Series::x, &Series::y, &Series::low, &Series::high}) {
    of_lines("one more", [&](Lines& l) { (l.series[0].*list).push_back(1); });
    of_lines("none", [&](Lines& l) { (l.series[0].*list).clear(); });
  }
  for (const double x : {-1.0, 0.0, 1e-300, 1e-299}) {
    of_lines("powers from " + std::to_string(x), [&](Lines& l) { l.log_x = true, l.series[0].x[0] = x; });
  }
  of_lines("no series", [](Lines& l) { l.series.clear(); });
  of_lines("no number", [](Lines& l) { l.series[0].y = {kNan, kNan}; });
  of_lines("too far apart", [](Lines& l) { l.series[0].y = {-1.5e308, 1.5e308}; });
  of_lines("x too far apart", [](Lines& l) { l.series[0].x = {-1.5e308, 1.5e308}; });
  const Bars bars{"x", "y", {"a", "b"}, {{"one", {1, 2}, {0, 1}, {2, 3}}}};
  const auto of_bars = [&](const std::string& what, const std::function<void(Bars&)>& spoil) {
    Bars wrong = bars;
    spoil(wrong);
    draw("bars, " + what, wrong);
  };
  of_bars("as they are", [](Bars&) {});
  of_bars("no whiskers", [](Bars& b) { b.series[0].low = b.series[0].high = {}; });
  for (std::vector<double> BarSeries::*list : {&BarSeries::values, &BarSeries::low, &BarSeries::high}) {
    of_bars("one more", [&](Bars& b) { (b.series[0].*list).push_back(1); });
    of_bars("none", [&](Bars& b) { (b.series[0].*list).clear(); });
  }
  of_bars("no series", [](Bars& b) { b.series.clear(); });
  of_bars("no category", [](Bars& b) { b.categories.clear(); });
  of_bars("too far apart", [](Bars& b) { b.series[0].values = {-1.5e308, 1.5e308}; });
  draw("grid", Grid{"x", "y", "z", {"a"}, {"b", "c"}, {1, 2}});
  draw("grid, one value less", Grid{"x", "y", "z", {"a"}, {"b", "c"}, {1}});
  draw("grid, one value more", Grid{"x", "y", "z", {"a"}, {"b", "c"}, {1, 2, 3}});
  draw("grid, no row", Grid{"x", "y", "z", {}, {"b"}, {}});
  draw("grid, no column", Grid{"x", "y", "z", {"a"}, {}, {}});
  const HeadPanel panel{"a head", "", {1, 0}};
  draw("heads", HeadGrid{{"q"}, {"k", "l"}, {panel}, 1});
  draw("heads, one weight less", HeadGrid{{"q"}, {"k", "l", "m"}, {panel}, 1});
  draw("heads, one weight more", HeadGrid{{"q"}, {"k"}, {panel}, 1});
  draw("heads, none", HeadGrid{{"q"}, {"k", "l"}, {}, 1});
  draw("heads, no query", HeadGrid{{}, {"k", "l"}, {panel}, 1});
  draw("heads, no key", HeadGrid{{"q"}, {}, {panel}, 1});
  draw("heads, no column", HeadGrid{{"q"}, {"k", "l"}, {panel}, 0});

  const auto of_page = [&](const std::string& what, const std::function<void(Page&)>& spoil) {
    Page wrong = page();
    spoil(wrong);
    said("page, " + what, [&] { html(wrong); });
  };
  of_page("as it is", [](Page&) {});
  for (const char* id : {"", "a_b", "A", "a b", "az-09", "{", "`", "/", ":", "\"", "t", "bars"}) {
    of_page("a figure called " + std::string(id), [&](Page& p) { p.figures[0].id = id, p.findings.clear(); });
    of_page("a table called " + std::string(id), [&](Page& p) { p.tables[1].id = id, p.findings.clear(); });
  }
  of_page("a finding without a figure", [](Page& p) { p.findings[0].figure = ""; });
  of_page("a finding of nothing", [](Page& p) { p.findings[0].figure = "nowhere"; });
  of_page("a row too short", [](Page& p) { p.tables[0].rows[1].pop_back(); });
  of_page("a row too long", [](Page& p) { p.tables[0].rows[1].push_back("x"); });
  of_page("a weight too few", [](Page& p) { p.models[0].samples[0].weights.pop_back(); });
  of_page("a weight too many", [](Page& p) { p.models[0].samples[0].weights.push_back(0); });
  const std::vector<Chapter> both{{"Why?", {}, {"bars", "t"}}, {"How?", {}, {"lines", "u"}}};
  of_page("chapters", [&](Page& p) { p.chapters = both; });
  of_page("a chapter of nothing", [&](Page& p) { p.chapters = both, p.chapters[0].answers[0] = "nowhere"; });
  of_page("a chapter of what was", [&](Page& p) { p.chapters = both, p.chapters[1].answers[0] = "bars"; });
  of_page("a chapter too few", [&](Page& p) { p.chapters = {both[0]}; });
  const std::string drawing = R"(<svg xmlns="http://www.w3.org/2000/svg" width="0.01" height="20"></svg>)";
  for (const double scale : {-1.0, 0.0, 0.01, 1.0, 1638.0, 1639.0, 4000.0, kNan}) {
    said("png at " + std::to_string(scale), [&] { png(drawing, scale); });
  }
  said("png of what has no size", [&] { png(R"(<svg xmlns="http://www.w3.org/2000/svg" width="50%"></svg>)"); });
  expect_kept(fixture("refusals.txt"), said.text());
}

}  // namespace kept
}  // namespace polyhead::report
