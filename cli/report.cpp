#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/say.h"

namespace polyhead::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

// Three digits and the unit that fits: 0.00123 -> "1.23 ms".
std::string with_unit(double number, std::string_view unit) {
  struct Prefix {
    double size;
    std::string_view letter;
  };
  static constexpr std::array<Prefix, 9> prefixes{
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  if (number == 0) return fmt::format("0 {}", unit);
  // 999.5 rounds up to the next unit.
  const auto* fitting = std::find_if(prefixes.begin(), prefixes.end(),
                                     [&](const Prefix& prefix) { return std::abs(number) >= 0.9995 * prefix.size; });
  if (fitting == prefixes.end()) fitting = &prefixes.back();
  const double scaled = number / fitting->size;
  const int digits = std::abs(scaled) < 9.995 ? 2 : std::abs(scaled) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}{}", scaled, digits, fitting->letter, unit);
}

std::string text_of_number(double number, Style style) {
  switch (style) {
    case Style::percent: return unsigned_zero(fmt::format("{:.1f}", 100 * number)) + " %";
    case Style::seconds: return with_unit(number, "s");
    case Style::scaled: return with_unit(number, "");
    case Style::words:
    case Style::count:
    case Style::decimal: break;
  }
  return unsigned_zero(fmt::format("{:.3f}", number));
}

std::string padded(const std::string& text, std::size_t width, Style style) {
  return style == Style::words ? fmt::format("{:<{}}", text, width) : fmt::format("{:>{}}", text, width);
}

std::string csv_cell(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  const auto* words = std::get_if<std::string>(&value);
  if (words == nullptr) return {};
  if (words->find_first_of(",\"\r\n") == std::string::npos) return *words;
  std::string quoted = "\"";
  for (const char letter : *words) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

std::string csv_of(const Table& table) {
  std::vector<std::string> cells;
  for (const Column& column : table.columns) cells.push_back(column.key);
  std::string lines = fmt::format("{}\n", fmt::join(cells, ","));
  for (const auto& row : table.rows) {
    cells.clear();
    for (const Value& value : row) cells.push_back(csv_cell(value));
    lines += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return lines;
}

// Names come from files, which may hold invalid UTF-8; it becomes U+FFFD.
std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of(const Value& value) {
  return std::visit(
      [](const auto& content) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(content)>, std::monostate>)
          return nullptr;
        else
          return content;
      },
      value);
}

// One field or row per line: easy to read and to diff.
std::string json_of(const Report& report) {
  std::vector<std::string> members{fmt::format("\"schema\": {}", kSchema),
                                   fmt::format("\"command\": {}", dumped(report.command))};
  for (const auto& [key, value] : report.fields) {
    members.push_back(fmt::format("{}: {}", dumped(key), dumped(json_of(value))));
  }
  for (const Table& table : report.tables) {
    std::vector<std::string> rows;
    for (const auto& row : table.rows) {
      Json object = Json::object();
      for (std::size_t c = 0; c < row.size(); ++c) object[table.columns[c].key] = json_of(row[c]);
      rows.push_back(dumped(object));
    }
    members.push_back(fmt::format("{}: [\n    {}\n  ]", dumped(table.name), fmt::join(rows, ",\n    ")));
  }
  return fmt::format("{{\n  {}\n}}\n", fmt::join(members, ",\n  "));
}

// The cells of a table that are shown, as texts.
class Shown {
 public:
  Shown(const Table& table, const std::vector<std::string>& keys) : lines_(table.rows.size() + 1) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const Column& column = table.columns[c];
      if (!keys.empty() && std::find(keys.begin(), keys.end(), column.key) == keys.end()) continue;
      Cells cells{column, {column.heading}, 0};
      for (const auto& row : table.rows) cells.texts.push_back(cli::text_of(row[c], column.style));
      for (const std::string& cell : cells.texts) cells.width = std::max(cells.width, cell.size());
      columns_.push_back(std::move(cells));
    }
  }

  std::size_t width() const {
    std::size_t width = 0;
    for (const Cells& cells : columns_) width += cells.width + (width > 0 ? 2 : 0);
    return width;
  }
  // Drops spare columns until the table fits a page; returns their headings.
  std::vector<std::string> fit() {
    std::vector<std::string> gone;
    while (width() > kPageWidth) {
      int most = 0;
      for (const Cells& cells : columns_) most = std::max(most, cells.column.spare);
      if (most == 0) break;
      for (const Cells& cells : columns_) {
        if (cells.column.spare == most) gone.push_back(cells.column.heading);
      }
      std::erase_if(columns_, [&](const Cells& cells) { return cells.column.spare == most; });
    }
    return gone;
  }
  std::vector<std::string> headings() const {
    std::vector<std::string> headings;
    for (const Cells& cells : columns_) headings.push_back(cells.column.heading);
    return headings;
  }
  std::string text() const {
    std::string text;
    for (std::size_t line = 0; line < lines_; ++line) {
      std::string joined;
      for (const Cells& cells : columns_) {
        if (!joined.empty()) joined += "  ";
        joined += padded(cells.texts[line], cells.width, cells.column.style);
      }
      joined.erase(joined.find_last_not_of(' ') + 1);
      text += joined + '\n';
    }
    return text;
  }

 private:
  struct Cells {
    Column column;
    std::vector<std::string> texts;  // the heading first
    std::size_t width;
  };
  std::size_t lines_;
  std::vector<Cells> columns_;
};

}  // namespace

std::string unsigned_zero(std::string text) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  if (has_sign && text.find_first_of("123456789") == text.npos) text.erase(0, 1);
  return text;
}

std::string text_of(const Value& value, Style style) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return style == Style::scaled ? with_unit(static_cast<double>(*whole), "")
                                  : fmt::format("{}", fmt::group_digits(*whole));
  }
  if (const auto* number = std::get_if<double>(&value)) return text_of_number(*number, style);
  const auto* words = std::get_if<std::string>(&value);
  if (words == nullptr) return {};
  return style == Style::words ? *words : unsigned_zero(*words);
}

std::string text_of(const Table& table, const std::vector<std::string>& keys) {
  Shown shown(table, keys);
  const std::vector<std::string> gone = shown.fit();
  std::string text = shown.text();
  if (gone.empty()) return text;
  return text + wrapped(fmt::format("No room for: {} (--format csv has all).", fmt::join(gone, ", ")), 0) + '\n';
}

std::vector<std::string> headings_of(const Table& table) {
  Shown shown(table, {});
  shown.fit();
  return shown.headings();
}

std::string wrapped(const std::string& words, std::size_t indent) {
  std::string text;
  std::size_t column = indent, at = 0;
  while (at < words.size()) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (column + (end - at) > kPageWidth && column > indent) {
      text += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      text += ' ';
    }
    text += words.substr(at, end - at);
    column += end - at + 1;
    at = end + 1;
  }
  return text;
}

Option format_option(std::string& format) {
  return {"format", "FORMAT", "output format: table, json or csv", &format, {"table", "json", "csv"}};
}

void print(const Report& report, const std::string& format) {
  if (is_silent()) return;
  fmt::print("{}", format == "json" ? json_of(report) : format == "csv" ? csv_of(report.csv) : report.text);
}

}  // namespace polyhead::cli
