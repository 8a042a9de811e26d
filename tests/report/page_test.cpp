// The page is one file that reaches for nothing outside itself, and its data can be read back.
#include "report/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "polyhead/error.h"
#include "report/base64.h"
#include "report/deflate.h"
#include "report/sample.h"
#include "report/sources.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

using nlohmann::json;

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "<" + begin + " is not there>";
  return text.substr(from + begin.size(), text.find(end, from + begin.size()) - from - begin.size());
}

json data_of(const std::string& page) {
  return json::parse(between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

TEST(Page, ReachesForNothingOutside) {
  std::string text = html(sample_page());
  const std::string name_of_svg = "http://www.w3.org/2000/svg";
  for (std::size_t at = 0; (at = text.find(name_of_svg)) != std::string::npos;) text.erase(at, name_of_svg.size());
  EXPECT_FALSE(std::regex_search(text, std::regex("https?:|//cdn|@import|url\\(")));
  for (const char* word :
       {"<iframe", "<object", "<embed", "<base", "javascript:", "fetch(", "XMLHttpRequest", "eval("}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(text.find("{{"), text.find("{{script}}")) << "a token of the sample, and nothing that page.html asked for";
}

TEST(Page, PolicyNamesTheScriptAndTheStyleAlone) {
  const std::string text = html(sample_page());
  const std::string policy = between(text, "Content-Security-Policy\" content=\"", "\"");
  const auto expected = [](std::string_view script) {
    return "default-src 'none'; script-src 'sha256-" + base64_of_hex(script) + "'; style-src 'sha256-" +
           base64_of_hex(kStyleDigest) + "'; img-src data:; base-uri 'none'; form-action 'none'";
  };
  EXPECT_EQ(policy, expected(kScriptDigest));
  Page live = sample_page();
  live.live = Live{"the model", {{"a name", "an example <b>", "shows \u202E"}}, "a hint \u202E", 77};
  EXPECT_EQ(between(html(live), "Content-Security-Policy\" content=\"", "\""),
            expected(kLiveScriptDigest) + "; connect-src 'self'");
  EXPECT_EQ(between(html(live), "<script>", "</script>"), kLiveScript);
  const json about = data_of(html(live))["live"];
  EXPECT_EQ(about, (json{{"model", "the model"},
                         {"examples", {{{"name", "a name"}, {"text", "an example <b>"}, {"shows", "shows ‹U+202E›"}}}},
                         {"hint", "a hint ‹U+202E›"},
                         {"most_tokens", 77}}));
  EXPECT_EQ(between(text, "<style>", "</style>"), kPageStyle);
  EXPECT_EQ(between(text, "<script>", "</script>"), kPageScript);
  EXPECT_EQ(kPageScript.find("innerHTML"), std::string_view::npos);
}

TEST(Page, DataIsReadBack) {
  const json data = data_of(html(sample_page()));
  EXPECT_EQ(data["schema"], 1);
  EXPECT_EQ(data["models"][0]["heads"].size(), 64u);
  EXPECT_EQ(data["models"][0]["samples"][0]["tokens"].size(), 128u);
  EXPECT_EQ(data["models"][0]["samples"][0]["weights"].size(), 64u);
  EXPECT_EQ(data["models"][1]["heads"][1]["kept"], false);
  EXPECT_EQ(data["models"][1]["samples"][0]["heads"].size(), 6u);
  EXPECT_EQ(data["models"][1]["samples"][1]["key_tokens"].size(), 4u);
  EXPECT_EQ(data["tables"][0]["rows"][2][1], 4);
  EXPECT_EQ(data["about"]["seed"], "1");
  EXPECT_FALSE(data["models"][0]["heads"][5].contains("role")) << "what is not known is left out";
}

// Those who run no scripts read them, too.
TEST(Page, FindingsAreInTheHtml) {
  const Page page = sample_page();
  const std::string findings = between(html(page), "<section id=\"findings\" ", "</section>");
  for (const Finding& finding : page.findings) {
    const std::size_t at = findings.find(escaped(finding.text));
    EXPECT_NE(at, std::string::npos) << finding.text;
    EXPECT_EQ(findings.find(escaped(finding.text), at + 1), std::string::npos) << "once: " << finding.text;
  }
  const std::string figure = between(findings, "<figure id=\"figure-" + page.findings[0].figure + "\">", "</figure>");
  EXPECT_NE(figure.find(escaped(page.findings[0].text)), std::string::npos) << "beside the figure that shows it";
  EXPECT_EQ(html({}).find("id=\"findings\""), std::string::npos);
}

TEST(Page, TablesAreInTheHtml) {
  const Page page = sample_page();
  const std::string table = between(html(page), "<div class=\"block\" id=\"table-summary\">", "</table>");
  EXPECT_NE(table.find("<th scope=\"col\">model</th><th scope=\"col\" class=\"number\">heads</th>"), std::string::npos);
  EXPECT_NE(table.find("<tr><td>h = 2</td><td class=\"number\">2</td><td class=\"number\">262,144</td><td "
                       "class=\"number\">94</td></tr>"),
            std::string::npos)
      << table;
  EXPECT_EQ(html({}).find("id=\"tables\""), std::string::npos);
}

TEST(Page, AChapterShowsItsTaskBeforeItsAnswers) {
  Page page = sample_page();
  page.chapters = {
      {"First?",
       {{"copy", "Say it again.", {{"a"}, {"SEP"}, {"a", true}}, ""}},
       {"damage", "summary"},
       "Yes & no.",
       "Not always."},
      {"Then?", {{"classify", "Say what it is.", {{"b"}}, "class 3"}}, {"accuracy", "time", "importance", "patterns"}}};
  const std::string first = between(html(page), "<section id=\"question-1\" ", "</section>");
  EXPECT_NE(first.find("<h2>First?</h2>"), std::string::npos);
  EXPECT_NE(first.find("a SEP <mark>a</mark>"), std::string::npos);
  EXPECT_LT(first.find("Say it again."), first.find("figure-damage"));
  EXPECT_LT(first.find("figure-damage"), first.find("#table-summary"));
  EXPECT_LT(first.find("Yes &amp; no."), first.find("Say it again.")) << "the answer comes first";
  EXPECT_GT(first.find("<b>But</b> Not always."), first.find("#table-summary")) << "what speaks against it last";
  EXPECT_LT(html(page).find("<h2>Then?</h2>"), html(page).find("<h2>Heads</h2>")) << "heads come after the questions";
  EXPECT_EQ(first.find("figure-accuracy"), std::string::npos);
  const std::string second = between(html(page), "<section id=\"question-2\" ", "</section>");
  EXPECT_NE(second.find("b → <mark>class 3</mark>"), std::string::npos);
  EXPECT_EQ(second.find("<b>But</b>"), std::string::npos);
  EXPECT_EQ(html(page).find("id=\"findings\""), std::string::npos);
  for (const char* wrong : {"nowhere", "damage"}) {
    Page other = page;
    other.chapters[1].answers[0] = wrong;
    EXPECT_THROW(html(other), Error) << wrong;
  }
  page.chapters.pop_back();
  EXPECT_THROW(html(page), Error) << "some figures are in no chapter";
}

TEST(Page, HostileTextStaysText) {
  Page page = sample_page();
  page.title = "</title><script>alert(1)</script>";
  page.figures[0].caption = "<b onclick='x'>\u2028";
  const std::string text = html(page);
  EXPECT_EQ(text.find("<script>alert"), std::string::npos);
  EXPECT_EQ(text.find("<img"), std::string::npos);
  EXPECT_EQ(text.find("<b "), std::string::npos);
  for (const char* hidden : {"\u2028", "\u2029", "\u202E", "\u200B", "\x01"})
    EXPECT_EQ(text.find(hidden), std::string::npos);
  const std::size_t begin = text.find("id=\"data\">") + 10, end = text.find("</script>", begin);
  EXPECT_EQ(text.substr(begin, end - begin).find_first_of("<>&"), std::string::npos) << "no markup among the data";
  const json tokens = data_of(text)["models"][1]["samples"][0]["tokens"];
  EXPECT_EQ(tokens[0], "<img src=x onerror=alert(1)>");
  EXPECT_EQ(tokens[2], "a‹U+202E›b");
  EXPECT_EQ(tokens[11], "{{script}}");
}

TEST(Page, WeightsAreBytes) {
  Page page;
  page.models = {{"m", "", {}, {{"", {"a"}, {"b", "c", "d", "e"}, {{0, 0}}, {0, 0.25F, 1, 7}}}}};
  const std::vector<std::uint8_t> bytes{0, 128, 255, 255};
  EXPECT_EQ(quantised(page.models[0].samples[0].weights), bytes);
  EXPECT_EQ(data_of(html(page))["models"][0]["samples"][0]["weights"], json::array({base64(deflated(bytes))}));
}

// What the model made of a text goes with it, its tokens as tokens are shown.
TEST(Page, WhatWasMadeOfATextIsThere) {
  Page page;
  Sample sample{"s", {"a", "b"}, {}, {}, {}};
  sample.predictions = {{{" x", 0.5}, {"\n", 0.25}}, {{"y ", 0.125}}};
  sample.losses = {1.5};
  page.models = {{"m", "", {}, {sample}}};
  const json read = data_of(html(page))["models"][0]["samples"][0];
  EXPECT_EQ(read["predictions"], json::parse(R"([[["·x", 0.5], ["↵", 0.25]], [["y·", 0.125]]])"));
  EXPECT_EQ(read["losses"], json::array({1.5}));
  EXPECT_FALSE(read.contains("embedding"));
  page.models[0].samples[0].embedding = {0.5, -2};
  EXPECT_EQ(data_of(html(page))["models"][0]["samples"][0]["embedding"], json::array({0.5, -2}));
}

TEST(Page, WhatIsNotFiniteIsLeftOut) {
  Page page;
  Head head;
  head.importance = std::nan("");
  head.statistics = {{"entropy", std::nan("")}};
  page.models = {{"m", "", {head}, {}}};
  const json read = data_of(html(page))["models"][0]["heads"][0];
  EXPECT_FALSE(read.contains("importance"));
  EXPECT_TRUE(read["statistics"]["entropy"].is_null());
}

TEST(Page, WhatDoesNotFitIsRefused) {
  Page page = sample_page();
  page.models[0].samples[0].weights.pop_back();
  EXPECT_THROW(html(page), Error);
  page = sample_page();
  page.tables[0].rows[0].pop_back();
  EXPECT_THROW(html(page), Error);
  page = sample_page();
  page.findings[0].figure = "nowhere";
  EXPECT_THROW(html(page), Error);
  page = sample_page();
  page.figures[0].id = "a\" onload=\"x";
  EXPECT_THROW(html(page), Error);
  page = sample_page();
  page.tables[0].id = page.figures[0].id;
  EXPECT_THROW(html(page), Error);
}

// Every figure twice: for wide windows and for narrow ones, where the drawing is another, not the same one shrunk.
TEST(Page, FiguresComeInTwoWidths) {
  const Page page = sample_page();
  const std::string text = html(page);
  for (const Figure& figure : page.figures) {
    EXPECT_NE(text.find(svg(figure, Place::page)), std::string::npos) << figure.id;
    EXPECT_NE(text.find(svg(figure, Place::narrow_page)), std::string::npos) << figure.id;
    EXPECT_NE(svg(figure, Place::page), svg(figure, Place::narrow_page)) << figure.id;
  }
}

TEST(Page, AnEmptyPageIsAPage) { EXPECT_EQ(data_of(html({}))["models"].size(), 0u); }

// Every number of a head under its own name.
TEST(Page, DataOfAHeadAreWhatIsKnownOfIt) {
  Page page;
  page.models = {{"m", "n", {{2, 3, "role", 0.11, {{"a", 0.22}}, {{"b", 0.33}}, 0.44, 0.55, 0.66, 0.77, false}}, {}}};
  const json model = json::parse(report::json(page))["models"][0];
  EXPECT_EQ(model["name"], "m");
  EXPECT_EQ(model["note"], "n");
  const json expected{{"layer", 2},
                      {"head", 3},
                      {"role", "role"},
                      {"score", 0.11},
                      {"roles", {{"a", 0.22}}},
                      {"statistics", {{"b", 0.33}}},
                      {"importance", 0.44},
                      {"damage", 0.55},
                      {"damage_low", 0.66},
                      {"damage_high", 0.77},
                      {"kept", false}};
  EXPECT_EQ(model["heads"][0], expected) << model["heads"][0];
}

// All that a page says beside its heads, each under its own name.
TEST(Page, DataAreWhatThePageSays) {
  Page page{"a title", "a lead", {{"z", "1"}, {"a", "2"}}, {}, {}, {}, {}};
  page.findings = {{"found", "t"}, {"alone", ""}};
  page.figures = {{"f", "a figure", "its caption", Bars{"x", "y", {"c"}, {{"", {1}, {}, {}}}}}};
  page.tables = {{"t", "a table", "below it", {"p", "q"}, {{std::int64_t{3}, 0.5}, {std::string("w"), Cell{}}}}};
  const json data = json::parse(report::json(page));
  EXPECT_EQ(data["title"], "a title");
  EXPECT_EQ(data["lead"], "a lead");
  EXPECT_EQ(data["about"], json::parse(R"({"z": "1", "a": "2"})"));
  EXPECT_LT(report::json(page).find("\"z\""), report::json(page).find("\"a\"")) << "in their order";
  EXPECT_EQ(data["findings"], json::parse(R"([{"text": "found", "figure": "t"}, {"text": "alone"}])"));
  EXPECT_EQ(data["figures"], json::parse(R"([{"id": "f", "title": "a figure", "caption": "its caption"}])"));
  EXPECT_EQ(data["tables"], json::parse(R"([{"id": "t", "title": "a table", "caption": "below it",
                                            "columns": ["p", "q"], "rows": [[3, 0.5], ["w", null]]}])"));
  EXPECT_FALSE(data.contains("live"));
}

// A character that turns the text around is shown by its number, wherever it stands.
TEST(Page, NothingHidesInAnyText) {
  const Page page = hostile_page("\u202E\u200B");
  for (const std::string& text : {report::json(page), html(page)}) {
    EXPECT_EQ(text.find("\u202E"), text.npos);
    EXPECT_EQ(text.find("\u200B"), text.npos);
  }
  std::size_t shown = 0;
  const std::string text = report::json(page);
  for (std::size_t at = 0; (at = text.find("‹U+202E›‹U+200B›", at)) != text.npos; ++at) ++shown;
  EXPECT_GT(shown, 20u) << "every text has one";
}

}  // namespace
}  // namespace polyhead::report
