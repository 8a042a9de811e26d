// Loading takes the memory of the file, and hardly more: tensors are moved in, nothing is made beforehand.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "io/scratch.h"
#include "model/checkpoint.h"
#include "model/peak.h"
#include "polyhead/model.h"
#include "support/fenced_device.h"

namespace polyhead::model {
namespace {

TEST(Loading, WhatIsMissingIsNamedAndRefused) {
  const io::Scratch scratch;
  Config config = make_config(Kind::gpt, 1, 8, 2);
  config.vocabulary = config.context = 4;
  save(Transformer(config, 1), scratch.folder());
  const auto refused = [&](ErrorCode code, const std::string& model, const std::string& says) {
    io::expect_error(code, {says}, [&] { Model::load(model); });
  };
  std::filesystem::rename(scratch / kWeightsFile, scratch / "away");
  refused(ErrorCode::input, scratch.folder(), "found no model.safetensors");
  std::filesystem::rename(scratch / "away", scratch / kWeightsFile);
  EXPECT_NO_THROW(Model::load(scratch.folder()));
  std::filesystem::remove(scratch / kConfigFile);
  refused(ErrorCode::input, scratch.folder(), "found no config.json");
  for (const std::string name : {"nothing", "nothing.gguf"}) {
    refused(ErrorCode::input, (scratch / name).string(), "nothing is at " + (scratch / name).string());
  }
}

// A folder without a config in which others left what only they can choose from, or read.
TEST(Loading, FoldersOfOthersWithoutAConfig) {
  const io::Scratch two, pickle;
  for (const char* name : {"model.Q4_K_M.gguf", "model.Q8_0.gguf"}) io::spill(two / name, "GGUF");
  io::spill(pickle / "pytorch_model.bin", "PK");
  io::expect_error(ErrorCode::input, {two.folder(), "2 .gguf files; name one of them"},
                   [&] { Model::load(two.folder()); });
  io::expect_error(ErrorCode::input, {"pytorch_model.bin", "a pickle"}, [&] { Model::load(pickle.folder()); });
}

// On a device matrices get the type of the precision, and the rest is f32; on the host everything is as it was stored.
TEST(Loading, ADevicesMatricesHaveItsPrecision) {
  const io::Scratch scratch;
  Config config = make_config(Kind::gpt, 1, 8, 2);
  config.vocabulary = config.context = 4;
  Transformer model(config, 1);
  save(model, scratch.folder());
  Context device = test::fenced_context();
  for (const auto& [precision, matrices] : {std::pair{Precision::f32, DType::f32},
                                            {Precision::tf32, DType::f32},
                                            {Precision::bf16, DType::bf16},
                                            {Precision::f16, DType::f16}}) {
    device.set_precision(precision);
    const auto loaded = load(scratch.folder(), device);
    for (const autograd::Parameter* parameter : loaded->parameters()) {
      EXPECT_EQ(parameter->value.dtype(), may_be_half(*parameter) ? matrices : DType::f32) << parameter->name;
      EXPECT_EQ(parameter->value.device(), device.device());
    }
    EXPECT_EQ(saved_bytes(*loaded) == saved_bytes(model), matrices == DType::f32);  // and nothing is copied for it
    const auto on_host = load(scratch.folder(), Context(1), precision);
    EXPECT_EQ(on_host->parameters()[0]->value.dtype(), DType::f32);
  }
}

// A number that only rounding makes infinite.
TEST(Loading, WhatF16CannotHoldIsRefused) {
  const io::Scratch scratch;
  Config config = make_config(Kind::gpt, 1, 8, 2);
  config.vocabulary = config.context = 4;
  Transformer model(config, 1);
  model.parameters()[0]->value.as<float>()[5] = 70000;
  save(model, scratch.folder());
  Context device = test::fenced_context();
  device.set_precision(Precision::bf16);
  EXPECT_NO_THROW(load(scratch.folder(), device));
  device.set_precision(Precision::f16);
  io::expect_error(ErrorCode::input, {"tokens.weight", "65504", "bf16"}, [&] { load(scratch.folder(), device); });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep books of their own
// The most that loading took, beside the bytes of the file.
void expect_little_more(const std::filesystem::path& folder, double file) {
  const auto peak = test::peak_of([&] { load(folder); });
  if (!peak) GTEST_SKIP() << "the peak cannot be reset";
  EXPECT_GT(*peak, 0.7 * file) << "else this shows nothing";
  EXPECT_LE(*peak, 1.2 * file);
}

// Half of such a model are the tokens, the other half is the output: neither is ever there twice.
TEST(Loading, TakesTheMemoryOfTheFilesOfOthers) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const io::Scratch scratch;
    io::spill(scratch / "config.json",
              R"({"model_type":"gpt_neox","vocab_size":20000,"hidden_size":512,"num_hidden_layers":1,
                  "num_attention_heads":8,"intermediate_size":32,"max_position_embeddings":16})");
    const std::string layer = "gpt_neox.layers.0.", dense = layer + "attention.dense.",
                      qkv = layer + "attention.query_key_value.", up = layer + "mlp.dense_h_to_4h.",
                      down = layer + "mlp.dense_4h_to_h.";
    std::vector<std::pair<std::string, Tensor>> tensors;
    const auto add = [&](const std::string& name, const Dims& shape) {
      tensors.emplace_back(name, Tensor::zeros(shape, dtype));
    };
    for (const char* table : {"gpt_neox.embed_in.weight", "embed_out.weight"}) add(table, {20'000, 512});
    for (const std::string& norm :
         {layer + "input_layernorm.", layer + "post_attention_layernorm.", std::string("gpt_neox.final_layer_norm.")}) {
      for (const char* part : {"weight", "bias"}) add(norm + part, {512});
    }
    add(qkv + "weight", {1536, 512}), add(qkv + "bias", {1536}), add(dense + "weight", {512, 512});
    add(dense + "bias", {512}), add(up + "weight", {32, 512}), add(up + "bias", {32});
    add(down + "weight", {512, 32}), add(down + "bias", {512});
    std::vector<io::NamedTensor> named;
    for (const auto& [name, tensor] : tensors) named.push_back({name, tensor});
    io::write_safetensors(scratch / "model.safetensors", named);
    tensors.clear();
    expect_little_more(scratch.folder(), static_cast<double>(std::filesystem::file_size(scratch / kWeightsFile)));
  }
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
  expect_little_more(scratch.folder(), file);
}
#endif

}  // namespace
}  // namespace polyhead::model
