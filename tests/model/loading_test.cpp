// Loading takes the memory of the file, and hardly more: tensors are moved in, nothing is made beforehand.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/scratch.h"
#include "model/checkpoint.h"

namespace polyhead::model {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep books of their own
// Bytes of a field of /proc/self/status.
double status(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field + ":")) return 1024 * std::stod(line.substr(field.size() + 1));
  }
  return 0;
}

TEST(Loading, TakesTheMemoryOfTheFile) {
  const io::Scratch scratch;
  {
    Config config = make_config(Kind::gpt, 1, 512, 8);
    config.vocabulary = 20'000;
    config.context = 16;
    save(Transformer(config, 1), scratch.folder());
  }
  const auto file = static_cast<double>(std::filesystem::file_size(scratch / kWeightsFile));
  ASSERT_GT(file, 80e6);
  if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush)) GTEST_SKIP() << "the peak cannot be reset";
  const double before = status("VmRSS");
  const auto model = load(scratch.folder());
  const double peak = status("VmHWM") - before;
  EXPECT_GT(peak, 0.7 * file) << "else this shows nothing";
  EXPECT_LE(peak, 1.2 * file);
}
#endif

}  // namespace
}  // namespace polyhead::model
