// Figures as SVG. Colours are safe for the colour-blind: Okabe and Ito's for series, one hue for heat.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace polyhead::report {

struct Series {
  std::string name;
  std::vector<double> x, y;       // of one length; a y that is not finite leaves a gap
  std::vector<double> low, high;  // a band around y; both empty: none
  std::string role{};             // has the colour of this role; empty: the next of those that series have
};

struct Event {
  double x = 0;
  std::string label;
};

// Curves with their names at their ends.
struct Lines {
  std::string x_label, y_label;  // with units: "step", "time (ms)"
  std::vector<Series> series;
  bool log_x = false;           // then every x > 0
  std::vector<double> x_ticks;  // empty: chosen
  std::vector<Event> events;    // vertical lines
};

struct BarSeries {
  std::string name;
  std::vector<double> values;     // one per category; one that is not finite is left out
  std::vector<double> low, high;  // ends of the whiskers; both empty: none
};

// Bars from zero, side by side in each category.
struct Bars {
  std::string x_label, y_label;
  std::vector<std::string> categories;
  std::vector<BarSeries> series;
};

// Cells shaded by their value; negative ones, if any, in a second hue.
struct Grid {
  std::string x_label, y_label, value_label;
  std::vector<std::string> rows, columns;
  std::vector<double> values;  // [rows, columns]; not finite: an empty cell
  bool numbers = true;         // write the values into the cells, if they fit
  double full = 0;             // the value that has the full shade; 0: the largest there is
};

struct HeadPanel {
  std::string title, note;     // "layer 0 · head 3", "previous token 0.93"
  std::vector<float> weights;  // [queries, keys], from 0 to 1
  std::string role{};          // a dot of its colour stands before the note; empty: none does
};

// Attention matrices side by side: a row per query, a column per key, shaded by the square root of the weight.
struct HeadGrid {
  std::vector<std::string> queries, keys;  // tokens
  std::vector<HeadPanel> heads;
  int columns = 4;  // panels side by side
};

struct Figure {
  std::string id;  // letters, digits and hyphens
  std::string title, caption;
  std::variant<Lines, Bars, Grid, HeadGrid> plot;
};

// In a file a figure draws its own background and title; in a page both, and its colours, come from the page. A narrow
// page gets its own drawing, because letters do not shrink.
enum class Place { file, page, narrow_page };

// Throws Error if sizes do not fit together, or if there is nothing to draw.
std::string svg(const Figure& figure, Place place = Place::file);

}  // namespace polyhead::report
