// What the plots draw with: a few shapes in named inks. A page may give each ink another colour by its class.
#pragma once

#include <string>
#include <string_view>

#include "report/figure.h"

namespace polyhead::report {

struct Ink {
  std::string_view name;    // the class
  std::string_view colour;  // unless a style sheet says otherwise
};
inline constexpr Ink kInk{"ink", "#1b1f24"}, kSoft{"soft", "#59616b"}, kFaint{"faint", "#d9dde2"},
    kAxis{"axis", "#8b929b"}, kPaper{"paper", "#ffffff"}, kHeat{"heat", "#08306b"}, kCold{"cold", "#6b1f00"},
    kOnLow{"on-low", "#000000"}, kOnHigh{"on-high", "#ffffff"};  // numbers on light and on dark shades

// The colour of a role, the same in every figure and on the page; of one that is not in the page's table, that of
// others; of none (""), that of none.
Ink role_ink(std::string_view role);

// Okabe and Ito's colours, without the yellow that is lost on white; they repeat after the seventh.
Ink series_ink(std::size_t index);

struct Point {
  double x = 0, y = 0;
};

enum class Anchor { start, middle, end };

struct Font {
  double size = 12;
  bool bold = false;
  Anchor anchor = Anchor::start;
  double turn = 0;  // degrees, clockwise
};

// Collects shapes. y points down.
class Canvas {
 public:
  void line(Ink ink, Point from, Point to, double width = 1, bool dashed = false);
  void rectangle(Ink ink, Point corner, double width, double height, double opacity = 1);
  void dot(Ink ink, Point centre, double radius);
  void stroke(Ink ink, std::string_view path, double width);
  void fill(Ink ink, std::string_view path, double opacity);
  void text(Ink ink, Point at, std::string_view words, Font font = {});

  // Cells in between share the ink, instead of many rectangles that each name it.
  void begin_cells(Ink ink);
  void cell(Point corner, double width, double height, double opacity);
  void end_cells();

  const std::string& shapes() const { return shapes_; }

 private:
  std::string shapes_;
};

// A plot before it is placed in a file or page.
struct Drawing {
  double width = 0, height = 0;
  Canvas canvas;
  std::string description;  // what it shows, for those who cannot see it
};

// What a plot may fill; grids take the height that they need.
struct Sheet {
  double width = 0, height = 0;
};
inline constexpr Sheet kWide{680, 340}, kNarrow{340, 290};

Drawing draw(const Lines& lines, Sheet sheet);
Drawing draw(const Bars& bars, Sheet sheet);
Drawing draw(const Grid& grid, Sheet sheet);
Drawing draw(const HeadGrid& heads, Sheet sheet);

// The key to the shades: from one label to the other, or from minus to plus through zero.
struct Ramp {
  std::string low, high, label;
  bool diverging = false;
};
// The caption on the left, the ramp on the right, or in two lines if they would touch. Returns the height.
double draw_ramp(Canvas& canvas, std::string_view caption, const Ramp& ramp, double width);

}  // namespace polyhead::report
