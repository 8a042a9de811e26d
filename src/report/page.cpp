#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
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
    throw Error(ErrorCode::value, "page", "a finding names '" + finding.figure + "', which is no figure or table");
  }
}

// JSON in which no markup can begin: these characters occur in strings only, where escapes may stand for them.
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

// The findings that name this figure.
std::string said_by(const Page& page, const Figure& figure) {
  std::string text;
  for (const Finding& finding : page.findings) {
    if (finding.figure == figure.id) text += "<li>" + escaped(finding.text) + "</li>\n";
  }
  return text.empty() ? text : "<ul class=\"says\">\n" + text + "</ul>\n";
}

std::string figures_of(const Page& page) {
  std::string text;
  for (const Figure& figure : page.figures) {
    text += fmt::format(
        "<figure id=\"figure-{}\">\n<h3>{}</h3>\n<div "
        "class=\"plot\">\n{}{}</div>\n<div>\n{}<figcaption>{}</figcaption>\n"
        "</div>\n</figure>\n",
        figure.id, escaped(figure.title), svg(figure, Place::page), svg(figure, Place::narrow_page),
        said_by(page, figure), escaped(figure.caption));
  }
  return text;
}

// Those that no figure shows, with the table that does.
std::string other_findings_of(const Page& page) {
  std::string text;
  for (const Finding& finding : page.findings) {
    const auto is_it = [&](const auto& one) { return one.id == finding.figure; };
    if (std::any_of(page.figures.begin(), page.figures.end(), is_it)) continue;
    const auto table = std::find_if(page.tables.begin(), page.tables.end(), is_it);
    text += "<li>" + escaped(finding.text);
    if (table != page.tables.end()) {
      text += fmt::format(" <a href=\"#table-{}\">Table {}</a>", table->id, 1 + (table - page.tables.begin()));
    }
    text += "</li>\n";
  }
  return text.empty() ? text : "<ol>\n" + text + "</ol>\n";
}

// In the HTML itself, for those who run no scripts.
std::string findings_of(const Page& page) {
  if (page.findings.empty() && page.figures.empty()) return {};
  return fmt::format("  <section id=\"findings\">\n    <h2>{}</h2>\n{}{}  </section>",
                     page.findings.empty() ? "Figures" : "Findings", figures_of(page), other_findings_of(page));
}

// A live page may ask the server that it came from, and nobody else.
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
    if (name == "findings") return findings_of(page);
    if (name == "data") return harmless(json(page));
    if (name == "asking") return page.live ? std::string(kAskingHtml) : "";
    if (name == "switches") return page.live ? std::string(kSwitchesHtml) : "";
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
