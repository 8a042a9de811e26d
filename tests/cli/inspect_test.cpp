// polyhead inspect, on the files of tests/fixtures and on spoilt ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/run.h"
#include "io/safetensors.h"
#include "io/scratch.h"

namespace polyhead::cli {
namespace {

using io::Scratch, io::slurp, io::spill;

const std::string kGguf = std::string(POLYHEAD_ROOT) + "/tests/fixtures/gguf/types.gguf";
const std::string kGpt2Tokenizer = std::string(POLYHEAD_ROOT) + "/tests/fixtures/tokenizers/gpt2.json";

void spill_weights(const Scratch& scratch, float number) {
  Tensor tensor = Tensor::zeros({2, 3}, DType::f32);
  tensor.as<float>()[4] = number;
  io::write_safetensors(scratch / "model.safetensors", {{"w", tensor}});
}

TEST(Inspect, AGgufFile) {
  const auto report = json_of("inspect " + kGguf);
  EXPECT_EQ(report["format"], "GGUF version 3");
  EXPECT_EQ(report["architecture"], "test");
  ASSERT_EQ(report["problems"].size(), 1u);
  EXPECT_TRUE(contains(report["problems"][0], "the family \"test\", which polyhead does not run"));
  ASSERT_EQ(report["tensors"].size(), 11u);
  EXPECT_EQ(report["tensors"][10]["format"], "Q6_K");
  EXPECT_EQ(report["tensors"][10]["shape"], "[3,512]");
  EXPECT_EQ(report["tensors"][10]["parameters"], 1536);
  EXPECT_EQ(report["tensors"][10]["bytes"], 1260);
  EXPECT_EQ(output_of("inspect " + kGguf).code, 3);
  EXPECT_EQ(lines_of(output_of("inspect " + kGguf + " --format csv").text).size(), 12u);
}

// What loading would refuse is said beforehand; what it takes is no problem.
TEST(Inspect, HoldsConfigAndTensorsTogether) {
  const std::filesystem::path models = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models";
  for (const char* model : {"llama", "bert", "llama3/llama3.gguf", "gpt2/gpt2.gguf"}) {
    const Ran ran = output_of("inspect " + (models / model).string());
    EXPECT_EQ(ran.code, 0) << ran.text;
  }
  const Scratch scratch;
  std::filesystem::copy_file(models / "llama/model.safetensors", scratch / "model.safetensors");
  const auto problem_with = [&](const std::string& key, const nlohmann::json& value) {
    auto config = nlohmann::json::parse(slurp(models / "llama/config.json"));
    config[key] = value;
    spill(scratch / "config.json", config.dump());
    const auto problems = json_of("inspect " + scratch.folder())["problems"];
    EXPECT_EQ(problems.size(), 1u) << problems;
    return problems.empty() ? "" : problems[0].get<std::string>();
  };
  EXPECT_TRUE(contains(problem_with("model_type", "mamba"), "the family \"mamba\""));
  EXPECT_TRUE(contains(problem_with("num_hidden_layers", 7), "more numbers"));
  EXPECT_TRUE(contains(problem_with("num_hidden_layers", 1), "no place for it"));
  EXPECT_TRUE(contains(problem_with("intermediate_size", 6), "does not fit the config"));
  EXPECT_TRUE(contains(problem_with("attention_bias", true), "no tensor"));
}

// Bytes that are no UTF-8 are no reason to print no JSON.
TEST(Inspect, NamesThatAreNoText) {
  const Scratch scratch;
  std::string bytes = slurp(kGguf);
  bytes[bytes.find("q4_k")] = '\xff';
  bytes.replace(bytes.find("test"), 4, "te\xfft");
  spill(scratch / "a.gguf", bytes);
  const auto report = json_of("inspect " + (scratch / "a.gguf").string());
  EXPECT_EQ(report["architecture"], "te\ufffdt");
  std::vector<std::string> names;
  for (const auto& tensor : report["tensors"]) names.push_back(tensor["name"]);
  EXPECT_NE(std::find(names.begin(), names.end(), "\ufffd4_k"), names.end());
}

TEST(Inspect, AFolder) {
  const Scratch scratch;
  spill_weights(scratch, 1);
  spill(scratch / "config.json", R"({"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":1000})");
  std::filesystem::copy_file(kGpt2Tokenizer, scratch / "tokenizer.json");
  const auto report = json_of("inspect " + scratch.folder());
  EXPECT_EQ(report["architecture"], "gpt2");
  EXPECT_EQ(report["layers"], 2);
  EXPECT_EQ(report["width"], 64);
  EXPECT_EQ(report["heads"], 4);
  EXPECT_EQ(report["vocabulary"], 1000);
  EXPECT_EQ(report["tokens"], 400);
  EXPECT_EQ(report["parameters"], 6);
  EXPECT_EQ(report["bytes"], 24);
  EXPECT_EQ(report["loaded_bytes"], 24);
}

TEST(Inspect, SaysAllThatIsWrong) {
  const Scratch scratch;
  spill_weights(scratch, std::numeric_limits<float>::infinity());
  spill(scratch / "config.json",
        R"({"model_type":"x","hidden_size":65,"num_attention_heads":4,"num_key_value_heads":3,"vocab_size":300})");
  std::filesystem::copy_file(kGpt2Tokenizer, scratch / "tokenizer.json");
  const Ran ran = output_of("inspect " + scratch.folder());
  EXPECT_EQ(ran.code, 3);
  for (const char* problem :
       {"65 does not divide into 4 heads", "4 heads do not divide among 3 kv heads", "numbers up to 399",
        "tensor \"w\": infinite or NaN in 1 of its 6 values", "the family \"x\""}) {
    EXPECT_TRUE(contains(ran.text, problem)) << problem << " in " << ran.text;
  }
  EXPECT_TRUE(contains(errors_of("inspect " + scratch.folder()).text, "5 problems"));
  spill(scratch / "config.json", "{");
  spill(scratch / "tokenizer.json", "{}");
  const auto report = json_of("inspect " + scratch.folder());
  ASSERT_EQ(report["problems"].size(), 3u);
  EXPECT_TRUE(contains(report["problems"][0], "config.json"));
  EXPECT_TRUE(contains(report["problems"][1], "tokenizer.json"));
}

TEST(Inspect, FilesThatAreNoModel) {
  const Scratch scratch;
  EXPECT_EQ(output_of("inspect " + scratch.folder()).code, 3);
  EXPECT_EQ(output_of("inspect " + scratch.folder() + "/none").code, 3);
  spill(scratch / "pytorch_model.bin", "x");
  EXPECT_TRUE(contains(errors_of("inspect " + scratch.folder()).text, "pickle"));
  spill(scratch / "a.gguf", slurp(kGguf).substr(0, 5000));
  EXPECT_TRUE(contains(errors_of("inspect " + (scratch / "a.gguf").string()).text, "cut short"));
}

TEST(Inspect, OneTensorForNumPy) {
  const Scratch scratch;
  const std::string out = (scratch / "w.npy").string();
  EXPECT_EQ(output_of("inspect " + kGguf + " --tensor q4_k --out " + out).code, 0);
  const std::string bytes = slurp(out);
  EXPECT_EQ(bytes.size(), 128u + 3 * 512 * 4);
  io::Safetensors expected =
      io::read_safetensors(std::string(POLYHEAD_ROOT) + "/tests/fixtures/gguf/types.safetensors");
  const Tensor tensor = expected.take("q4_k");
  EXPECT_EQ(std::memcmp(bytes.data() + 128, tensor.view().data(), 3 * 512 * 4), 0);
  EXPECT_TRUE(contains(errors_of("inspect " + kGguf + " --tensor q4k --out " + out).text, "did you mean 'q4_k'"));
  EXPECT_EQ(output_of("inspect " + kGguf + " --tensor q4_k").code, 2);
  EXPECT_EQ(output_of("inspect").code, 2);
}

}  // namespace
}  // namespace polyhead::cli
