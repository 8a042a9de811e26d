#include "report/png.h"

#include <cairo.h>
#include <fmt/format.h>
#include <librsvg/rsvg.h>

#include <cmath>
#include <memory>

#include "polyhead/error.h"

namespace polyhead::report {
namespace {

template <auto release>
struct Releaser {
  void operator()(auto* object) const { release(object); }
};
using Svg = std::unique_ptr<RsvgHandle, Releaser<g_object_unref>>;
using Surface = std::unique_ptr<cairo_surface_t, Releaser<cairo_surface_destroy>>;
using Pen = std::unique_ptr<cairo_t, Releaser<cairo_destroy>>;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::value, "png", what); }

[[noreturn]] void fail(const std::string& what, GError* error) {
  const std::string message = error == nullptr ? what : fmt::format("{}: {}", what, error->message);
  g_clear_error(&error);
  fail(message);
}

Svg parsed(const std::string& svg) {
  GError* error = nullptr;
  Svg handle(
      rsvg_handle_new_from_data(reinterpret_cast<const guint8*>(svg.data()), static_cast<gsize>(svg.size()), &error));
  if (!handle) fail("this is no SVG", error);
  return handle;
}

cairo_status_t append(void* bytes, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::string png(const std::string& svg, double scale) {
  const Svg handle = parsed(svg);
  double width = 0, height = 0;
  if (!rsvg_handle_get_intrinsic_size_in_pixels(handle.get(), &width, &height)) fail("the SVG has no size in pixels");
  const double columns = std::ceil(width * scale), rows = std::ceil(height * scale);
  constexpr double kMost = 32767;  // cairo's limit
  if (!(columns >= 1 && columns <= kMost && rows >= 1 && rows <= kMost)) {
    fail(fmt::format("expected 1 to {:.0f} pixels a side, found {:.0f} by {:.0f}", kMost, columns, rows));
  }
  const Surface surface(
      cairo_image_surface_create(CAIRO_FORMAT_ARGB32, static_cast<int>(columns), static_cast<int>(rows)));
  const Pen pen(cairo_create(surface.get()));
  const RsvgRectangle page{0, 0, columns, rows};
  GError* error = nullptr;
  if (!rsvg_handle_render_document(handle.get(), pen.get(), &page, &error)) fail("the SVG cannot be drawn", error);
  std::string bytes;
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status != CAIRO_STATUS_SUCCESS) fail(cairo_status_to_string(status));
  return bytes;
}

}  // namespace polyhead::report
