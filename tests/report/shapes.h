// An SVG of ours read back: its shapes, with the ink that they are drawn in.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "report/figure.h"

namespace polyhead::report {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Shape {
  std::string kind, ink, text;  // "rect", "s0", the words of a text
  std::map<std::string, std::string> attributes;

  double number(const std::string& name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) throw std::logic_error(kind + " has no " + name);
    return std::strtod(found->second.c_str(), nullptr);
  }
  bool has(const std::string& name) const { return attributes.contains(name); }
  std::string attribute(const std::string& name) const { return has(name) ? attributes.at(name) : ""; }

  // Of a rectangle.
  double left() const { return number("x"); }
  double right() const { return number("x") + number("width"); }
  double top() const { return number("y"); }
  double bottom() const { return number("y") + number("height"); }
  double middle_x() const { return (left() + right()) / 2; }
  double middle_y() const { return (top() + bottom()) / 2; }
  double shade() const { return number("fill-opacity"); }
  // About the middle of a line of letters.
  double letters_y() const { return number("y") - 0.35 * number("font-size"); }
};

struct Dot {
  double x, y;
  char pen;  // M or L
};

// The corners of a path of M, L and Z.
inline std::vector<Dot> corners_of(const std::string& path) {
  std::vector<Dot> corners;
  for (std::size_t at = 0; at < path.size();) {
    const char pen = path[at++];
    if (pen == 'Z') continue;
    char* end = nullptr;
    const double x = std::strtod(path.c_str() + at, &end), y = std::strtod(end, &end);
    corners.push_back({x, y, pen});
    at = static_cast<std::size_t>(end - path.c_str());
  }
  return corners;
}

inline std::string unescaped(std::string text) {
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"&lt;", "<"},
                                 {"&gt;", ">"},
                                 {"&quot;", "\""},
                                 {"&#39;", "'"},
                                 {"&amp;", "&"}}) {
    for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

class Shapes {
 public:
  explicit Shapes(const std::string& svg) {
    std::string group;  // the ink of the group that is open
    for (std::size_t at = 0; (at = svg.find('<', at)) != svg.npos;) {
      const std::size_t end = svg.find('>', at);
      const std::string tag = svg.substr(at + 1, end - at - 1);
      at = end + 1;
      if (tag == "/g") group.clear();
      if (tag[0] == '/') continue;
      Shape shape = read(tag);
      if (shape.kind == "g") group = shape.attribute("class");
      shape.ink = shape.has("class") ? shape.attribute("class") : group;
      if (shape.kind == "text") shape.text = unescaped(svg.substr(at, svg.find('<', at) - at));
      all_.push_back(std::move(shape));
    }
  }

  const std::vector<Shape>& all() const { return all_; }
  std::vector<Shape> of(const std::string& kind, const std::string& ink = "") const {
    std::vector<Shape> found;
    for (const Shape& shape : all_) {
      if (shape.kind == kind && (ink.empty() || shape.ink == ink)) found.push_back(shape);
    }
    return found;
  }
  // The one text that reads so.
  Shape text(const std::string& words) const {
    std::vector<Shape> found;
    for (const Shape& shape : all_) {
      if (shape.kind == "text" && shape.text == words) found.push_back(shape);
    }
    if (found.size() != 1) throw std::logic_error(std::to_string(found.size()) + " texts read '" + words + "'");
    return found[0];
  }

 private:
  static Shape read(std::string_view tag) {
    Shape shape;
    shape.kind = std::string(tag.substr(0, tag.find_first_of(" /")));
    for (std::size_t at = 0; (at = tag.find("=\"", at)) != tag.npos;) {
      const std::size_t name = tag.rfind(' ', at) + 1, end = tag.find('"', at + 2);
      shape.attributes[std::string(tag.substr(name, at - name))] = std::string(tag.substr(at + 2, end - at - 2));
      at = end + 1;
    }
    return shape;
  }

  std::vector<Shape> all_;
};

inline constexpr double kPixel = 0.11;  // places are written to a tenth

inline Shapes shapes_of(const std::variant<Lines, Bars, Grid, HeadGrid>& plot, Place place = Place::page) {
  return Shapes(svg({"id", "title", "", plot}, place));
}

}  // namespace polyhead::report
