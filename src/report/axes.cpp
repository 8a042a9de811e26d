#include "report/axes.h"

#include <fmt/format.h>

#include <algorithm>

#include "polyhead/error.h"
#include "report/text.h"

namespace polyhead::report {

Box box_for(Sheet sheet, const std::vector<std::string>& y_labels, double top, double right_margin,
            double bottom_margin) {
  double widest = 0;
  for (const std::string& label : y_labels) widest = std::max(widest, width_of(label, kTickSize));
  return {widest + 10, sheet.width - right_margin, top, sheet.height - bottom_margin};
}

void draw_y_axis(Canvas& canvas, const Box& box, const Scale& y, const std::vector<double>& ticks,
                 const std::string& label) {
  const std::vector<std::string> labels = tick_labels(ticks);
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    if (y(ticks[i]) < box.top - 0.5 || y(ticks[i]) > box.bottom + 0.5) continue;
    canvas.line(kFaint, {box.left, y(ticks[i])}, {box.right, y(ticks[i])});
    canvas.text(kSoft, {box.left - 8, y(ticks[i]) + 0.35 * kTickSize}, labels[i],
                {.size = kTickSize, .anchor = Anchor::end});
  }
  canvas.text(kInk, {0, kLabelSize}, label, {.size = kLabelSize});
}

void draw_x_axis(Canvas& canvas, const Box& box, const Scale& x, const std::vector<double>& ticks,
                 const std::string& label) {
  canvas.line(kAxis, {box.left, box.bottom}, {box.right, box.bottom});
  const std::vector<std::string> labels = tick_labels(ticks);
  double free_from = -1e9;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double at = x(ticks[i]), half = width_of(labels[i], kTickSize) / 2;
    if (at < box.left - 0.5 || at > box.right + 0.5) continue;
    canvas.line(kAxis, {at, box.bottom}, {at, box.bottom + 4});
    if (at - half < free_from) continue;
    canvas.text(kSoft, {at, box.bottom + 18}, labels[i], {.size = kTickSize, .anchor = Anchor::middle});
    free_from = at + half + 6;
  }
  canvas.text(kInk, {(box.left + box.right) / 2, box.bottom + 38}, label,
              {.size = kLabelSize, .anchor = Anchor::middle});
}

double draw_legend(Canvas& canvas, const std::vector<std::string>& names, double top, double width) {
  constexpr double kLine = 18, kSwatch = 12, kSpace = 18;
  double x = 0, y = top;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = fitted(names[i], width - kSwatch - 6, kLabelSize);
    const double taken = kSwatch + 6 + width_of(name, kLabelSize);
    if (x > 0 && x + taken > width) {
      x = 0;
      y += kLine;
    }
    canvas.rectangle(series_ink(i), {x, y + 3}, kSwatch, 8);
    canvas.text(kInk, {x + kSwatch + 6, y + 11}, name, {.size = kLabelSize});
    x += taken + kSpace;
  }
  return y + kLine - top;
}

void expect_count(const std::string& what, std::size_t count, std::size_t expected) {
  if (count == expected) return;
  throw Error(ErrorCode::shape, "figure", fmt::format("expected {} {}, found {}", expected, what, count));
}

void refuse(const std::string& message) { throw Error(ErrorCode::value, "figure", message); }

}  // namespace polyhead::report
