// The axes of a plot: a rule per tick of y, a baseline with the ticks of x, and both labels.
#pragma once

#include <string>
#include <vector>

#include "report/canvas.h"
#include "report/scale.h"

namespace polyhead::report {

inline constexpr double kTickSize = 12, kLabelSize = 12;

struct Box {
  double left = 0, right = 0, top = 0, bottom = 0;
};

// What the sheet has left after the labels of y, the margins above and on the right, and the x axis below.
Box box_for(Sheet sheet, const std::vector<std::string>& y_labels, double top, double right_margin,
            double bottom_margin = 42);

void draw_y_axis(Canvas& canvas, const Box& box, const Scale& y, const std::vector<double>& ticks,
                 const std::string& label);

// Leaves out labels that would touch the one before.
void draw_x_axis(Canvas& canvas, const Box& box, const Scale& x, const std::vector<double>& ticks,
                 const std::string& label);

// Names with their colours, line by line from `top` on. Returns the height that they take.
double draw_legend(Canvas& canvas, const std::vector<std::string>& names, double top, double width);

// Throws Error (shape) unless `count` is `expected`.
void expect_count(const std::string& what, std::size_t count, std::size_t expected);
// Throws Error (value).
[[noreturn]] void refuse(const std::string& message);

}  // namespace polyhead::report
