// librsvg draws, on a surface of cairo's. They are looked for at run time: the command works without them, and a wheel
// or an archive of it runs where they are not. So their few functions are declared here, as their headers have them.
#include "report/png.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <memory>

#include "polyhead/error.h"

namespace polyhead::report {
namespace {

struct Handle;   // RsvgHandle
struct Surface;  // cairo_surface_t
struct Pen;      // cairo_t
struct Rectangle {
  double x, y, width, height;
};
struct Reason {  // GError
  std::uint32_t domain;
  int code;
  char* message;
};
using Write = int (*)(void* closure, const unsigned char* data, unsigned int length);  // returns 0, cairo's success

constexpr const char* kLibrary = "librsvg-2.so.2";  // brings cairo and GObject
constexpr int kArgb32 = 0;                          // CAIRO_FORMAT_ARGB32

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::value, "png", what); }

class Rsvg {
 public:
  Handle* (*read)(const std::uint8_t*, std::size_t, Reason**);
  int (*size)(Handle*, double*, double*);
  int (*draw)(Handle*, Pen*, const Rectangle*, Reason**);
  void (*release)(void*);
  void (*clear)(Reason**);
  Surface* (*surface)(int, int, int);
  void (*release_surface)(Surface*);
  Pen* (*pen)(Surface*);
  void (*release_pen)(Pen*);
  int (*write)(Surface*, Write, void*);
  const char* (*status)(int);

  Rsvg() : library_(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
    find(read, "rsvg_handle_new_from_data");
    find(size, "rsvg_handle_get_intrinsic_size_in_pixels");
    find(draw, "rsvg_handle_render_document");
    find(release, "g_object_unref");
    find(clear, "g_clear_error");
    find(surface, "cairo_image_surface_create");
    find(release_surface, "cairo_surface_destroy");
    find(pen, "cairo_create");
    find(release_pen, "cairo_destroy");
    find(write, "cairo_surface_write_to_png_stream");
    find(status, "cairo_status_to_string");
  }
  bool complete() const { return complete_; }

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
    complete_ = complete_ && function != nullptr;
  }

  void* library_;  // stays loaded: GObject cannot be unloaded
  bool complete_ = true;
};

const Rsvg& rsvg() {
  static const Rsvg found;
  return found;
}

[[noreturn]] void fail(const std::string& what, Reason* reason) {
  const std::string message = reason == nullptr ? what : fmt::format("{}: {}", what, reason->message);
  rsvg().clear(&reason);
  fail(message);
}

int append(void* bytes, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return 0;
}

}  // namespace

bool can_draw_png() { return rsvg().complete(); }

std::string png(const std::string& svg, double scale) {
  const Rsvg& use = rsvg();
  if (!use.complete())
    fail(fmt::format("expected librsvg 2.52 or later, found no {} of that kind; {}", kLibrary, kPngNeeds));
  Reason* reason = nullptr;
  const std::unique_ptr<Handle, void (*)(Handle*)> handle(
      use.read(reinterpret_cast<const std::uint8_t*>(svg.data()), svg.size(), &reason),
      [](Handle* object) { rsvg().release(object); });
  if (!handle) fail("this is no SVG", reason);
  double width = 0, height = 0;
  if (use.size(handle.get(), &width, &height) == 0) fail("the SVG has no size in pixels");
  const double columns = std::ceil(width * scale), rows = std::ceil(height * scale);
  constexpr double kMost = 32767;  // cairo's limit
  if (!(columns >= 1 && columns <= kMost && rows >= 1 && rows <= kMost)) {
    fail(fmt::format("expected 1 to {:.0f} pixels a side, found {:.0f} by {:.0f}", kMost, columns, rows));
  }
  const std::unique_ptr<Surface, void (*)(Surface*)> surface(
      use.surface(kArgb32, static_cast<int>(columns), static_cast<int>(rows)), use.release_surface);
  const std::unique_ptr<Pen, void (*)(Pen*)> pen(use.pen(surface.get()), use.release_pen);
  const Rectangle page{0, 0, columns, rows};
  if (use.draw(handle.get(), pen.get(), &page, &reason) == 0) fail("the SVG cannot be drawn", reason);
  std::string bytes;
  const int status = use.write(surface.get(), append, &bytes);
  if (status != 0) fail(use.status(status));
  return bytes;
}

}  // namespace polyhead::report
