// The entry for libFuzzer. The target is named in the environment:
// POLYHEAD_FUZZ=gguf polyhead_fuzz -max_total_time=60 FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "fuzz/targets.h"

namespace {

polyhead::fuzz::Target chosen() {
  const char* name = std::getenv("POLYHEAD_FUZZ");
  const std::vector<polyhead::fuzz::Target> all = polyhead::fuzz::targets();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& t) { return name != nullptr && t.name == name; });
  if (found != all.end()) return *found;
  std::cerr << "POLYHEAD_FUZZ: expected safetensors, gguf, config or tokenizer, found "
            << (name == nullptr ? "nothing" : name) << "\n";
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const polyhead::fuzz::Target target = chosen();
  target.read({reinterpret_cast<const char*>(data), size});
  return 0;
}
