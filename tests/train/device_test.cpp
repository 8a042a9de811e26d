// Training and surveys on a device that is not the CPU, in memory that only its kernels may touch: the CPU's bits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "heads/pruning.h"
#include "heads/survey.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "model/sample.h"
#include "support/bits.h"
#include "support/fenced_device.h"
#include "train/run.h"

namespace polyhead::train {
namespace {

using test::fenced_context;
using test::same_bits;

struct Subject {
  std::string task;
  model::Positions positions = model::Positions::learned;
  model::FeedForward feed_forward = model::FeedForward::gelu;
  double dropout = 0;
};

// A run of a few steps, made of what the context's device has.
struct Course {
  std::unique_ptr<Task> task;
  model::Transformer model;
  Trainer trainer;

  Course(Context& context, const Subject& subject, const std::shared_ptr<Allocator>& memory)
      : task(make_task({.name = subject.task})),
        model(config_of(subject, *task), 3, DType::f32, memory),
        trainer(context, model, *task, {.steps = 4, .batch = 4}) {}

  static model::Config config_of(const Subject& subject, const Task& task) {
    model::Config config = model::make_config(model::Kind::gpt, 2, 32, 4);
    config.positions = subject.positions;
    config.feed_forward = subject.feed_forward;
    config.dropout = subject.dropout;
    fit_to_task(config, task);
    return config;
  }
};

void expect_same_course(const Subject& subject) {
  SCOPED_TRACE(subject.task);
  Context cpu(2), device = fenced_context();
  Course here(cpu, subject, host_allocator()), there(device, subject, device.allocator());
  while (!here.trainer.done()) {
    const StepReport expected = here.trainer.step(), got = there.trainer.step();
    ASSERT_EQ(got.loss, expected.loss) << "step " << expected.step;
    ASSERT_EQ(got.gradient_norm, expected.gradient_norm) << "step " << expected.step;
  }
  const auto expected = here.model.parameters(), got = there.model.parameters();
  for (std::size_t n = 0; n < expected.size(); ++n) {
    EXPECT_EQ(got[n]->value.device(), device.device());
    EXPECT_TRUE(same_bits(expected[n]->name, to_host(device, got[n]->value), expected[n]->value));
  }
  EXPECT_EQ(evaluate(device, there.model, *there.task, Split::validation, 1, 4).losses,
            evaluate(cpu, here.model, *here.task, Split::validation, 1, 4).losses);
}

TEST(TrainingOnADevice, HasTheBitsOfTheCpu) {
  expect_same_course({"copy"});
  expect_same_course({.task = "classify", .positions = model::Positions::sinusoidal, .dropout = 0.1});
  expect_same_course(
      {.task = "repeat", .positions = model::Positions::rotary, .feed_forward = model::FeedForward::swiglu});
}

// A run that goes on from a file of the other device.
TEST(TrainingOnADevice, IsSavedAndResumed) {
  Context cpu(2), device = fenced_context();
  const Subject subject{"copy"};
  Course here(cpu, subject, host_allocator()), there(device, subject, device.allocator());
  for (int step = 0; step < 2; ++step) there.trainer.step();
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("polyhead_device_" + std::to_string(getpid()) + ".safetensors");
  there.trainer.save(file);
  here.trainer.resume(file);
  EXPECT_EQ(here.trainer.step().loss, there.trainer.step().loss);
  here.trainer.save(file);
  there.trainer.resume(file);
  EXPECT_EQ(here.trainer.step().loss, there.trainer.step().loss);
  std::filesystem::remove(file);
}

// A whole run in a folder: begun on the device, gone on with on the CPU.
TEST(TrainingOnADevice, GoesThroughAFolder) {
  const io::Scratch scratch;
  Plan plan = plan_for("copy");
  plan.task.context = 9;
  plan.model = model::make_config(model::Kind::gpt, 2, 8, 2);
  plan.training = {.steps = 4, .batch = 4, .warmup = 1};
  Context cpu(2), device = fenced_context();
  const auto run = [&](Context& context, const char* name) {
    return Run::start(context, plan, scratch / name, false)->go([](const StepReport&) { return true; });
  };
  const Outcome expected = run(cpu, "here"), got = run(device, "there");
  EXPECT_EQ(got.last.loss, expected.last.loss);
  EXPECT_EQ(got.validation.loss, expected.validation.loss);
  EXPECT_EQ(load_plan(scratch / "there").target, "cpu:7");
  const auto longer = [&](const char* name) {
    return Run::resume(cpu, scratch / name, {.steps = 6})->go([](const StepReport&) { return true; }).last.loss;
  };
  EXPECT_EQ(longer("there"), longer("here"));
  const auto loaded = model::load(scratch / "there", device);
  for (const autograd::Parameter* parameter : loaded->parameters()) {
    EXPECT_EQ(parameter->value.device(), device.device()) << parameter->name;
  }
}

// The smaller model lies where the larger one does.
TEST(HeadsOnADevice, AreRemoved) {
  Context cpu(2), device = fenced_context();
  const Subject subject{"copy"};
  Course here(cpu, subject, host_allocator()), there(device, subject, device.allocator());
  std::vector<Examples> examples;
  examples.push_back(here.task->batch(Split::validation, 0, 4));
  const std::vector<Tensor> means = heads::mean_outputs(cpu, here.model, examples);
  const std::vector<HeadId> gone{{0, 1}, {1, 0}, {1, 3}};
  const auto expected = heads::without_heads(here.model, gone, &means);
  const auto got = heads::without_heads(there.model, gone, &means);
  for (std::size_t n = 0; n < expected->parameters().size(); ++n) {
    EXPECT_TRUE(same_bits(expected->parameters()[n]->name, to_host(device, got->parameters()[n]->value),
                          expected->parameters()[n]->value));
  }
  EXPECT_EQ(model::score(device, *got, examples).losses, model::score(cpu, *expected, examples).losses);
}

TEST(HeadsOnADevice, AreSurveyed) {
  Context cpu(2), device = fenced_context();
  const Subject subject{"repeat"};
  Course here(cpu, subject, host_allocator()), there(device, subject, device.allocator());
  const Batch batch = here.task->batch(Split::validation, 0, 4);
  std::vector<heads::Probe> probes;
  probes.push_back(heads::make_probe(batch.tokens, batch.lengths, {0}, 1));
  const heads::Survey expected = heads::survey(cpu, here.model, probes),
                      got = heads::survey(device, there.model, probes);
  for (std::size_t n = 0; n < expected.heads.size(); ++n) {
    EXPECT_EQ(got.heads[n].sums, expected.heads[n].sums) << "head " << n;
    EXPECT_EQ(got.heads[n].argmax_keys, expected.heads[n].argmax_keys) << "head " << n;
    EXPECT_EQ(got.heads[n].offsets, expected.heads[n].offsets) << "head " << n;
  }
  EXPECT_NE(got.heads[0].argmax_keys, got.heads[1].argmax_keys);
}

TEST(HeadsOnADevice, AreTheSame) {
  Context cpu(2), device = fenced_context();
  const Subject subject{"copy"};
  Course here(cpu, subject, host_allocator()), there(device, subject, device.allocator());
  std::vector<Examples> examples;
  examples.push_back(here.task->batch(Split::validation, 0, 4));
  const auto expected = heads::importance(cpu, here.model, examples);
  const auto got = heads::importance(device, there.model, examples);
  for (std::size_t n = 0; n < expected.size(); ++n) {
    EXPECT_EQ(got[n].gradient, expected[n].gradient);
    EXPECT_EQ(got[n].zero.mean, expected[n].zero.mean);
    EXPECT_EQ(got[n].mean.mean, expected[n].mean.mean);
  }
  model::Generator told(cpu, here.model, {{1, 2, 3}, {4}}, {}), heard(device, there.model, {{1, 2, 3}, {4}}, {});
  for (int n = 0; n < 5; ++n) EXPECT_EQ(heard.next(), told.next());
  const std::int32_t prompt[] = {1, 2, 3};
  for (const double temperature : {0.0, 1.0}) {
    EXPECT_EQ(model::next_token(device, there.model, prompt, {.temperature = temperature}, 5),
              model::next_token(cpu, here.model, prompt, {.temperature = temperature}, 5));
  }
}

}  // namespace
}  // namespace polyhead::train
