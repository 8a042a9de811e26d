// Pixels from a figure.
#pragma once

#include <string>

namespace polyhead::report {

// The bytes of a PNG file that shows the SVG at `scale` pixels per unit. Throws Error if it cannot be read or drawn.
std::string png(const std::string& svg, double scale = 2);

}  // namespace polyhead::report
