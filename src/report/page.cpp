#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "polyhead/error.h"
#include "report/base64.h"
#include "report/sources.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

// Ids become addresses within the page.
void check_ids(const Page& page) {
  std::set<std::string> ids;
  const auto add = [&](const std::string& id) {
    const bool plain = !id.empty() && std::all_of(id.begin(), id.end(), [](char letter) {
      return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
    });
    if (!plain) {
      throw Error(ErrorCode::value, "page", "an id is made of a-z, 0-9 and hyphens, found '" + id + "'");
    }
    if (!ids.insert(id).second) throw Error(ErrorCode::value, "page", "two figures or tables are called '" + id + "'");
  };
  for (const Figure& figure : page.figures) add(figure.id);
  for (const Table& table : page.tables) add(table.id);
  for (const Finding& finding : page.findings) {
    if (finding.figure.empty() || ids.contains(finding.figure)) continue;
    throw Error(ErrorCode::value, "page", "a finding names '" + finding.figure + "', which is not a figure or table");
  }
  if (page.chapters.empty()) return;
  for (const Chapter& chapter : page.chapters) {
    for (const std::string& id : chapter.answers) {
      if (ids.erase(id) > 0) continue;
      throw Error(ErrorCode::value, "page",
                  "a chapter names '" + id + "', which is not a figure or table, or is in an earlier chapter");
    }
  }
  if (!ids.empty()) throw Error(ErrorCode::value, "page", "'" + *ids.begin() + "' is in no chapter");
}

// JSON in which no markup can begin: these characters occur only in strings, where they can be escaped.
std::string harmless(const std::string& json) {
  std::string result;
  result.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    switch (json[i]) {
      case '<': result += "\\u003c"; break;
      case '>': result += "\\u003e"; break;
      case '&': result += "\\u0026"; break;
      default: result += json[i];
    }
  }
  return result;
}

template <class Shown>
const Shown* called(const std::vector<Shown>& all, const std::string& id) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Shown& one) { return one.id == id; });
  return found == all.end() ? nullptr : &*found;
}

// The findings that name this figure or table.
std::vector<std::string> findings_by(const Page& page, const std::string& id) {
  std::vector<std::string> found;
  for (const Finding& finding : page.findings) {
    if (finding.figure == id) found.push_back(escaped(finding.text));
  }
  return found;
}

std::string html_of(const Page& page, const Figure& figure) {
  std::string says;
  for (const std::string& finding : findings_by(page, figure.id)) says += "<li>" + finding + "</li>\n";
  if (!says.empty()) says = "<ul class=\"says\">\n" + says + "</ul>\n";
  return fmt::format(
      "<figure id=\"figure-{}\">\n<h3><span class=\"ordinal\">Figure {}</span>{}</h3>\n<div "
      "class=\"plot\">\n{}{}</div>\n"
      "<div>\n{}<figcaption>{}</figcaption>\n</div>\n</figure>\n",
      figure.id, 1 + (&figure - page.figures.data()), escaped(figure.title), svg(figure, Place::page),
      svg(figure, Place::narrow_page), says, escaped(figure.caption));
}

// What a table shows, with a link to it.
std::string findings_of(const Page& page, const Table& table) {
  std::string text;
  for (const std::string& finding : findings_by(page, table.id)) {
    text += fmt::format("<li>{} <a href=\"#table-{}\">Table {}</a></li>\n", finding, table.id,
                        1 + (&table - page.tables.data()));
  }
  return text;
}

std::string html_of(const Example& example) {
  std::string tokens;
  for (const Example::Token& token : example.tokens) {
    const std::string text = escaped(token.text);
    tokens += token.wanted ? "<mark>" + text + "</mark> " : text + " ";
  }
  if (!example.answer.empty()) tokens += "→ <mark>" + escaped(example.answer) + "</mark>";
  return fmt::format("<div class=\"example\">\n<p><b>{}</b> {}</p>\n<p class=\"case\">{}</p>\n</div>\n",
                     escaped(example.task), escaped(example.asks), tokens);
}

std::string section(const std::string& id, const std::string& title, const std::string& content) {
  return fmt::format("  <section id=\"{}\" class=\"findings\">\n    <h2>{}</h2>\n{}  </section>\n", id, escaped(title),
                     content);
}

std::string html_of(const Page& page, const Chapter& chapter) {
  std::string text, others;
  if (!chapter.verdict.empty()) text += fmt::format("<p class=\"verdict\">{}</p>\n", escaped(chapter.verdict));
  for (const Example& example : chapter.examples) text += html_of(example);
  for (const std::string& id : chapter.answers) {
    if (const Figure* figure = called(page.figures, id)) {
      text += html_of(page, *figure);
    } else {
      others += findings_of(page, *called(page.tables, id));
    }
  }
  if (!others.empty()) text += "<ol>\n" + others + "</ol>\n";
  if (!chapter.caveat.empty()) text += fmt::format("<p class=\"caveat\"><b>But</b> {}</p>\n", escaped(chapter.caveat));
  return section(fmt::format("question-{}", 1 + (&chapter - page.chapters.data())), chapter.question, text);
}

