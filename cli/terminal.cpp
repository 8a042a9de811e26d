#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace polyhead::cli {
namespace {

constexpr std::size_t kUsual = 80, kNarrowest = 40, kWidestText = 100;

// COLUMNS, if it is a number.
std::optional<std::size_t> named_columns() {
  const char* value = std::getenv("COLUMNS");
  const std::string_view text = value == nullptr ? "" : value;
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (error != std::errc{} || end != text.data() + text.size() || columns == 0) return {};
  return columns;
}

}  // namespace

std::optional<std::size_t> terminal_columns(int file) {
  if (isatty(file) != 1) return {};
  struct winsize size {};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return named_columns().value_or(kUsual);
}

Page page() {
  constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();
  const std::optional<std::size_t> terminal = terminal_columns(STDOUT_FILENO);
  const std::optional<std::size_t> columns = terminal ? terminal : named_columns();
  const std::size_t table = std::max(columns.value_or(kEndless), kNarrowest);
  return {.table = wide_tables() ? kEndless : table, .text = std::min(columns ? table : kUsual, kWidestText)};
}

bool& wide_tables() {
  static bool wide = false;
  return wide;
}

}  // namespace polyhead::cli
