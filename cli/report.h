// What a command has to say, as an aligned table, as JSON or as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/commands.h"

namespace polyhead::cli {

// A cell or field. Lists, booleans and empty values are for JSON: text and CSV leave them blank.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<double>, std::vector<std::string>>;

// How text shows a column; JSON and CSV always carry the bare number in its base unit.
enum class Style {
  words,    // left-aligned; all others to the right
  count,    // 1,234,567
  decimal,  // 0.123
  percent,  // 0.5 as 50.0 %
  seconds,  // 0.0012 as 1.20 ms
  scaled,   // 1.2e9 as 1.20 G
};

struct Column {
  std::string key;      // in JSON and CSV
  std::string heading;  // in text
  Style style = Style::words;
  int spare = 0;  // if the table is too wide, columns with the highest number go first; 0: never
};

struct Table {
  std::string name;
  std::vector<Column> columns;
  std::vector<std::vector<Value>> rows;
};

struct Report {
  std::string command;
  std::string text;                                   // the table format, ready to print
  std::vector<std::pair<std::string, Value>> fields;  // JSON: what applies to the whole report
  std::vector<Table> tables;                          // JSON: all of them, by name
  Table csv;
};

// Wraps words into lines that fit the page, all but the first indented.
std::string wrapped(const std::string& words, std::size_t indent);

// The columns named (all, if none), under their headings. A table wider than the page loses its spare columns and says
// so; if that is not enough, its longest words go on below.
std::string text_of(const Table& table, const std::vector<std::string>& keys = {});
std::string text_of(const Value& value, Style style);
std::vector<std::string> headings_of(const Table& table);  // of the columns that text_of shows

// "-0.0 %" as "0.0 %": what rounds to zero has no sign. Number columns apply it even to cells that are text.
std::string unsigned_zero(std::string text);

Option format_option(std::string& format);  // --format table|json|csv
Option wide_option();                       // --wide, of every command that has the former
void print(const Report& report, const std::string& format);

}  // namespace polyhead::cli
