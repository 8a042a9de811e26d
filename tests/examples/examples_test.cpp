// The examples run and print what their comments promise.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "model/checkpoint.h"
#include "polyhead/model.h"
#include "support/induction_model.h"

namespace {

// The output of a program, each line as its words; the program must succeed.
std::vector<std::vector<std::string>> words_of(const std::string& program, const std::string& arguments = "") {
  FILE* pipe = popen(("'" + program + "' " + arguments).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + program);
  std::string text;
  std::array<char, 4096> part;
  for (std::size_t size; (size = std::fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), size);
  const int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  std::vector<std::vector<std::string>> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    lines.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return lines;
}

// The numbers at the end of the line that begins with these words.
std::vector<std::string> row(const std::vector<std::vector<std::string>>& lines, const std::vector<std::string>& name) {
  for (const auto& line : lines) {
    if (line.size() > name.size() && std::equal(name.begin(), name.end(), line.begin())) {
      return {line.begin() + static_cast<std::ptrdiff_t>(name.size()), line.end()};
    }
  }
  throw std::runtime_error("no line " + name[0]);
}

using Row = std::vector<std::string>;

// In C. Head 0 looks at all keys alike: 1/2, 1/3 and 1/4 of each, ln 1 + ln 2 + ln 3 + ln 4. In head 1 tokens 0 and 3
// are alike, the others look at themselves.
TEST(Examples, AttentionInCSaysWhatHeadsDo) {
  const auto lines = words_of(EXAMPLE_ATTENTION);
  ASSERT_EQ(lines.size(), 3u);
  const auto field = [](const Row& line, const std::string& name) {
    return *(std::find(line.begin(), line.end(), name) + 1);
  };
  EXPECT_EQ(field(lines[0], "rows"), "4.000");
  EXPECT_EQ(field(lines[0], "entropy"), "3.178");
  EXPECT_EQ(field(lines[0], "max_weight"), "2.083");
  EXPECT_EQ(field(lines[1], "entropy"), "0.693");
  EXPECT_EQ(field(lines[1], "self_weight"), "3.500");
  EXPECT_EQ(lines[2][0], "error:");
  EXPECT_EQ(lines[2][1], "[attend]");
}

TEST(Examples, CrewsComeToTheExactSums) {
  const auto lines = words_of(EXAMPLE_CREWS);
  EXPECT_EQ(row(lines, {"head", "0"}), (Row{"0.700", "0.050", "0.100", "0.050", "0.100"}));
  EXPECT_EQ(row(lines, {"o0"}), (Row{"0.620", "0.190", "0.085", "0.210"}));
  EXPECT_EQ(row(lines, {"o1"}), (Row{"0.355", "0.410", "0.120", "0.275"}));
  EXPECT_EQ(row(lines, {"it"}), (Row{"0.620", "0.190", "0.085", "0.210", "0.355", "0.410", "0.120", "0.275"}));
  EXPECT_EQ(row(lines, {"without", "head", "0"}),
            (Row{"0.000", "0.000", "0.000", "0.000", "0.355", "0.410", "0.120", "0.275"}));
  EXPECT_EQ(row(lines, {"without", "head", "1"}),
            (Row{"0.620", "0.190", "0.085", "0.210", "0.000", "0.000", "0.000", "0.000"}));
}

TEST(Examples, CrossFindsTheWords) {
  const auto lines = words_of(EXAMPLE_CROSS);
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[2], (Row{"chat", "0.011", "0.011", "0.978"}));  // head 0 compares meanings
  EXPECT_EQ(lines[3], (Row{"noir", "0.011", "0.978", "0.011"}));
  EXPECT_EQ(lines[6], (Row{"chat", "0.011", "0.978", "0.011"}));  // head 2 places
  EXPECT_EQ(lines[8][10], "0.978,");
  EXPECT_EQ(lines[8][15], "0.000");
}

// The prompt, then six tokens one by one; f16 storage is all that parts them from the full pass.
TEST(Examples, DecodeComesToTheFullPass) {
  const auto lines = words_of(EXAMPLE_DECODE);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ((Row{lines[1][0], lines[1][1]}), (Row{"12", "12"}));
  EXPECT_EQ((Row{lines[7][0], lines[7][1]}), (Row{"1", "18"}));
  for (std::size_t i = 1; i < lines.size(); ++i) EXPECT_LT(std::stod(lines[i][2]), 1e-3);
}

TEST(Examples, EmbedAttendsUniformly) {
  const auto lines = words_of(EXAMPLE_EMBED);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0][1], "[4,4,16,128],");
  // Equal tokens share attention equally: the mean of ln 1 to ln 16.
  EXPECT_EQ(lines[0][7], "1.917");
}

TEST(Examples, HeadsTellWhatTheyDo) {
  const auto lines = words_of(EXAMPLE_HEADS);
  enum Column { entropy, largest, max_weight, self, previous, distance };
  const auto number = [&](const std::string& head, Column column) {
    return std::stod(row(lines, {head})[static_cast<std::size_t>(column)]);
  };
  EXPECT_GT(number("previous", previous), 0.99);
  EXPECT_NEAR(number("previous", distance), 1, 0.05);
  EXPECT_GT(number("self", self), 0.99);
  EXPECT_NEAR(number("uniform", largest), 100, 0.1);
  EXPECT_NEAR(number("uniform", distance), 15.75, 0.01);  // half of the mean position, 63 / 2
}

// Of a model whose heads are known: two repeat together, two do nothing and can go.
TEST(Examples, PruneKeepsTheHeadsThatMatter) {
  const polyhead::io::Scratch scratch;
  const std::string whole = scratch.folder(), smaller = (scratch / "smaller").string();
  polyhead::model::save(*polyhead::InductionModel::make(), whole);
  const auto lines = words_of(EXAMPLE_PRUNE, "'" + whole + "' '" + smaller + "'");
  EXPECT_EQ(row(lines, {"0.0", "previous"})[0], "token");
  EXPECT_EQ(row(lines, {"1.0"})[0], "induction");
  EXPECT_EQ(row(lines, {"0.1", "averaging"})[2], "1.000");  // the accuracy without it
  EXPECT_EQ(row(lines, {"1.1", "averaging"})[2], "1.000");
  EXPECT_LT(std::stod(row(lines, {"1.0", "induction"})[2]), 0.2);
  EXPECT_EQ(row(lines, {"1", "2", "3", "4", "1", "goes", "on:"}), (Row{"2", "3", "4", "1", "2", "3"}));
  EXPECT_EQ(row(lines, {"2", "of", "4", "heads", "can", "go:", "accuracy"}),
            (Row{"1.000", "before,", "1.000", "after;", "parameters", "46080", "before,", "25600", "after"}));
  EXPECT_EQ(polyhead::Model::load(smaller).heads(), (std::vector<polyhead::HeadId>{{0, 0}, {1, 0}}));
}

}  // namespace