// In the HTML itself, for readers without scripts: question by question or, without questions, all in one section.
std::string findings_of(const Page& page) {
  std::string text, others;
  for (const Chapter& chapter : page.chapters) text += html_of(page, chapter);
  if (!page.chapters.empty() || (page.findings.empty() && page.figures.empty())) return text;
  for (const Figure& figure : page.figures) text += html_of(page, figure);
  for (const std::string& finding : findings_by(page, "")) others += "<li>" + finding + "</li>\n";
  for (const Table& table : page.tables) others += findings_of(page, table);
  if (!others.empty()) text += "<ol>\n" + others + "</ol>\n";
  return section("findings", page.findings.empty() ? "Figures" : "Findings", text);
}

// Integers and large numbers have grouped thousands, others three digits.
std::string html_of(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return "<td>" + escaped(*text) + "</td>";
  std::string digits = "–";
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) digits = typeset(std::to_string(*whole));
  if (const auto* real = std::get_if<double>(&cell); real != nullptr && std::isfinite(*real)) {
    digits = typeset(std::abs(*real) >= 1000 ? fmt::format("{:.0f}", *real) : fmt::format("{:.3g}", *real));
  }
  return "<td class=\"number\">" + digits + "</td>";
}

std::string html_of(const Table& table) {
  std::string head, body;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const bool numbers = std::none_of(table.rows.begin(), table.rows.end(), [&](const std::vector<Cell>& row) {
      return column < row.size() && std::holds_alternative<std::string>(row[column]);
    });
    head +=
        fmt::format("<th scope=\"col\"{}>{}</th>", numbers ? " class=\"number\"" : "", escaped(table.columns[column]));
  }
  for (const std::vector<Cell>& row : table.rows) {
    body += "<tr>";
    for (const Cell& cell : row) body += html_of(cell);
    body += "</tr>\n";
  }
  return "<table><thead><tr>" + head + "</tr></thead>\n<tbody>\n" + body + "</tbody></table>";
}

std::string tables_of(const Page& page) {
  std::string text;
  for (const Table& table : page.tables) {
    const std::string title = escaped(table.title);
    text += fmt::format(
        "<div class=\"block\" id=\"table-{}\">\n<h3><span class=\"ordinal\">Table {}</span>{}</h3>\n"
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{}\">{}</div>\n{}</div>\n",
        table.id, 1 + (&table - page.tables.data()), title, title, html_of(table),
        table.caption.empty() ? "" : "<p class=\"caption\">" + escaped(table.caption) + "</p>\n");
  }
  return text.empty() ? text : "  <section id=\"tables\">\n    <h2>Tables</h2>\n" + text + "  </section>";
}

// A live page may only ask the server that it came from.
std::string policy(const Page& page) {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; "
      "form-action 'none'{}",
      base64_of_hex(page.live ? kLiveScriptDigest : kScriptDigest), base64_of_hex(kStyleDigest),
      page.live ? "; connect-src 'self'" : "");
}

}  // namespace

std::string html(const Page& page) {
  check_ids(page);
  const auto replacement = [&](std::string_view name) -> std::string {
    if (name == "title") return escaped(page.title);
    if (name == "policy") return policy(page);
    if (name == "style") return std::string(kPageStyle);
    // The answers to questions come before the heads that one may look at; other findings after what they are about.
    if (name == "chapters") return page.chapters.empty() ? "" : findings_of(page);
    if (name == "findings") return page.chapters.empty() ? findings_of(page) : "";
    if (name == "tables") return tables_of(page);
    if (name == "data") return harmless(json(page));
    if (name == "asking") return page.live ? std::string(kAskingHtml) : "";
    if (name == "switches") return page.live ? std::string(kSwitchesHtml) : "";
    if (name == "extras") return page.live ? std::string(kExtrasHtml) : "";
    if (name == "script") return std::string(page.live ? kLiveScript : kPageScript);
    throw Error(ErrorCode::value, "page", "page.html asks for {{" + std::string(name) + "}}, which is not known");
  };
  std::string text;
  std::string_view rest = kPageHtml;
  for (std::size_t at = 0; (at = rest.find("{{")) != std::string_view::npos;) {
    const std::size_t end = rest.find("}}", at);
    text += rest.substr(0, at);
    text += replacement(rest.substr(at + 2, end - at - 2));
    rest.remove_prefix(end + 2);
  }
  return text + std::string(rest);
}

}  // namespace polyhead::report
