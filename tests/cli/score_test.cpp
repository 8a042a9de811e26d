// polyhead score and polyhead embed on models of others: the numbers are those of the library.
#include "model/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cli/foreign.h"
#include "cli/terminal.h"
#include "io/safetensors.h"
#include "model/checkpoint.h"

namespace polyhead::cli {
namespace {

using io::slurp, io::spill;
using nlohmann::json;

class ScoreForeign : public Foreign {
 protected:
  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  void take_encoder() const {
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::remove(scratch_ / name);
      std::filesystem::copy_file(llama_fixture().parent_path() / "bert" / name, scratch_ / name);
    }
  }
  static void expect_refused(int code, const std::string& arguments, const std::string& says) {
    const Ran ran = errors_of(arguments);
    EXPECT_EQ(ran.code, code) << arguments << '\n' << ran.text;
    EXPECT_TRUE(contains(ran.text, says)) << says << " in: " << ran.text;
  }
};

std::vector<Examples> letters(const std::string& text) {
  std::vector<Examples> some(1);
  const auto T = std::ssize(text) - 1;
  some[0] = {Tensor::empty({1, T}, DType::i32), Tensor::empty({1, T}, DType::i32), {}};
  for (std::int64_t t = 0; t < T; ++t) {
    some[0].tokens.as<std::int32_t>()[t] = text[static_cast<std::size_t>(t)] - 'a';
    some[0].targets.as<std::int32_t>()[t] = text[static_cast<std::size_t>(t) + 1] - 'a';
  }
  return some;
}

TEST_F(ScoreForeign, SaysThePerplexityOfAText) {
  const std::string text = "abcdefghipd";  // ten targets: in one window, or in 4, 4 and 2
  spill(at("text"), text);
  const std::string line = "score " + scratch_.folder() + " --text " + at("text");
  const json whole = json_of(line), cut = json_of(line + " --length 4");
  Context context(1);
  const auto model = model::load(scratch_.folder());
  const auto loss_of = [&](const std::string& some) {
    return model::score(context, *model, letters(some)).mean_loss();
  };
  const json& score = whole["scores"][0];
  EXPECT_EQ(score["targets"], 10);
  EXPECT_NEAR(score["loss"], loss_of(text), 1e-6);
  EXPECT_NEAR(score["perplexity"], std::exp(loss_of(text)), 1e-4);
  EXPECT_NEAR(score["bits_per_byte"], loss_of(text) * 10 / std::log(2) / 11, 1e-6);
  EXPECT_EQ(cut["windows"], 3);
  EXPECT_EQ(cut["scores"][0]["targets"], 10);
  EXPECT_NEAR(cut["scores"][0]["loss"], (4 * loss_of("abcde") + 4 * loss_of("efghi") + 2 * loss_of("ipd")) / 10, 1e-6);
  EXPECT_TRUE(contains(output_of(line).text, "perplexity"));
  spill(at("text"), "a");
  expect_refused(3, line, "two tokens or more, found 1");
  expect_refused(4, "score " + scratch_.folder() + " --text " + at("none"), "none");
  expect_refused(2, "score " + scratch_.folder(), "--text");
  take_encoder();
  expect_refused(3, line, "polyhead embed");
}

TEST_F(ScoreForeign, TheBarIsGoneBeforeTheTable) {
  spill(at("text"), "abcdefghipd");
  const std::string line = command("score " + scratch_.folder() + " --text " + at("text")) + " 2>&1";
  const std::string text = on_terminal("TERM=xterm " + line, 200).text;
  EXPECT_TRUE(contains(text, "score 1/1") && contains(text, "\x1b[K" + scratch_.folder() + " on ")) << text;
}

TEST_F(ScoreForeign, ReadsWhatAPipeBrings) {
  spill(at("text"), "abcdefghipd");
  const std::string line = "score " + scratch_.folder() + " --format json --text ";
  const Ran piped = shell("cat " + at("text") + " | " + command(line + "/dev/stdin"));
  EXPECT_EQ(piped.code, 0);
  json from_pipe = json::parse(piped.text), from_file = json_of("score " + scratch_.folder() + " --text " + at("text"));
  EXPECT_EQ(from_pipe["scores"], from_file["scores"]);
}

// Weights of a number's largest size are finite; what comes of them is not.
TEST_F(ScoreForeign, NumbersThatAreNotFiniteAreNeitherSaidNorWritten) {
  const auto swell = [&](const std::string& name) {
    io::Safetensors file = io::read_safetensors(scratch_ / "model.safetensors");
    std::vector<io::NamedTensor> named;
    for (auto& [found, tensor] : file.tensors) {
      if (found == name) std::fill_n(tensor.as<float>(), count_of(tensor.shape()), 3e38f);
      named.push_back({found, tensor});
    }
    io::write_safetensors(scratch_ / "model.safetensors", named);
  };
  swell("model.norm.weight");
  spill(at("text"), "abcdefghipd");
  expect_refused(3, "score " + scratch_.folder() + " --text " + at("text"), "not finite");
  take_encoder();
  swell("encoder.layer.1.output.LayerNorm.weight");
  expect_refused(3, "embed " + scratch_.folder() + " --text " + at("text") + " --out " + at("x.npy"),
                 "the embedding of line 1");
  EXPECT_FALSE(std::filesystem::exists(at("x.npy")));
}

// The rows of an npy file of f32, behind its header.
std::vector<float> numbers_in(const std::filesystem::path& file) {
  const std::string bytes = slurp(file);
  const std::size_t header = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  EXPECT_NE(bytes.substr(0, header).find("'<f4'"), std::string::npos);
  std::vector<float> numbers((bytes.size() - header) / 4);
  std::memcpy(numbers.data(), bytes.data() + header, 4 * numbers.size());
  return numbers;
}

TEST_F(ScoreForeign, EmbedWritesARowForEveryLine) {
  take_encoder();
  spill(at("lines"), "abc\nabcdefg\r\nb\n");
  const std::string line = "embed " + scratch_.folder() + " --text " + at("lines") + " --out " + at("x.npy");
  const json report = json_of(line);
  EXPECT_EQ(report["lines"].size(), 3u);
  EXPECT_EQ(report["lines"][1]["tokens"], 7);
  const std::vector<float> found = numbers_in(at("x.npy"));
  Context context(1);
  const auto model = model::load(scratch_.folder());
  const auto C = static_cast<std::size_t>(model->config().width);
  ASSERT_EQ(found.size(), 3 * C);
  std::size_t n = 0;
  for (const std::string text : {"abcx", "abcdefgx", "bx"}) {  // the last letter is a target here
    const std::vector<std::vector<double>> expected = model::embeddings(context, *model, letters(text));
    for (const double number : expected[0]) EXPECT_NEAR(found[n++], number, 1e-5) << text;
  }
  spill(at("lines"), "abc\n\nabcdefg\n \n");  // rows stay beside their lines
  EXPECT_EQ(json_of(line)["lines"][1]["tokens"], 0);
  EXPECT_TRUE(contains(output_of(line).text, "2 without a token, as zeros"));
  std::vector<float> with_blanks = found;
  with_blanks.resize(2 * C);
  with_blanks.insert(with_blanks.begin() + static_cast<std::ptrdiff_t>(C), C, 0.0f);
  with_blanks.insert(with_blanks.end(), C, 0.0f);
  const std::vector<float> rows = numbers_in(at("x.npy"));
  ASSERT_EQ(rows.size(), 4 * C);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], with_blanks[i], 1e-5) << i;
  expect_refused(4, "embed " + scratch_.folder() + " --text " + at("none") + " --out " + at("no/folder/x.npy"),
                 "no/folder");
  spill(at("lines"), "b\n" + std::string(2000, 'a'));
  expect_refused(3, line, "lines:2: expected up to the model's");
  spill(at("lines"), "");
  expect_refused(3, line, "found none");
  expect_refused(2, "embed " + scratch_.folder() + " --text " + at("lines"), "--out");
  expect_refused(3, "embed " + llama_fixture().string() + " --text " + at("lines") + " --out " + at("x.npy"),
                 "not an encoder");
}

}  // namespace
}  // namespace polyhead::cli
