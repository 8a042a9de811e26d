// report_sample FOLDER: writes page.html, every figure of it as SVG and PNG, and hostile.html.
#include <filesystem>
#include <fstream>

#include "report/png.h"
#include "report/sample.h"

int main(int count, char** words) {
  if (count != 2) return 2;
  const std::filesystem::path folder = words[1];
  std::filesystem::create_directories(folder);
  const polyhead::report::Page page = polyhead::report::sample_page();
  std::ofstream(folder / "page.html") << polyhead::report::html(page);
  std::ofstream(folder / "hostile.html") << polyhead::report::html(polyhead::report::hostile_page());
  for (const polyhead::report::Figure& figure : page.figures) {
    const std::string svg = polyhead::report::svg(figure);
    std::ofstream(folder / (figure.id + ".svg")) << svg;
    std::ofstream(folder / (figure.id + ".png"), std::ios::binary) << polyhead::report::png(svg);
  }
  return 0;
}
