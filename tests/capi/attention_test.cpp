// Attention through C comes to the bits of C++, for the whole catalogue; structs of other versions,
// missing arguments and messages are as the header says.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "capi/options.h"
#include "support/bits.h"
#include "support/cases.h"

namespace polyhead::test {
namespace {

// A tensor of the same shape and type, poisoned.
Tensor like(const Tensor& other) {
  if (!other.present()) return {};
  Tensor made = Tensor::empty(other.shape(), other.dtype());
  std::memset(made.view().data(), 0x7b, static_cast<std::size_t>(made.view().count()) * size_of(made.dtype()));
  return made;
}

TEST(Attention, InCIsAttentionInCpp) {
  Context context(2);
  const CContext in_c_context;
  for (const Case& recipe : catalogue()) {
    if (kSanitized && recipe.name.find("_and_") != recipe.name.npos) continue;  // each option has been there alone
    SCOPED_TRACE(recipe.name);
    const Materialised made = materialise(recipe);
    const Attention expected = attend(context, made.q, made.k, made.v, made.options, made.wants);
    Attention found{like(expected.output), like(expected.lse),        like(expected.weights),
                    like(expected.logits), like(expected.statistics), like(expected.row_statistics)};
    InC in_c;
    Options options;
    fill(options, made.options, in_c);
    const polyhead_attention_results results = {.size = sizeof results,
                                                .output = in_c(found.output),
                                                .lse = in_c(found.lse),
                                                .weights = in_c(found.weights),
                                                .logits = in_c(found.logits),
                                                .statistics = in_c(found.statistics),
                                                .row_statistics = in_c(found.row_statistics),
                                                .weight_heads = made.wants.weight_heads.data(),
                                                .weight_rows = made.wants.weight_rows.data(),
                                                .weight_head_count = made.wants.weight_heads.size(),
                                                .weight_row_count = made.wants.weight_rows.size(),
                                                .logit_stage = static_cast<std::int32_t>(made.wants.logits),
                                                .marked_keys = in_c(made.wants.marked_keys),
                                                .target_keys = in_c(made.wants.target_keys)};
    expect_ok(polyhead_attend(in_c_context, in_c(made.q), in_c(made.k), in_c(made.v), &options.c, &results));
    expect_same_bits(expected.output, found.output, "output");
    expect_same_bits(expected.lse, found.lse, "lse");
    expect_same_bits(expected.weights, found.weights, "weights");
    expect_same_bits(expected.logits, found.logits, "logits");
    expect_same_bits(expected.statistics, found.statistics, "statistics");
    expect_same_bits(expected.row_statistics, found.row_statistics, "row statistics");
  }
}

TEST(Attention, InCPartsDropWhatTheWholeDrops) {
  const CContext context;
  const Tensor x = normal({2, 4, 9, 8}, "x", DType::f32);
  Tensor whole = like(x), part = like(x);
  InC in_c;
  Options options;
  fill(options, {.dropout = {.p = 0.4, .seed = 3}}, in_c);
  const auto run = [&](const ConstTensorView& of, const ConstTensorView& into) {
    polyhead_attention_results results{};
    results.size = sizeof results;
    results.output = in_c(into);
    return polyhead_attend(context, in_c(of), in_c(of), in_c(of), &options.c, &results);
  };
  expect_ok(run(x, whole.view()));
  const auto later = [](const Tensor& of) { return of.view().slice(0, 1, 2).slice(1, 2, 4); };
  options.origin = {sizeof options.origin, 1, 2, 0, 0};
  expect_ok(run(later(x), later(part)));
  Context in_cpp(1);
  const Dims shape = later(x).shape();
  Tensor expected = Tensor::empty(shape, DType::f32), found = Tensor::empty(shape, DType::f32);
  copy(in_cpp, later(whole), expected);
  copy(in_cpp, later(part), found);
  expect_same_bits(expected, found, "output");
  options.origin.key = -1;
  expect_refused(run(x, whole.view()), POLYHEAD_VALUE, "an origin of 0 to 4294967295, found -1");
  options.origin.size = 0;
  expect_refused(run(x, whole.view()), POLYHEAD_VALUE, "dropout_origin.size");
}

TEST(MergeAttention, InCIsThatInCpp) {
  Context context(1);
  Case recipe;
  recipe.name = "merged_in_c";
  recipe.wants = {.lse = true, .statistics = StatisticsSet::light, .row_statistics = true};
  recipe.options.first_position = 90;
  const Materialised made = materialise(recipe);
  std::vector<Attention> results;
  std::vector<AttentionPart> parts;
  std::vector<polyhead_attention_results> parts_in_c;
  InC in_c;
  for (const auto& [begin, end] : {std::pair{0, 50}, {50, 131}}) {
    AttentionOptions options = made.options;
    *options.first_position -= begin;
    results.push_back(
        attend(context, made.q, made.k.slice(2, begin, end), made.v.slice(2, begin, end), options, made.wants));
  }
  for (const Attention& r : results) {
    parts.push_back({r.output, r.lse, r.row_statistics});
    polyhead_attention_results& part = parts_in_c.emplace_back();
    part.size = sizeof part;
    part.output = in_c(r.output);
    part.lse = in_c(r.lse);
    part.row_statistics = in_c(r.row_statistics);
  }
  Attention expected, found;
  for (Attention* into : {&expected, &found}) {
    *into = {like(results[0].output), like(results[0].lse), {}, {}, like(results[0].statistics), {}};
  }
  merge_attention(parts, {.output = expected.output, .lse = expected.lse, .statistics = expected.statistics});
  polyhead_attention_results merged{};
  merged.size = sizeof merged;
  merged.output = in_c(found.output);
  merged.lse = in_c(found.lse);
  merged.statistics = in_c(found.statistics);
  expect_ok(polyhead_merge_attention(parts_in_c.data(), parts_in_c.size(), &merged));
  expect_same_bits(expected.output, found.output, "output");
  expect_same_bits(expected.lse, found.lse, "lse");
  expect_same_bits(expected.statistics, found.statistics, "statistics");
  EXPECT_EQ(polyhead_merge_attention(nullptr, 0, &merged), POLYHEAD_VALUE);
}

TEST(AttentionBackward, InCIsThatInCpp) {
  Context context(2);
  const CContext in_c_context;
  std::vector<Case> cases = gradient_catalogue();
  for (const Case& shard : shard_catalogue()) cases.push_back(shard);
  for (const Case& recipe : cases) {
    if (kSanitized && recipe.name.find("_and_") != recipe.name.npos) continue;  // each option has been there alone
    SCOPED_TRACE(recipe.name);
    const Materialised made = materialise(recipe);
    const Attention own = attend(context, made.q, made.k, made.v, made.options, {.lse = true});
    const ForwardResults forward = recipe.shard ? made.forward : ForwardResults{own.output, own.lse};
    const AttentionGradients expected =
        attend_backward(context, made.q, made.k, made.v, made.options, made.upstream, made.gradient_wants, forward);
    AttentionGradients found{like(expected.dq),    like(expected.dk),          like(expected.dv),
                             like(expected.dbias), like(expected.dsink_logit), like(expected.dgates)};
    InC in_c;
    Options options;
    fill(options, made.options, in_c);
    const polyhead_attention_upstream upstream = {.size = sizeof upstream,
                                                  .output = in_c(forward.output),
                                                  .lse = in_c(forward.lse),
                                                  .doutput = in_c(made.upstream.output),
                                                  .dlse = in_c(made.upstream.lse),
                                                  .dweights = in_c(made.upstream.weights),
                                                  .merged = forward.merged ? 1 : 0};
    const polyhead_attention_gradients gradients = {.size = sizeof gradients,
                                                    .dq = in_c(found.dq),
                                                    .dk = in_c(found.dk),
                                                    .dv = in_c(found.dv),
                                                    .dbias = in_c(found.dbias),
                                                    .dsink_logit = in_c(found.dsink_logit),
                                                    .dgates = in_c(found.dgates)};
    expect_ok(polyhead_attend_backward(in_c_context, in_c(made.q), in_c(made.k), in_c(made.v), &options.c, &upstream,
                                       &gradients));
    expect_same_bits(expected.dq, found.dq, "dq");
    expect_same_bits(expected.dk, found.dk, "dk");
    expect_same_bits(expected.dv, found.dv, "dv");
    expect_same_bits(expected.dbias, found.dbias, "dbias");
    expect_same_bits(expected.dsink_logit, found.dsink_logit, "dsink_logit");
    expect_same_bits(expected.dgates, found.dgates, "dgates");
  }
}

class Call : public testing::Test {
 protected:
  Call() {
    Random random("call");
    for (Tensor* tensor : {&q_, &k_, &v_}) fill_normal(*tensor, random);
    results_.size = sizeof results_;
    results_.output = in_c_(output_);
  }
  polyhead_status attend(const polyhead_attention_options* options = nullptr) {
    return polyhead_attend(context_, in_c_(q_), in_c_(k_), in_c_(v_), options, &results_);
  }

