// All heads side by side. Tokens appear once per row and column of panels; if cells are small, only every n-th.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/axes.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

constexpr int kTokenLetters = 12;
constexpr double kGap = 14, kHead = 34;
constexpr std::size_t kMostCells = 200'000;  // with more, a figure would be tens of megabytes

void check(const HeadGrid& grid) {
  if (grid.heads.empty() || grid.queries.empty() || grid.keys.empty()) refuse("a grid of heads needs heads and tokens");
  if (grid.columns < 1) refuse(fmt::format("a grid of heads needs a column, found {}", grid.columns));
  const std::size_t cells = grid.queries.size() * grid.keys.size();
  for (const HeadPanel& head : grid.heads) expect_count("weights of " + head.title, head.weights.size(), cells);
  if (cells * grid.heads.size() > kMostCells) {
    refuse(fmt::format("{} heads of {} queries by {} keys are too many cells for a figure; the page shows them",
                       grid.heads.size(), grid.queries.size(), grid.keys.size()));
  }
}

struct Layout {
  std::size_t columns = 0;
  double left = 0, top = 0, below = 0;  // room for the tokens
  double width = 0, height = 0;         // of a panel
  double cell_width = 0, cell_height = 0;

  Point corner(std::size_t panel) const {
    const std::size_t row = panel / columns, column = panel % columns;
    return {left + static_cast<double>(column) * (width + kGap),
            top + kHead + static_cast<double>(row) * (height + kHead + 8)};
  }
};

double font_for(double cell) { return std::clamp(0.95 * cell, 7.0, 11.0); }

std::string token(const std::string& text) { return shortened(visible_token(text), kTokenLetters); }

double widest(const std::vector<std::string>& tokens, double size) {
  double width = 0;
  for (const std::string& text : tokens) width = std::max(width, width_of(token(text), size));
  return width;
}

Layout layout_of(const HeadGrid& grid, double width) {
  Layout layout;
  layout.left = widest(grid.queries, 11) + 8;
  const double least = width > kNarrow.width ? 60 : 100;  // of a panel's width
  const auto most = static_cast<std::size_t>(std::max(1.0, (width - layout.left + kGap) / (least + kGap)));
  layout.columns = std::min({static_cast<std::size_t>(grid.columns), grid.heads.size(), most});
  const auto columns = static_cast<double>(layout.columns);
  const double room = (width - layout.left - (columns - 1) * kGap) / columns;
  layout.cell_width = std::min(room, 240.0) / static_cast<double>(grid.keys.size());
  layout.cell_height = layout.cell_width *
                       std::min(1.0, static_cast<double>(grid.keys.size()) / static_cast<double>(grid.queries.size()));
  layout.width = layout.cell_width * static_cast<double>(grid.keys.size());
  layout.height = layout.cell_height * static_cast<double>(grid.queries.size());
  layout.below = widest(grid.keys, font_for(layout.cell_width)) + 8;
  return layout;
}

// A run of cells of the same shade is one rectangle.
void draw_weights(Canvas& canvas, const HeadGrid& grid, const Layout& layout, std::size_t panel) {
  const std::vector<float>& weights = grid.heads[panel].weights;
  const std::size_t keys = grid.keys.size();
  const auto shade = [&](std::size_t i) {
    const double weight = weights[i];
    return weight > 0 ? std::lround(100 * std::sqrt(std::min(weight, 1.0))) : 0;
  };
  const Point corner = layout.corner(panel);
  canvas.begin_cells(kHeat);
  for (std::size_t q = 0; q < grid.queries.size(); ++q) {
    for (std::size_t k = 0; k < keys;) {
      const auto of_run = shade(q * keys + k);
      std::size_t end = k + 1;
      while (end < keys && shade(q * keys + end) == of_run) ++end;
      if (of_run > 0) {
        canvas.cell({corner.x + static_cast<double>(k) * layout.cell_width,
                     corner.y + static_cast<double>(q) * layout.cell_height},
                    static_cast<double>(end - k) * layout.cell_width, layout.cell_height,
                    static_cast<double>(of_run) / 100);
      }
      k = end;
    }
  }
  canvas.end_cells();
}

void draw_frame(Canvas& canvas, const HeadPanel& head, Point corner, const Layout& layout) {
  const double right = corner.x + layout.width, bottom = corner.y + layout.height;
  canvas.stroke(kFaint, fmt::format("M{0:.1f} {1:.1f}H{2:.1f}V{3:.1f}H{0:.1f}Z", corner.x, corner.y, right, bottom), 1);
  const auto fitting = [&](const std::string& words, double size) {
    return shortened(visible(words), static_cast<int>(layout.width / (0.56 * size)));
  };
  canvas.text(kInk, {corner.x, corner.y - 18}, fitting(head.title, 12), {.size = 12, .bold = true});
  const double dot = head.role.empty() ? 0 : 11;
  if (dot > 0) canvas.dot(role_ink(head.role), {corner.x + 4, corner.y - 9}, 4);
  canvas.text(kSoft, {corner.x + dot, corner.y - 5}, fitting(head.note, 11), {.size = 11});
}

void draw_queries(Canvas& canvas, const HeadGrid& grid, const Layout& layout, Point corner) {
  const double size = font_for(layout.cell_height);
  const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(size / layout.cell_height)));
  for (std::size_t q = 0; q < grid.queries.size(); q += every) {
    canvas.text(kSoft, {corner.x - 4, corner.y + (static_cast<double>(q) + 0.5) * layout.cell_height + 0.35 * size},
                token(grid.queries[q]), {.size = size, .anchor = Anchor::end});
  }
}

void draw_keys(Canvas& canvas, const HeadGrid& grid, const Layout& layout, Point corner) {
  const double size = font_for(layout.cell_width);
  const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(size / layout.cell_width)));
  for (std::size_t k = 0; k < grid.keys.size(); k += every) {
    canvas.text(
        kSoft,
        {corner.x + (static_cast<double>(k) + 0.5) * layout.cell_width + 0.35 * size, corner.y + layout.height + 4},
        token(grid.keys[k]), {.size = size, .anchor = Anchor::end, .turn = -90});
  }
}

std::string description_of(const HeadGrid& grid) {
  return fmt::format("Attention weights of {} heads: {} queries down, {} keys across.", grid.heads.size(),
                     grid.queries.size(), grid.keys.size());
}

}  // namespace

Drawing draw(const HeadGrid& grid, Sheet sheet) {
  check(grid);
  Layout layout = layout_of(grid, sheet.width);
  const double right = layout.corner(layout.columns - 1).x + layout.width;
  Drawing drawing{std::max(right + 2, std::min(sheet.width, 460.0)), 0, {}, description_of(grid)};
  Canvas& canvas = drawing.canvas;
  layout.top =
      draw_ramp(canvas, "queries ↓, keys →", {"0", "1", "weight (square-root scale)", false}, drawing.width - 2);
  drawing.height = layout.corner(grid.heads.size() - 1).y + layout.height + layout.below;
  for (std::size_t panel = 0; panel < grid.heads.size(); ++panel) {
    const Point corner = layout.corner(panel);
    draw_weights(canvas, grid, layout, panel);
    draw_frame(canvas, grid.heads[panel], corner, layout);
    if (panel % layout.columns == 0) draw_queries(canvas, grid, layout, corner);
    // Below the last panel of every column; a shorter column has its tokens in the empty place.
    if (panel + layout.columns >= grid.heads.size()) draw_keys(canvas, grid, layout, corner);
  }
  return drawing;
}

}  // namespace polyhead::report
