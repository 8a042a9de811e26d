#include "report/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/canvas.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

constexpr double kTitleSize = 16;
constexpr double kLetters = 78;  // letters of a title on a line

std::vector<std::string> wrapped(const std::string& text) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!lines.back().empty() && width_of(lines.back() + ' ' + word, 1) > kLetters * 0.5) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    at = end + 1;
  }
  return lines;
}

std::string_view class_of(Place place) {
  return place == Place::page ? " class=\"wide\"" : place == Place::narrow_page ? " class=\"narrow\"" : "";
}

std::string opening(double width, double height, const Figure& figure, const std::string& description, Place place) {
  return fmt::format(
      "<svg{4} xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"Inter, Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
      "<title>{2}</title>\n<desc>{3}</desc>\n",
      width, height, escaped(figure.title), escaped(description), class_of(place));
}

}  // namespace

std::string svg(const Figure& figure, Place place) {
  const Sheet sheet = place == Place::narrow_page ? kNarrow : kWide;
  const Drawing drawing = std::visit([&](const auto& plot) { return draw(plot, sheet); }, figure.plot);
  if (place != Place::file) {
    return opening(drawing.width, drawing.height, figure, drawing.description, place) + drawing.canvas.shapes() +
           "</svg>\n";
  }
  constexpr double kMargin = 20;
  const std::vector<std::string> title = wrapped(figure.title);
  const double head = kMargin + 1.3 * kTitleSize * static_cast<double>(title.size()) + 12;
  // Whole pixels: the paper covers the last row and column of a PNG.
  const double width = std::ceil(drawing.width + 2 * kMargin), height = std::ceil(head + drawing.height + kMargin);
  Canvas frame;
  frame.rectangle(kPaper, {0, 0}, width, height);
  for (std::size_t i = 0; i < title.size(); ++i) {
    frame.text(kInk, {kMargin, kMargin + kTitleSize * (0.85 + 1.3 * static_cast<double>(i))}, title[i],
               {.size = kTitleSize, .bold = true});
  }
  const std::string description =
      figure.caption.empty() ? drawing.description : figure.caption + ' ' + drawing.description;
  return opening(width, height, figure, description, place) + frame.shapes() +
         fmt::format("<g transform=\"translate({:g} {:g})\">\n", kMargin, head) + drawing.canvas.shapes() +
         "</g>\n</svg>\n";
}

}  // namespace polyhead::report
