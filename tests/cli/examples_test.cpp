// The examples of every command's help are run, in a folder that has what they name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::cli {
namespace {

namespace fs = std::filesystem;

// Those that are not, and why.
const std::map<std::string, std::string> kNotRun = {
    {"study", "takes minutes; tests/study runs one"},
    {"study --quick --out first-look", "the same"},
    {"study --resume", "the same"},
    {"get smollm2", "fetches; get_test.cpp has its own package index"},
    {"get hf:sshleifer/tiny-gpt2", "the same"},
    {"serve smollm2 --port 8080", "others may have the port"},
    {"serve smollm2 --open", "opens a browser; tests/serve/address_test.py has its own"},
    {"prune smollm2 --text book.txt --out small", "takes minutes"},
    {"prune smollm2 --text book.txt --out small --layout transformers", "the same"},
    {"replicate --quick", "takes minutes for each model; tests/replicate has tiny ones"},
    {"replicate smollm2 --format json", "takes an hour or more"},
};
// What makes those shorter that would take long: fewer steps than the task's own, one small shape.
const std::map<std::string, std::string> kShorter = {
    {"train copy --out run", " --steps 2 --batch 2"},
    {"train copy --heads 8 --no-feed-forward --out copy8", " --steps 2 --batch 2"},
    {"train text --file book.txt --out book", " --steps 2 --batch 2"},
    {"replicate smollm2 --only sinks --only induction", " --quick"},
    {"bench", " --shape 1,2,8,4"},
    {"bench --statistics light", " --shape 1,2,8,4"},
    {"bench --dtype bf16 --threads 1 --format csv", " --shape 1,2,8,4"},
};

std::vector<std::string> commands() {
  std::vector<std::string> found;
  bool listed = false;
  for (const std::string& line : lines_of(output_of("--help").text)) {
    if (listed && !line.starts_with("  ")) break;
    if (listed && line[2] != ' ') found.push_back(line.substr(2, line.find(' ', 2) - 2));  // else its summary goes on
    listed = listed || line == "Commands:";
  }
  return found;
}

// The arguments of each; those with mpirun are the ranks' tests'.
std::vector<std::string> examples_of(const std::string& name) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(output_of(name + " --help").text)) {
    if (!line.starts_with("  polyhead ")) continue;
    found.push_back(line.substr(11, line.find("  ", 11) - 11));
  }
  return found;
}

bool names_a_fetched_model(const std::string& example) {
  return std::regex_search(example, std::regex(R"(\b(smollm2|minilm|base tuned)\b)"));
}

class Examples : public testing::Test {
 protected:
  Examples() {
    std::string text;
    for (int n = 0; n < 120; ++n)
      text += "It was the best of times, it was the worst of times. Line " + std::to_string(n) + ".\n";
    for (const char* name : {"book.txt", "other.txt", "chapter.txt", "sentences.txt", "README.md"}) {
      io::spill(scratch_ / name, text);
    }
    io::spill(scratch_ / "links.jsonl",
              R"({"tokens": "BOS a b c SEP a b c", "query": 5, "key": 1, "relation": "same letter"})"
              "\n");
  }
  void make(const std::string& arguments) {
    const Ran ran = here(arguments);
    ASSERT_EQ(ran.code, 0) << arguments << "\n" << ran.text;
  }
  // What it writes to stderr. A server is ended once it says where it is, or does not within two minutes.
  Ran here(const std::string& arguments) {
    const std::string folder = "cd '" + scratch_.folder() + "' && ";
    if (!arguments.starts_with("serve ")) return shell(folder + command(arguments) + " 2>&1 >/dev/null </dev/null");
    return shell(
        folder + command(arguments) + " 2>said >/dev/null </dev/null & server=$!; cd '" + scratch_.folder() +
        "'; for turn in $(seq 1200); do grep -qs address said && break; kill -0 $server || break; sleep 0.1; done; "
        "kill $server; wait $server; cat said; grep -q address said");
  }
  std::set<fs::path> files() const {
    const fs::directory_iterator begin(scratch_.folder());
    return {fs::begin(begin), fs::end(begin)};
  }
  void run(const std::vector<std::string>& examples) {
    for (const std::string& example : examples) {
      SCOPED_TRACE(example);
      const auto shorter = kShorter.find(example);
      const Ran ran = here(example + (shorter == kShorter.end() ? "" : shorter->second));
      EXPECT_EQ(ran.code, 0) << ran.text;
    }
  }
  // Each in the same folder, without what the others wrote.
  void run_apart(const std::vector<std::string>& examples) {
    const std::set<fs::path> before = files();
    for (const std::string& example : examples) {
      run({example});
      for (const fs::path& made : files()) {
        if (!before.contains(made)) fs::remove_all(made);
      }
    }
  }

  io::Scratch scratch_;
};

TEST_F(Examples, AreThereForEveryCommand) {
  std::set<std::string> all;
  const std::vector<std::string> names = commands();
  EXPECT_GE(names.size(), 18u);
  for (const std::string& name : names) {
    const std::vector<std::string> found = examples_of(name);
    EXPECT_FALSE(found.empty()) << name;
    all.insert(found.begin(), found.end());
  }
  for (const auto& list : {kNotRun, kShorter}) {
    for (const auto& [example, why] : list) EXPECT_TRUE(all.contains(example)) << example << " is no example";
  }
}

TEST_F(Examples, OfTrainRunOneAfterTheOther) { run(examples_of("train")); }

TEST_F(Examples, OfOwnModelsRun) {
  make("train copy --steps 2 --batch 2 --layers 2 --heads 4 --width 16 --out run");
  make("train text --file book.txt --steps 2 --batch 2 --layers 1 --heads 2 --width 16 --out book");
  fs::create_directories(scratch_ / "polyhead-study/models");
  for (const char* name : {"other", "other-run", "before", "after", "polyhead-study/models/grammar-8"}) {
    fs::copy(scratch_ / "run", scratch_ / name);
  }
  int count = 0;
  for (const std::string& name : commands()) {
    std::vector<std::string> examples = name == "train" ? std::vector<std::string>{} : examples_of(name);
    std::erase_if(examples, [](const std::string& one) { return kNotRun.contains(one) || names_a_fetched_model(one); });
    count += static_cast<int>(examples.size());
    run_apart(examples);
  }
  EXPECT_GT(count, 30);
}

// SmolLM2 and MiniLM are fetched by `polyhead get`, which make parity does.
TEST_F(Examples, OfFetchedModelsRun) {
  const char* const cache = std::getenv("POLYHEAD_CACHE");
  const fs::path folder = cache == nullptr ? "" : cache, minilm = fs::absolute(folder / "minilm");
  if (cache == nullptr || !fs::exists(minilm) || !fs::exists(folder / "smollm2")) {
    GTEST_SKIP() << "expected POLYHEAD_CACHE with smollm2 and minilm, as `polyhead get smollm2 minilm` leaves it";
  }
  for (const char* name : {"base", "tuned"}) fs::create_symlink(minilm, scratch_ / name);
  for (const std::string& name : commands()) {
    std::vector<std::string> examples = examples_of(name);
    std::erase_if(examples,
                  [](const std::string& one) { return kNotRun.contains(one) || !names_a_fetched_model(one); });
    run_apart(examples);
  }
}

}  // namespace
}  // namespace polyhead::cli
