#include "exam/examination.h"

#include <gtest/gtest.h>

#include "exam/cut.h"

namespace polyhead::exam {
namespace {

TEST(Cut, WhoIsLeftIsWhoIsNotGone) {
  const model::Config config = model::make_config(model::Kind::gpt, 2, 8, 2);
  EXPECT_EQ(left_of(config, {{0, 1}, {1, 0}}), (std::vector<HeadId>{{0, 0}, {1, 1}}));
  EXPECT_EQ(left_of(config, {}).size(), 4u);
}

TEST(Examine, NobodyIsNearestToItself) {
  Context context(1);
  const auto task = train::make_task({.name = "copy", .context = 9});
  model::Config config = model::make_config(model::Kind::gpt, 1, 8, 4);
  train::fit_to_task(config, *task);
  model::Transformer model(config, 1);
  const Material material = make_material(*task, {.samples = 4});
  int told = 0;
  const Examination found =
      examine(context, model, material, {.on_head = [&](std::int64_t done) { EXPECT_EQ(done, ++told); }});
  EXPECT_EQ(told, 4) << "every head, one after the other";
  ASSERT_EQ(found.nearest.size(), 4u);
  const auto agreement = heads::agreement(found.survey);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_NE(found.nearest[n].id, found.importance[n].id);
    for (std::size_t other = 0; other < 4; ++other) {
      if (other != n) {
        EXPECT_GE(found.nearest[n].agreement, agreement[n][other]);
      }
    }
  }
}

}  // namespace
}  // namespace polyhead::exam
