// A heat map with numbers. One hue, stronger for larger values; a second one for negative values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

constexpr double kNumberSize = 11;

struct Layout {
  double left = 0, top = 0, cell_width = 0, cell_height = 0, largest = 0;
  bool diverging = false;
  Point corner(std::size_t row, std::size_t column) const {
    return {left + static_cast<double>(column) * cell_width, top + static_cast<double>(row) * cell_height};
  }
};

Layout layout_of(const Grid& grid, double width) {
  Layout layout;
  for (const std::string& row : grid.rows) layout.left = std::max(layout.left, width_of(row, kTickSize));
  layout.left = std::min(layout.left, 0.3 * width) + 10;
  layout.cell_width = std::min((width - layout.left) / static_cast<double>(grid.columns.size()), 90.0);
  layout.cell_height = std::clamp(300.0 / static_cast<double>(grid.rows.size()), 14.0, 30.0);
  for (const double value : grid.values) {
    if (!std::isfinite(value)) continue;
    layout.largest = std::max(layout.largest, std::abs(value));
    layout.diverging = layout.diverging || value < 0;
  }
  if (grid.full > 0) layout.largest = grid.full;
  if (layout.largest == 0) layout.largest = 1;
  return layout;
}

// At a shade of 0.655 of either hue, black and white contrast equally, 4.6 to 1; in the dark theme too.
Ink ink_on(double shade) { return shade > 0.655 ? kOnHigh : kOnLow; }

void draw_cells(Canvas& canvas, const Grid& grid, const Layout& layout) {
  for (const bool cold : {false, true}) {
    if (cold && !layout.diverging) continue;
    canvas.begin_cells(cold ? kCold : kHeat);
    for (std::size_t i = 0; i < grid.values.size(); ++i) {
      const double value = grid.values[i];
      if (!std::isfinite(value) || (value < 0) != cold) continue;
      const Point at = layout.corner(i / grid.columns.size(), i % grid.columns.size());
      canvas.cell({at.x + 0.5, at.y + 0.5}, layout.cell_width - 1, layout.cell_height - 1,
                  std::clamp(std::abs(value) / layout.largest, 0.03, 1.0));
    }
    canvas.end_cells();
  }
}

// All numbers with as many decimals as show two digits of the largest.
std::string number_in(const Layout& layout, double value) {
  if (!std::isfinite(value)) return "–";
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(layout.largest))), 0, 4);
  return layout.largest >= 1e6 || layout.largest < 1e-3 ? number(value)
                                                        : typeset(fmt::format("{:.{}f}", value, decimals));
}

void draw_numbers(Canvas& canvas, const Grid& grid, const Layout& layout) {
  double widest = 0;
  for (const double value : grid.values) widest = std::max(widest, width_of(number_in(layout, value), kNumberSize));
  const bool fit = grid.numbers && widest + 2 <= layout.cell_width;
  for (std::size_t i = 0; i < grid.values.size(); ++i) {
    const double value = grid.values[i];
    if (!fit && std::isfinite(value)) continue;
    const Point at = layout.corner(i / grid.columns.size(), i % grid.columns.size());
    canvas.text(std::isfinite(value) ? ink_on(std::abs(value) / layout.largest) : kSoft,
                {at.x + layout.cell_width / 2, at.y + layout.cell_height / 2 + 0.35 * kNumberSize},
                number_in(layout, value), {.size = kNumberSize, .anchor = Anchor::middle});
  }
}

void draw_labels(Canvas& canvas, const Grid& grid, const Layout& layout, double bottom) {
  for (std::size_t r = 0; r < grid.rows.size(); ++r) {
    canvas.text(kSoft, {layout.left - 8, layout.corner(r, 0).y + layout.cell_height / 2 + 0.35 * kTickSize},
                fitted(shortened(visible(grid.rows[r]), 30), layout.left - 8, kTickSize),
                {.size = kTickSize, .anchor = Anchor::end});
  }
  double free_from = -1e9;
  for (std::size_t c = 0; c < grid.columns.size(); ++c) {
    const std::string words = shortened(visible(grid.columns[c]), 30);
    const double centre = layout.corner(0, c).x + layout.cell_width / 2, half = width_of(words, kTickSize) / 2;
    if (centre - half < free_from) continue;
    canvas.text(kSoft, {centre, bottom + 16}, words, {.size = kTickSize, .anchor = Anchor::middle});
    free_from = centre + half + 6;
  }
  const double middle = layout.left + layout.cell_width * static_cast<double>(grid.columns.size()) / 2;
  canvas.text(kInk, {middle, bottom + 36}, grid.x_label, {.size = kLabelSize, .anchor = Anchor::middle});
}

std::string description_of(const Grid& grid) {
  const auto finite_below = [](double a, double b) { return !std::isfinite(a) || (std::isfinite(b) && a < b); };
  const auto top = std::max_element(grid.values.begin(), grid.values.end(), finite_below);
  const auto index = static_cast<std::size_t>(top - grid.values.begin());
  return fmt::format("Heat map of {}: {} by {}. The largest value, {}, is at {}, {}.", grid.value_label, grid.y_label,
                     grid.x_label, number(*top), grid.rows[index / grid.columns.size()],
                     grid.columns[index % grid.columns.size()]);
}

}  // namespace

Drawing draw(const Grid& grid, Sheet sheet) {
  if (grid.rows.empty() || grid.columns.empty()) refuse("a grid needs a row and a column");
  expect_count("values of the grid", grid.values.size(), grid.rows.size() * grid.columns.size());
  Layout layout = layout_of(grid, sheet.width);
  Drawing drawing{sheet.width, 0, {}, description_of(grid)};
  const Ramp ramp{layout.diverging ? number(-layout.largest) : "0", number(layout.largest), grid.value_label,
                  layout.diverging};
  const double right = std::max(layout.corner(0, grid.columns.size()).x, std::min(sheet.width, 420.0));
  layout.top = draw_ramp(drawing.canvas, grid.y_label, ramp, right) + 6;
  const double bottom = layout.corner(grid.rows.size(), 0).y;
  drawing.height = bottom + 42;
  draw_cells(drawing.canvas, grid, layout);
  draw_numbers(drawing.canvas, grid, layout);
  draw_labels(drawing.canvas, grid, layout, bottom);
  return drawing;
}

}  // namespace polyhead::report
