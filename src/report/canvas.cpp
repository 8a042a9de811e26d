#include "report/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "report/sources.h"
#include "report/text.h"

namespace polyhead::report {
namespace {

std::string painted(Ink ink) { return fmt::format(R"(class="{}" color="{}")", ink.name, ink.colour); }

std::string_view name_of(Anchor anchor) {
  switch (anchor) {
    case Anchor::start: return "start";
    case Anchor::middle: return "middle";
    case Anchor::end: break;
  }
  return "end";
}

}  // namespace

Ink series_ink(std::size_t index) {
  static constexpr std::array<Ink, 7> inks{{{"s0", "#0072b2"},
                                            {"s1", "#d55e00"},
                                            {"s2", "#009e73"},
                                            {"s3", "#cc79a7"},
                                            {"s4", "#e69f00"},
                                            {"s5", "#56b4e9"},
                                            {"s6", "#000000"}}};
  return inks[index % inks.size()];
}

Ink role_ink(std::string_view role) {
  std::string name = "role-" + (role.empty() ? std::string("none") : std::string(role));
  std::replace(name.begin(), name.end(), ' ', '-');
  const auto called = [&](std::string_view wanted) {
    return std::find_if(kRoleColours.begin(), kRoleColours.end(), [&](const auto& one) { return one.name == wanted; });
  };
  auto found = called(name);
  if (found == kRoleColours.end()) found = called("role-other");
  return {found->name, found->colour};
}

void Canvas::line(Ink ink, Point from, Point to, double width, bool dashed) {
  shapes_ += fmt::format(R"(<line {} stroke="currentColor" stroke-width="{:g}"{} x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" )"
                         R"(y2="{:.1f}"/>)"
                         "\n",
                         painted(ink), width, dashed ? R"( stroke-dasharray="3 3")" : "", from.x, from.y, to.x, to.y);
}

void Canvas::rectangle(Ink ink, Point corner, double width, double height, double opacity) {
  shapes_ += fmt::format(R"(<rect {} fill="currentColor" fill-opacity="{:.3g}" x="{:.2f}" y="{:.2f}" width="{:.2f}" )"
                         R"(height="{:.2f}"/>)"
                         "\n",
                         painted(ink), opacity, corner.x, corner.y, width, height);
}

void Canvas::dot(Ink ink, Point centre, double radius) {
  shapes_ += fmt::format(R"(<circle {} fill="currentColor" cx="{:.1f}" cy="{:.1f}" r="{:g}"/>)"
                         "\n",
                         painted(ink), centre.x, centre.y, radius);
}

void Canvas::stroke(Ink ink, std::string_view path, double width) {
  shapes_ += fmt::format(R"(<path {} fill="none" stroke="currentColor" stroke-width="{:g}" stroke-linejoin="round" )"
                         R"(stroke-linecap="round" d="{}"/>)"
                         "\n",
                         painted(ink), width, path);
}

void Canvas::fill(Ink ink, std::string_view path, double opacity) {
  shapes_ += fmt::format(R"(<path {} fill="currentColor" fill-opacity="{:.3g}" d="{}"/>)"
                         "\n",
                         painted(ink), opacity, path);
}

void Canvas::text(Ink ink, Point at, std::string_view words, Font font) {
  const std::string turn =
      font.turn == 0 ? "" : fmt::format(" transform=\"rotate({:g} {:.1f} {:.1f})\"", font.turn, at.x, at.y);
  shapes_ += fmt::format(R"(<text {} fill="currentColor" font-size="{:.3g}"{}{}{} x="{:.1f}" y="{:.1f}">{}</text>)"
                         "\n",
                         painted(ink), font.size, font.bold ? R"( font-weight="600")" : "",
                         font.anchor == Anchor::start ? "" : fmt::format(R"( text-anchor="{}")", name_of(font.anchor)),
                         turn, at.x, at.y, escaped(words));
}

void Canvas::begin_cells(Ink ink) {
  shapes_ += fmt::format("<g {} fill=\"currentColor\" shape-rendering=\"crispEdges\">\n", painted(ink));
}

void Canvas::cell(Point corner, double width, double height, double opacity) {
  shapes_ += fmt::format(R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill-opacity="{:.2f}"/>)"
                         "\n",
                         corner.x, corner.y, width, height, opacity);
}

void Canvas::end_cells() { shapes_ += "</g>\n"; }

double draw_ramp(Canvas& canvas, std::string_view caption, const Ramp& ramp, double right) {
  constexpr double kStep = 6, kHeight = 9, kSize = 11, kLine = 22, top = 3;
  constexpr int kSteps = 16;
  const double words = width_of(ramp.low, kSize) + width_of(ramp.high, kSize) + width_of(ramp.label, kSize);
  const bool apart = !caption.empty() && width_of(caption, 12) + words + kSteps * kStep + 40 > right;
  canvas.text(kInk, {0, apart ? 12 + kLine : 12}, caption);
  const double x = right - width_of(ramp.high, kSize) - 6 - kSteps * kStep;
  for (int i = 0; i < kSteps; ++i) {
    const double place = (i + 0.5) / kSteps;
    const double shade = ramp.diverging ? 2 * place - 1 : place;
    canvas.rectangle(shade < 0 ? kCold : kHeat, {x + i * kStep, top}, kStep, kHeight, shade < 0 ? -shade : shade);
  }
  canvas.text(kSoft, {right, top + kHeight}, ramp.high, {.size = kSize, .anchor = Anchor::end});
  canvas.text(kSoft, {x - 6, top + kHeight}, ramp.low, {.size = kSize, .anchor = Anchor::end});
  canvas.text(kSoft, {x - 14 - width_of(ramp.low, kSize), top + kHeight}, ramp.label,
              {.size = kSize, .anchor = Anchor::end});
  return apart ? 2 * kLine : kLine;
}

}  // namespace polyhead::report
