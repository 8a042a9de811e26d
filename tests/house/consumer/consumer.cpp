// A program outside the tree. Exits 0 if the installed headers and library work together.
#include <polyhead/polyhead.h>

#include <cmath>
#include <string>

int main() {
  const std::string expected = std::to_string(POLYHEAD_VERSION_MAJOR) + "." + std::to_string(POLYHEAD_VERSION_MINOR) +
                               "." + std::to_string(POLYHEAD_VERSION_PATCH);
  if (polyhead::version() != expected) return 1;

  // Two equal keys share the weight, so the output is the mean of the values.
  const float q[] = {1, 2}, k[] = {3, 4, 3, 4}, v[] = {1, 5};
  polyhead::Context context(1);
  const polyhead::Attention result = polyhead::attend(context, {q, {1, 1, 1, 2}}, {k, {1, 1, 2, 2}}, {v, {1, 1, 2, 1}});
  if (std::abs(result.output.as<float>()[0] - 3) > 1e-5f) return 2;

  // An exception crosses the library's edge with its type.
  try {
    polyhead::attend(context, {q, {1, 1, 1, 2}}, {k, {1, 1, 4, 1}}, {v, {1, 1, 2, 1}});
  } catch (const polyhead::Error& error) {
    return error.code() == polyhead::ErrorCode::shape ? 0 : 3;
  }
  return 4;
}
