// How wide a line may be.
#pragma once

#include <cstddef>
#include <optional>

namespace polyhead::cli {

// Of the terminal that this file is: what it says, else COLUMNS, else 80. Nothing for a pipe or a regular file.
std::optional<std::size_t> terminal_columns(int file);

struct Page {
  std::size_t table;  // columns of a table, which are left out or wrapped beyond it
  std::size_t text;   // at most 100: longer lines are hard to read
};

// Of standard output: as wide as the terminal or, where there is none, as COLUMNS says. Without either tables are
// complete, since nobody's lines are broken there, and text has 80 columns.
Page page();

// --wide: tables with all their columns.
bool& wide_tables();

}  // namespace polyhead::cli
