// What a machine with a GPU, or without one, is told.
#include <gtest/gtest.h>

#include "kernels/executors.h"
#include "polyhead/context.h"
#include "polyhead/info.h"

namespace polyhead::test {
namespace {

TEST(Cuda, IsThereOrSaysWhyNot) {
  EXPECT_EQ(cuda::available(), cuda::reason().empty());
  EXPECT_EQ(info().cuda, cuda::available());
}

TEST(Cuda, ContextsAreRefusedWithTheReason) {
  const int index = cuda::available() ? 1000 : 0;  // no machine has so many
  try {
    const Context context(Device{Device::Kind::cuda, index});
    FAIL() << "a context on " << to_string(context.device());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_NE(std::string(error.what()).find(cuda::reason()), std::string::npos) << error.what();  // "" if there is one
  }
}

TEST(Cuda, StreamsBelongToGpus) {
  try {
    const Context context(Device{}, nullptr);
    FAIL() << "a stream on " << to_string(context.device());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_NE(std::string(error.what()).find("found cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace polyhead::test
