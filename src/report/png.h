// Pixels from a figure.
#pragma once

#include <string>

namespace polyhead::report {

// Whether this machine has what draws: librsvg, which is looked for at run time.
bool can_draw_png();
constexpr const char* kPngNeeds = "on Debian and Ubuntu, 'apt install librsvg2-2' installs it";

// The bytes of a PNG file that shows the SVG at `scale` pixels per unit. Throws Error if it cannot be read or drawn,
// or if nothing here draws.
std::string png(const std::string& svg, double scale = 2);

}  // namespace polyhead::report
