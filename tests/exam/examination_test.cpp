#include "exam/examination.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "exam/cut.h"

namespace polyhead::exam {
namespace {

TEST(Cut, WhoIsLeftIsWhoIsNotGone) {
  const model::Config config = model::make_config(model::Kind::gpt, 2, 8, 2);
  EXPECT_EQ(left_of(config, {{0, 1}, {1, 0}}), (std::vector<HeadId>{{0, 0}, {1, 1}}));
  EXPECT_EQ(left_of(config, {}).size(), 4u);
}

class Examine : public ::testing::Test {
 protected:
  static model::Config config(const train::Task& task) {
    model::Config made = model::make_config(model::Kind::gpt, 2, 8, 4);
    train::fit_to_task(made, task);
    return made;
  }

  Context context_{1};
  std::unique_ptr<train::Task> task_ = train::make_task({.name = "copy", .context = 9});
  model::Transformer model_{config(*task_), 1};
  Material material_ = make_material(*task_, {.samples = 4});
};

TEST_F(Examine, NobodyIsNearestToItself) {
  int told = 0;
  const Examination found = examine(context_, model_, material_,
                                    {.damage = {{.on_head = [&](std::int64_t done) { EXPECT_EQ(done, ++told); }}}});
  EXPECT_EQ(told, 8) << "every head, one after the other";
  ASSERT_EQ(found.nearest.size(), 8u);
  const auto agreement = heads::agreement(found.survey);
  for (std::size_t n = 0; n < 8; ++n) {
    EXPECT_NE(found.nearest[n].id, found.importance[n].id);
    for (std::size_t other = 0; other < 8; ++other) {
      if (other != n) {
        EXPECT_GE(found.nearest[n].agreement, agreement[n][other]);
      }
    }
  }
}

// By then roles and gradients are known.
TEST_F(Examine, HeadsAreKnockedOutAsTheyAreChosen) {
  const auto choose = [](const Examination& found) {
    EXPECT_EQ(found.roles.size(), 8u);
    EXPECT_GT(found.importance[6].gradient, 0);
    return std::vector<HeadId>{{1, 2}, {0, 1}};
  };
  const Examination all = examine(context_, model_, material_),
                    some = examine(context_, model_, material_, {.order = choose});
  for (std::size_t n = 0; n < 8; ++n) {
    EXPECT_EQ(heads::has_damage(some.importance[n]), n == 6 || n == 1) << n;
    EXPECT_EQ(some.importance[n].gradient, all.importance[n].gradient);
  }
  EXPECT_EQ(some.importance[6].zero.mean, all.importance[6].zero.mean);
  EXPECT_EQ(std::abs(some.gradient_and_zero), 1) << "of two heads";
}

// Weights of 0: every head looks at the first key, and all agree.
TEST_F(Examine, OfSeveralAsNearTheFirstIsNamed) {
  for (autograd::Parameter* parameter : model_.parameters()) {
    std::fill_n(parameter->value.as<float>(), count_of(parameter->value.shape()), 0.0f);
  }
  const Examination found = examine(context_, model_, material_, {.damage = {}});
  for (std::size_t n = 0; n < 8; ++n) {
    EXPECT_EQ(found.nearest[n].id, (HeadId{0, n == 0 ? 1 : 0}));
    EXPECT_EQ(found.nearest[n].agreement, 1);
  }
}

TEST_F(Examine, AHeadThatIsAloneIsNearestToItself) {
  model::Config one = model::make_config(model::Kind::gpt, 1, 8, 1);
  train::fit_to_task(one, *task_);
  model::Transformer model(one, 1);
  const Examination found = examine(context_, model, material_);
  ASSERT_EQ(found.nearest.size(), 1u);
  EXPECT_EQ(found.nearest[0].id, (HeadId{0, 0}));
  EXPECT_EQ(found.nearest[0].agreement, 1);
}

TEST_F(Examine, SaysOfTheModelWhatItsPartsSay) {
  const Examination found = examine(context_, model_, material_, {.seed = 7});
  const model::SequenceScores whole = model::score(context_, model_, material_.judging);
  EXPECT_EQ(found.loss, whole.mean_loss());
  EXPECT_EQ(found.accuracy, whole.accuracy());
  std::vector<double> gradient, zero, mean;
  const std::vector<HeadImportance> importance = heads::importance(context_, model_, material_.judging);
  for (std::size_t n = 0; n < 8; ++n) {
    EXPECT_EQ(found.importance[n].zero.mean, importance[n].zero.mean) << "of the sequences to judge by";
    gradient.push_back(importance[n].normalised);
    zero.push_back(importance[n].zero.mean);
    mean.push_back(importance[n].mean.mean);
  }
  EXPECT_EQ(found.gradient_and_zero, heads::rank_correlation(gradient, zero));
  EXPECT_EQ(found.gradient_and_mean, heads::rank_correlation(gradient, mean));
  EXPECT_EQ(found.zero_and_mean, heads::rank_correlation(zero, mean));
  EXPECT_NE(found.gradient_and_mean, found.gradient_and_zero) << "else this shows nothing";
  EXPECT_NE(found.gradient_and_mean, found.zero_and_mean);
  EXPECT_NE(found.gradient_and_zero, found.zero_and_mean);

  const auto expect_roles = [](const std::vector<heads::HeadRoles>& some, const std::vector<heads::HeadRoles>& others,
                               double off) {
    ASSERT_EQ(some.size(), others.size());
    for (std::size_t n = 0; n < some.size(); ++n) {
      for (const char* role : {"induction", "averaging"}) {
        EXPECT_NEAR(some[n].score_in(role)->score, others[n].score_in(role)->score, off) << role;
      }
    }
  };
  expect_roles(found.roles, survey_roles(context_, model_, material_).roles, 0);
  model::Transformer untrained(model_.config(), 7, DType::f32, host_allocator(), 1, model::Drawn::uniform);
  expect_roles(found.untrained, survey_roles(context_, untrained, material_).roles, 0.005);  // its products are coarse
  double most = 0;
  for (const heads::HeadRoles& head : found.roles) most = std::max(most, head.score_in("induction")->score);
  EXPECT_EQ(highest(found.roles, "induction"), most);
  EXPECT_EQ(highest(found.roles, "no such role"), 0);
}

// Long sequences can do without it; everything else is the same.
TEST_F(Examine, LeavesTheGradientOut) {
  const Examination all = examine(context_, model_, material_),
                    some = examine(context_, model_, material_, {.gradient = false});
  EXPECT_EQ(some.loss, all.loss);
  EXPECT_EQ(some.accuracy, all.accuracy);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(some.importance[n].gradient, 0);
    EXPECT_GT(all.importance[n].gradient, 0);
    EXPECT_EQ(some.importance[n].id, all.importance[n].id);
    EXPECT_EQ(some.importance[n].zero.mean, all.importance[n].zero.mean);
    EXPECT_EQ(some.importance[n].logit.mean, all.importance[n].logit.mean);
  }
  EXPECT_FALSE(some.sinks.has_value()) << "of a task there are none to count";
}

}  // namespace
}  // namespace polyhead::exam
