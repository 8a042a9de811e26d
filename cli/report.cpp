#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "cli/say.h"
#include "cli/terminal.h"

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

// Of UTF-8: any byte of a character but its first.
bool within_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Columns: bytes within a character take none.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !within_character(c); }));
}

std::string padded(const std::string& text, std::size_t width, Style style) {
  const std::string blanks(width - std::min(width_of(text), width), ' ');
  return style == Style::words ? text + blanks : blanks + text;
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

// Where a line of `width` bytes ends that begins at `at`: before a blank, after a sign between words, or anywhere.
std::size_t end_of_line(const std::string& text, std::size_t at, std::size_t width) {
  if (text.size() - at <= width) return text.size();
  if (const std::size_t blank = text.rfind(' ', at + width); blank != text.npos && blank > at) return blank;
  if (const std::size_t sign = text.find_last_of("./_,-", at + width - 1); sign != text.npos && sign > at)
    return sign + 1;
  std::size_t end = at + width;
  while (end > at && within_character(text[end])) --end;
  if (end > at) return end;
  for (++end; end < text.size() && within_character(text[end]);) ++end;  // one that is longer than that
  return end;
}

std::vector<std::string> lines_of(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return {text};
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size() || lines.empty();) {
    const std::size_t end = end_of_line(text, at, width);
    lines.push_back(text.substr(at, end - at));
    at = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return lines;
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
      for (const std::string& cell : cells.texts) cells.width = std::max(cells.width, width_of(cell));
      columns_.push_back(std::move(cells));
    }
  }

  std::size_t width() const {
    std::size_t width = 0;
    for (const Cells& cells : columns_) width += cells.width + (width > 0 ? 2 : 0);
    return width;
  }
  // Drops spare columns until the table fits the page, then narrows words; returns the headings of those that went.
  std::vector<std::string> fit() {
    const std::size_t most_columns = page().table;
    std::vector<std::string> gone;
    while (width() > most_columns) {
      int most = 0;
      for (const Cells& cells : columns_) most = std::max(most, cells.column.spare);
      if (most == 0) break;
      for (const Cells& cells : columns_) {
        if (cells.column.spare == most) gone.push_back(cells.column.heading);
      }
      std::erase_if(columns_, [&](const Cells& cells) { return cells.column.spare == most; });
    }
    narrow(most_columns);
    return gone;
  }
  std::vector<std::string> headings() const {
    std::vector<std::string> headings;
    for (const Cells& cells : columns_) headings.push_back(cells.column.heading);
    return headings;
  }
  std::string text() const {
    std::string text;
    for (std::size_t line = 0; line < lines_; ++line) text += row(line);
    return text;
  }

 private:
  struct Cells {
    Column column;
    std::vector<std::string> texts;  // the heading first
    std::size_t width;
  };

  // The widest words lose a column at a time, while any have more than a few.
  void narrow(std::size_t most_columns) {
    constexpr std::size_t kFewest = 12;
    while (width() > most_columns) {
      Cells* widest = nullptr;
      for (Cells& cells : columns_) {
        const bool words = cells.column.style == Style::words && cells.width > kFewest;
        if (words && (widest == nullptr || cells.width > widest->width)) widest = &cells;
      }
      if (widest == nullptr) return;
      --widest->width;
    }
  }

  // The cells side by side, on as many lines as the tallest takes.
  std::string row(std::size_t line) const {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (const Cells& each : columns_) {
      cells.push_back(lines_of(each.texts[line], each.width));
      height = std::max(height, cells.back().size());
    }
    std::string text;
    for (std::size_t y = 0; y < height; ++y) {
      std::string joined;
      for (std::size_t c = 0; c < cells.size(); ++c) {
        if (c > 0) joined += "  ";
        joined += padded(y < cells[c].size() ? cells[c][y] : "", columns_[c].width, columns_[c].column.style);
      }
      joined.erase(joined.find_last_not_of(' ') + 1);
      text += joined + '\n';
    }
    return text;
  }

  std::size_t lines_;
  std::vector<Cells> columns_;
};

// Sentences that are too long go on below, under their beginning. Tables, which have wider gaps, see to themselves.
std::string fitted(const std::string& text) {
  const std::size_t columns = page().text;
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), columns / 2);
    const bool fits = width_of(line) <= columns || line.find("  ", indent) != line.npos;
    result += fits ? line : std::string(indent, ' ') + wrapped(line.substr(indent), indent);
    result += '\n';
  }
  return result;
}

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
  return text + wrapped(fmt::format("No room for: {} (--wide shows all).", fmt::join(gone, ", ")), 0) + '\n';
}

std::vector<std::string> headings_of(const Table& table) {
  Shown shown(table, {});
  shown.fit();
  return shown.headings();
}

std::string wrapped(const std::string& words, std::size_t indent) {
  const std::size_t columns = page().text;
  std::string text;
  std::size_t column = indent, at = 0;
  while (at < words.size()) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (column + (end - at) > columns && column > indent) {
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

Option wide_option() {
  return {"wide", "", "tables with all columns, however narrow the terminal; JSON and CSV always have all",
          &wide_tables()};
}

void print(const Report& report, const std::string& format) {
  if (is_silent()) return;
  fmt::print("{}", format == "json" ? json_of(report) : format == "csv" ? csv_of(report.csv) : fitted(report.text));
}

}  // namespace polyhead::cli
