// What everyone meets first: help, mistakes, exit codes, and where output goes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "cli/run.h"
#include "polyhead/info.h"

namespace polyhead::cli {
namespace {

const std::vector<std::string> kReporting{"count", "trace", "bench --shape 1,1,4,4", "info"};

TEST(Usage, NoArgumentsMeansShortHelp) {
  const Ran ran = output_of("");
  EXPECT_EQ(ran.code, 0);
  const std::size_t commands = ran.text.find("Commands:\n"), examples = ran.text.find("Examples:\n");
  EXPECT_LT(commands, examples);
  int lines = 0;
  for (const std::string& line : lines_of(ran.text.substr(examples))) lines += line.starts_with("  polyhead ");
  EXPECT_EQ(lines, 6);
  EXPECT_EQ(ran.text, output_of("--help").text);
  EXPECT_EQ(ran.text, output_of("-h").text);
}

TEST(Usage, HelpShowsExamplesFirst) {
  for (const std::string name : {"train", "generate", "count", "trace", "bench", "info", "completion", "man"}) {
    const Ran ran = output_of(name + " --help");
    EXPECT_EQ(ran.code, 0) << name;
    EXPECT_LT(ran.text.find("Examples:"), ran.text.find("Usage:")) << name;
    EXPECT_LT(ran.text.find("Usage:"), ran.text.find("Options:")) << name;
    EXPECT_TRUE(contains(ran.text, "polyhead " + name)) << name;
    for (const std::string& line : lines_of(ran.text)) EXPECT_LE(line.size(), 80u) << line;
  }
}

// A GPU does the work, or nothing is begun and the reason is told.
TEST(Usage, DeviceThatIsNotThereIsSaid) {
  const bool cuda = json_of("info")["cuda"];
  const std::string folder = testing::TempDir() + "polyhead_device_" + std::to_string(getpid());
  for (const std::string& arguments : {"train copy --steps 1 --batch 1 --device cuda --out '" + folder + "'",
                                       "study --quick --device cuda --out '" + folder + "'"}) {
    if (cuda && arguments.starts_with("study")) continue;  // it takes minutes
    const Ran ran = errors_of(arguments);
    EXPECT_EQ(ran.code, cuda ? 0 : 5) << ran.text;
    EXPECT_TRUE(cuda || contains(ran.text, "GPU")) << ran.text;
    EXPECT_EQ(std::filesystem::exists(folder), cuda);
    std::filesystem::remove_all(folder);
  }
  EXPECT_EQ(errors_of("heads run --device gpu").code, 2);
}

// On a CPU only products in training are rounded, and to bf16 alone.
TEST(Usage, TheCpuRoundsNoOtherProducts) {
  const std::string folder = testing::TempDir() + "polyhead_products_" + std::to_string(getpid());
  const Ran ran = errors_of("train copy --steps 1 --precision tf32 --out '" + folder + "'");
  EXPECT_EQ(ran.code, 2) << ran.text;
  EXPECT_TRUE(contains(ran.text, "--device cuda")) << ran.text;
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(errors_of("train copy --steps 1 --precision f16 --out '" + folder + "'").code, 2);
  const bool pairs = info().target == "AVX3_BF16";
  const Ran rounded = errors_of("train copy --steps 1 --batch 1 --precision bf16 --out '" + folder + "'");
  EXPECT_EQ(rounded.code, pairs ? 0 : 2) << rounded.text;
  EXPECT_EQ(contains(rounded.text, "AVX512-BF16"), !pairs) << rounded.text;
  if (pairs) {
    EXPECT_EQ(errors_of("generate '" + folder + "' --prompt BOS --precision bf16").code, 2);
    const Ran resumed = errors_of("train --resume --steps 2 --out '" + folder + "'");
    EXPECT_TRUE(contains(resumed.text, "started on AVX3_BF16, products in bf16 and continues on AVX3_BF16:"))
        << resumed.text;
  }
  std::filesystem::remove_all(folder);
}

TEST(Usage, EveryReportComesAsTableJsonAndCsv) {
  for (const std::string& command : kReporting) {
    const auto json = json_of(command);
    EXPECT_EQ(json["schema"], 1) << command;
    EXPECT_EQ(json["command"], command.substr(0, command.find(' ')));
    const auto csv = lines_of(output_of(command + " --format csv").text);
    ASSERT_GE(csv.size(), 2u) << command;
    EXPECT_TRUE(contains(csv[0], ",")) << csv[0];
    EXPECT_EQ(errors_of(command + " --format table").text, "") << "nothing but data, and that on stdout";
  }
}

TEST(Usage, MistakesOfTheCommandLineEndWith2) {
  for (const std::string line : {"cuont",
                                 "--frobnicate",
                                 "count --widht 3",
                                 "count gtp2",
                                 "count --heads 0",
                                 "count --heads x",
                                 "count --heads",
                                 "count --heads 99999999999999999999",
                                 "count --width 512",
                                 "count gpt2 --layers 6+",
                                 "count --format xml",
                                 "trace surplus",
                                 "trace --example none",
                                 "bench --dtype f8",
                                 "info surplus",
                                 "serve",
                                 "view",
                                 "view . --off 1",
                                 "view . --off 0.1:3",
                                 "serve . --port 99999",
                                 "serve . --host 0.0.0.0",
                                 "completion",
                                 "completion fish"}) {
    const Ran ran = errors_of(line);
    EXPECT_EQ(ran.code, 2) << line;
    EXPECT_TRUE(ran.text.starts_with("polyhead")) << ran.text;
    EXPECT_EQ(output_of(line).text, "") << "stdout is for data";
  }
}

TEST(Usage, DidYouMean) {
  EXPECT_TRUE(contains(errors_of("cuont").text, "unknown command 'cuont'; did you mean 'count'?"));
  EXPECT_TRUE(contains(errors_of("count gtp2").text, "found 'gtp2'; did you mean 'gpt2'?"));
  EXPECT_TRUE(contains(errors_of("count lama-7b").text, "did you mean 'llama-7b'?"));
  EXPECT_TRUE(contains(errors_of("count --widht 3").text, "unknown option '--widht'; did you mean '--width'?"));
  EXPECT_TRUE(contains(errors_of("count --format jsn").text, "did you mean 'json'?"));
  EXPECT_FALSE(contains(errors_of("xylophone").text, "did you mean"));
}

TEST(Usage, ErrorsSayWhatWasExpectedAndFound) {
  EXPECT_TRUE(contains(errors_of("count --heads x").text, "--heads: expected a whole number from 1 to"));
  EXPECT_TRUE(contains(errors_of("count --heads x").text, "found 'x'"));
  EXPECT_TRUE(contains(errors_of("count --heads x").text, "polyhead count --help"));
}

// An op is for those who call it from a program.
TEST(Usage, ErrorsDoNotBeginWithAnOp) {
  for (const std::string line : {"heads nowhere", "generate /dev/null", "inspect nowhere.gguf", "score / --text x"}) {
    const std::string said = errors_of(line).text;
    EXPECT_FALSE(contains(said, ": [")) << said;
  }
  EXPECT_FALSE(contains(shell("POLYHEAD_TARGET=abacus " + command("info 2>&1")).text, ": [")) << "of the library";
}

TEST(Usage, AFullDiskEndsWith4) {
  const Ran ran = shell(command("count gpt2") + " 2>&1 >/dev/full");
  EXPECT_EQ(ran.code, 4);
  EXPECT_TRUE(contains(ran.text, "No space left")) << ran.text;
}

TEST(Usage, ErrorsOfTheLibraryEndWith3) { EXPECT_EQ(shell("POLYHEAD_TARGET=abacus " + command("info 2>&1")).code, 3); }

}  // namespace
}  // namespace polyhead::cli
