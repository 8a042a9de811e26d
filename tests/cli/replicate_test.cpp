// polyhead replicate: what it prints, keeps and refuses.
#include <gtest/gtest.h>

#include <set>

#include "cli/run.h"
#include "io/file.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "replicate/words_tokenizer.h"

namespace polyhead::cli {
namespace {

class ReplicateCommand : public testing::Test {
 protected:
  ReplicateCommand() {
    io::make_folder(scratch_ / "tiny");
    io::spill(scratch_ / "tiny/tokenizer.json", replicate::words_tokenizer());
    model::Config config = model::make_config(model::Kind::gpt, 2, 32, 2);
    config.vocabulary = text::load_tokenizer(scratch_ / "tiny").size();
    config.context = 128;
    model::save(model::Transformer(config, 1), scratch_ / "tiny");
  }
  std::string line(const std::string& more) const {
    return "replicate '" + (scratch_ / "tiny").string() + "' --quick --out '" + (scratch_ / "out").string() + "' " +
           more;
  }

  const io::Scratch scratch_;
};

TEST_F(ReplicateCommand, PrintsEveryResultAndWritesThePage) {
  const std::string only = "--only sinks --only previous-token";
  const nlohmann::json json = json_of(line(only));
  ASSERT_EQ(json.at("results").size(), 2u);
  const nlohmann::json& first = json["results"][0];
  EXPECT_EQ(first.at("result"), "previous-token");
  EXPECT_EQ(first.at("model"), "tiny");
  for (const char* key : {"verdict", "sentence", "claim", "source", "published", "definition", "ours_what"}) {
    EXPECT_FALSE(first.at(key).get<std::string>().empty()) << key;
  }
  EXPECT_LE(first.at("ours_low").get<double>(), first.at("ours").get<double>());
  EXPECT_LE(first.at("ours").get<double>(), first.at("ours_high").get<double>());
  const std::string table = output_of(line(only)).text;
  EXPECT_TRUE(contains(table, "Gu et al. 2025")) << table;
  EXPECT_TRUE(contains(table, "previous-token")) << table;
  EXPECT_EQ(lines_of(output_of(line(only + " --format csv")).text).size(), 3u);
  EXPECT_TRUE(contains(io::read_file(scratch_ / "out/replicate.html", 1 << 24), "tiny, sinks"));
}

TEST_F(ReplicateCommand, RefusesModelsAndNamesThatAreNotThere) {
  const Ran unknown = errors_of(line("--only snks"));
  EXPECT_EQ(unknown.code, 3);
  EXPECT_TRUE(contains(unknown.text, "no result is called snks")) << unknown.text;
  const Ran missing = errors_of("replicate '" + (scratch_ / "nowhere").string() + "' --quick");
  EXPECT_EQ(missing.code, 3);
  EXPECT_TRUE(contains(missing.text, "nowhere")) << missing.text;
}

}  // namespace
}  // namespace polyhead::cli