  Tensor q_ = Tensor::empty({1, 2, 5, 8}, DType::f32), k_ = Tensor::empty({1, 2, 5, 8}, DType::f32),
         v_ = Tensor::empty({1, 2, 5, 8}, DType::f32), output_ = Tensor::zeros({1, 2, 5, 8}, DType::f32);
  InC in_c_;
  CContext context_;
  polyhead_attention_results results_{};
};

// A program that knew fewer fields set a smaller size; what lies behind them is not read.
TEST_F(Call, StructsOfOlderProgramsAreRead) {
  polyhead_attention_options options;
  std::memset(&options, 0xff, sizeof options);
  options.size = offsetof(polyhead_attention_options, align);
  options.scale = nullptr;
  options.softcap = 0;
  expect_ok(attend(&options));
  options.size = offsetof(polyhead_attention_options, first_position);
  expect_refused(attend(&options), POLYHEAD_VALUE, "expected align from 0 to 2, found -1");
}

TEST_F(Call, FieldsOfNewerProgramsMustBeZero) {
  struct Newer {
    polyhead_attention_options known;
    std::int64_t novelty;
  } options{};
  options.known.size = sizeof options;
  expect_ok(attend(&options.known));
  options.novelty = 1;
  expect_refused(attend(&options.known), POLYHEAD_UNSUPPORTED, "does not know");
  options.known.size = 0;
  expect_refused(attend(&options.known), POLYHEAD_VALUE, "options.size");
}

// And has room for the statistics that it knew.
TEST_F(Call, StatisticsAreAsManyAsTheProgramKnows) {
  Tensor all = Tensor::empty({1, 2, POLYHEAD_FULL_STATISTICS}, DType::f32);
  Tensor every = Tensor::empty({1, 2, 5, POLYHEAD_FULL_STATISTICS}, DType::f32);
  results_.statistics = in_c_(all);
  results_.row_statistics = in_c_(every);
  expect_ok(attend());
  const auto expect_first = [](const Tensor& found, const Tensor& of, std::int64_t fields) {
    for (std::int64_t row = 0; row < found.view().count() / fields; ++row) {
      for (std::int64_t n = 0; n < fields; ++n) {
        EXPECT_EQ(found.as<float>()[row * fields + n], of.as<float>()[row * POLYHEAD_FULL_STATISTICS + n]);
      }
    }
  };
  for (const std::int64_t fields : {1, 13, 14, 20, 24}) {
    Tensor some = Tensor::zeros({1, 2, fields}, DType::f32), rows = Tensor::zeros({1, 2, 5, fields}, DType::f32);
    results_.statistics = in_c_(some);
    results_.row_statistics = in_c_(rows);
    expect_ok(attend());
    expect_first(some, all, fields);
    expect_first(rows, every, fields);
  }
  for (const std::int64_t fields : {0, POLYHEAD_FULL_STATISTICS + 1}) {
    Tensor none = Tensor::zeros({1, 2, fields}, DType::f32);
    results_.statistics = in_c_(none);
    results_.row_statistics = nullptr;
    expect_refused(attend(), POLYHEAD_SHAPE, "statistics: expected a last axis of 1 to 25");
  }
}

TEST_F(Call, WindowsOfOlderProgramsAreRead) {
  polyhead_window window = {.size = offsetof(polyhead_window, always_first), .left = 1, .right = 0, .always_first = 5};
  polyhead_attention_options options{};
  options.size = sizeof options;
  options.align = POLYHEAD_TOP_LEFT;
  options.window = &window;
  expect_ok(attend(&options));
  const Tensor narrow = clone(*std::make_unique<Context>(1), output_);
  window = {.size = sizeof window, .left = 1, .right = 0, .always_first = 0};
  expect_ok(attend(&options));
  expect_same_bits(narrow, output_, "output");
  window.size = 0;
  expect_refused(attend(&options), POLYHEAD_VALUE, "window.size");
}

TEST_F(Call, WhatIsMissingIsNamed) {
  expect_refused(polyhead_attend(nullptr, in_c_(q_), in_c_(k_), in_c_(v_), nullptr, &results_), POLYHEAD_VALUE,
                 "context must not be NULL");
  expect_refused(polyhead_attend(context_, in_c_(q_), in_c_(k_), in_c_(v_), nullptr, nullptr), POLYHEAD_VALUE,
                 "results must not be NULL");
  expect_refused(polyhead_attend(context_, nullptr, in_c_(k_), in_c_(v_), nullptr, &results_), POLYHEAD_SHAPE, "q");
  results_.output = nullptr;
  EXPECT_NE(attend(), POLYHEAD_OK);
  polyhead_view view;
  expect_refused(polyhead_results_get(nullptr, "output", &view), POLYHEAD_VALUE, "results must not be NULL");
  polyhead_context_free(nullptr);
  polyhead_results_free(nullptr);
  polyhead_layer_free(nullptr);
  polyhead_model_free(nullptr);
}

TEST_F(Call, TensorsThatAreNoneOfOursAreRefused) {
  polyhead_tensor* const odd = in_c_(q_);
  const auto refused = [&](polyhead_status status, const std::string& words) {
    expect_refused(polyhead_attend(context_, odd, in_c_(k_), in_c_(v_), nullptr, &results_), status, words);
    *odd = *in_c_(q_);
  };
  odd->dtype = {5, 64, 1};  // complex
  refused(POLYHEAD_DTYPE, "q: expected f64, f32");
  odd->dtype.lanes = 4;
  refused(POLYHEAD_DTYPE, "4 lanes");
  odd->rank = 7;
  refused(POLYHEAD_SHAPE, "q: expected rank 0 to 6, found 7");
  odd->rank = -1;
  refused(POLYHEAD_SHAPE, "found -1");
  odd->shape = nullptr;
  refused(POLYHEAD_SHAPE, "shape must not be NULL");
  odd->data = nullptr;
  refused(POLYHEAD_LAYOUT, "q");
  odd->device.type = 8;
  refused(POLYHEAD_DEVICE, "device type 8");
  odd->device = {2, 3};
  refused(POLYHEAD_DEVICE, "cuda:3");
  odd->shape[2] = std::numeric_limits<std::int64_t>::max();
  refused(POLYHEAD_SHAPE, "overflows");
  std::vector<float> before(static_cast<std::size_t>(output_.view().count()));
  EXPECT_EQ(std::memcmp(before.data(), output_.view().data(), before.size() * sizeof(float)), 0);
}

// As NumPy and PyTorch export them: any stride where there is one element, an offset, no strides if row-major.
TEST_F(Call, TensorsComeAsDlpackHasThem) {
  expect_ok(attend());
  const Tensor expected = clone(*std::make_unique<Context>(1), output_);
  Tensor shifted = Tensor::empty({1, 2, 5, 8}, DType::f32);
  polyhead_tensor* const q = in_c_(q_);
  q->data = static_cast<std::byte*>(q->data) - 4096;
  q->byte_offset = 4096;
  q->strides = nullptr;
  results_.output = in_c_(shifted);
  expect_ok(polyhead_attend(context_, q, in_c_(k_), in_c_(v_), nullptr, &results_));
  expect_same_bits(expected, shifted, "output");

  Tensor column = Tensor::zeros({1, 1, 5, 1}, DType::f32), out = Tensor::empty({1, 1, 5, 1}, DType::f32);
  polyhead_tensor* const narrow = in_c_(column);
  narrow->strides[3] = 77;
  results_.output = in_c_(out);
  expect_ok(polyhead_attend(context_, narrow, narrow, narrow, nullptr, &results_));
}

TEST_F(Call, MessagesBelongToTheirThread) {
  results_.output = nullptr;
  EXPECT_NE(attend(), POLYHEAD_OK);
  const std::string here = polyhead_last_error();
  std::thread([&] {
    EXPECT_STREQ(polyhead_last_error(), "");
    expect_refused(polyhead_context_create(-1, nullptr), POLYHEAD_VALUE, "");
  }).join();
  EXPECT_EQ(polyhead_last_error(), here);
}

TEST(Device, ThatIsNotThereIsNamed) {
  const char *target = nullptr, *reason = nullptr;
  expect_ok(polyhead_info(&target, &reason));
  if (*reason == 0) GTEST_SKIP() << "there is a GPU";
  polyhead_context* context = nullptr;
  expect_refused(polyhead_context_create_cuda(0, nullptr, &context), POLYHEAD_DEVICE, "GPU");
  EXPECT_EQ(context, nullptr);
}

TEST_F(Call, SaysWhatItIs) {
  const char *target = nullptr, *reason = nullptr, *text = nullptr;
  expect_ok(polyhead_info(&target, &reason));
  EXPECT_GT(std::strlen(target), 2u);
  EXPECT_EQ(polyhead_context_threads(context_), 2);
  EXPECT_EQ(polyhead_context_set_precision(context_, POLYHEAD_PRECISION_F16), POLYHEAD_OK);
  EXPECT_EQ(polyhead_context_set_precision(context_, 4), POLYHEAD_VALUE);
  EXPECT_EQ(polyhead_context_set_precision(nullptr, POLYHEAD_PRECISION_F32), POLYHEAD_VALUE);
  EXPECT_STREQ(polyhead_statistic_name(1), "entropy");
  EXPECT_STREQ(polyhead_statistic_name(POLYHEAD_FULL_STATISTICS - 1), "sink_weight");
  EXPECT_EQ(polyhead_statistic_name(POLYHEAD_FULL_STATISTICS), nullptr);
  expect_ok(polyhead_explain(context_, in_c_(q_), in_c_(k_), in_c_(v_), nullptr, nullptr, &text));
  EXPECT_EQ(text, explain(*std::make_unique<Context>(2), q_, k_, v_));
  expect_ok(polyhead_context_synchronise(context_));
  expect_ok(polyhead_context_release_memory(context_));
}

}  // namespace
}  // namespace polyhead::test
