// Philox4x32-10 against the known answers that its authors published with Random123.
#include "core/philox.h"

#include <gtest/gtest.h>

namespace polyhead {
namespace {

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox::words(0, {0, 0, 0, 0}), (Philox::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox::words(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Philox::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::words(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Philox::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, IsAConstantExpression) {
  static_assert(Philox::words(0, {})[0] == 0x6627e8d5);
  static_assert(Philox::words(1, {}) != Philox::words(0, {}));
}

}  // namespace
}  // namespace polyhead
