#include "cli/say.h"

#include <cstdio>

namespace polyhead::cli {

void say(const std::string& text) noexcept {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace polyhead::cli
