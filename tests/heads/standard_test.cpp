// The standard probe, and the cache of the roles that it finds.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "heads/kept_roles.h"
#include "heads/standard_probe.h"
#include "io/file.h"
#include "io/scratch.h"
#include "support/random.h"

namespace polyhead::heads {
namespace {

text::Tokenizer tokenizer_of(const char* name) {
  const io::Scratch scratch;
  std::filesystem::copy_file(
      std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/tokenizers" / (std::string(name) + ".json"),
      scratch / "tokenizer.json");
  return text::load_tokenizer(scratch.folder());
}

model::Config config_of(model::Kind kind, std::int64_t context) {
  model::Config config = model::make_config(kind, 1, 16, 2);
  config.vocabulary = 400;
  config.context = context;
  return config;
}

TEST(StandardProbe, HasSeveralKindsOfTextAndRandomTokensOfTheWholeVocabulary) {
  const text::Tokenizer tokenizer = tokenizer_of("bert");
  const Probes probes = standard_probes(tokenizer, config_of(model::Kind::encoder, 512));
  EXPECT_TRUE(probes.of_texts);
  std::set<int> kinds;
  std::set<std::vector<std::int32_t>> windows;
  std::int64_t sequences = 0;
  for (const Probe& probe : probes.plain) {
    kinds.insert(probe.group);
    ASSERT_TRUE(probe.special.present());
    const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
    EXPECT_EQ(T, 128);
    for (std::int64_t b = 0; b < B; ++b, ++sequences) {
      const std::int32_t* row = probe.tokens.as<std::int32_t>() + b * T;
      EXPECT_EQ(row[0], tokenizer.beginning()[0]);
      EXPECT_EQ(row[T - 1], tokenizer.ending()[0]);
      EXPECT_TRUE(windows.emplace(row, row + T).second) << "a window twice";
      const bool *special = probe.special.as<bool>() + b * T, *separators = probe.separators.as<bool>() + b * T;
      EXPECT_FALSE(special[0] || separators[0]) << "the first token is a kind of its own";
      EXPECT_TRUE(special[T - 1]);
      EXPECT_FALSE(separators[T - 1]) << "a special token is no separator";
      EXPECT_GT(std::count(separators, separators + T, true), 0);
    }
  }
  EXPECT_EQ(kinds.size(), standard_texts().size());
  std::set<std::int32_t> tokens;
  std::set<std::int64_t> lengths;
  for (const Probe& probe : probes.repeats) {
    sequences += probe.tokens.shape()[0];
    lengths.insert(probe.tokens.shape()[1]);
    tokens.insert(probe.tokens.as<std::int32_t>(), probe.tokens.as<std::int32_t>() + probe.tokens.view().count());
  }
  EXPECT_EQ(lengths, (std::set<std::int64_t>{64, 128, 256}));
  EXPECT_GE(sequences, 32);
  EXPECT_GT(std::ssize(tokens), tokenizer.size() / 2) << "words and pieces of words alike";
}

TEST(StandardProbe, FitsTheModel) {
  const text::Tokenizer tokenizer = tokenizer_of("gpt2");
  model::Config config = config_of(model::Kind::gpt, 96);
  const auto longest = [&] {
    std::int64_t most = 0;
    const Probes probes = standard_probes(tokenizer, config);
    for (const Probe& probe : probes.plain) most = std::max(most, probe.tokens.shape()[1]);
    for (const Probe& probe : probes.repeats) most = std::max(most, probe.tokens.shape()[1]);
    return most;
  };
  EXPECT_EQ(longest(), 96);
  config.layers[0].window = 80;
  EXPECT_EQ(longest(), 80) << "no longer than the window of a layer";
}

TEST(StandardProbe, OfAnotherSeedHasOtherWindows) {
  const text::Tokenizer tokenizer = tokenizer_of("gpt2");
  const model::Config config = config_of(model::Kind::gpt, 128);
  const auto tokens_of = [&](std::uint64_t seed) {
    const Probes probes = standard_probes(tokenizer, config, standard_texts(), {.windows = 2, .seed = seed});
    const Tensor& tokens = probes.plain[0].tokens;
    return std::vector(tokens.as<std::int32_t>(), tokens.as<std::int32_t>() + tokens.view().count());
  };
  EXPECT_EQ(tokens_of(1), tokens_of(1));
  EXPECT_NE(tokens_of(1), tokens_of(2));
}

// Scores and limits of a fixed model, as they were when the version was last raised: if they change without it, caches
// would go on showing old roles.
TEST(StandardProbe, FindsOtherScoresOnlyInAnotherVersion) {
  const std::filesystem::path file = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/heads/definitions.txt";
  model::Config config = config_of(model::Kind::gpt, 96);
  config.layers.resize(3, config.layers[0]);
  model::Transformer model(config, 1);
  test::Random random("definitions");
  for (autograd::Parameter* parameter : model.parameters()) test::fill_normal(parameter->value, random, 0.5);
  const Probes probes = standard_probes(tokenizer_of("gpt2"), config);
  Context context(1);
  std::vector<std::pair<std::string, double>> now;
  for (const HeadRoles& head : survey_roles(context, model, probes).roles) {
    for (const RoleScore& score : head.scores) {
      const std::string name = to_string(head.id) + " " + score.role;
      now.emplace_back(name + ", score", score.score);
      now.emplace_back(name + ", limit", score.limit());
    }
  }
  std::ifstream then(file);
  std::string word, name;
  int version = 0;
  then >> word >> version;
  std::getline(then, word);
  std::vector<std::string> changed;
  for (const auto& [what, value] : now) {
    double kept = -1;
    std::getline(then, name, '=');
    then >> kept;
    std::getline(then, word);
    if (name != what || std::abs(kept - value) > 1e-3) changed.push_back(what);
  }
  if (changed.empty() && version == kRolesVersion) return;
  if (version == kRolesVersion) {
    FAIL() << changed[0] << " and others are not what they were: raise kRolesVersion in src/heads/kept_roles.h, then "
           << "run this once more with POLYHEAD_ACCEPT=1";
  }
  ASSERT_NE(std::getenv("POLYHEAD_ACCEPT"), nullptr) << "a new version: keep its scores with POLYHEAD_ACCEPT=1";
  std::ofstream to(file);
  to << "version " << kRolesVersion << "\n";
  for (const auto& [what, value] : now) to << what << "=" << value << "\n";
  EXPECT_TRUE(to.flush());
}

class Kept : public testing::Test {
 protected:
  Kept() { setenv("POLYHEAD_CACHE", scratch_.folder().c_str(), 1); }
  ~Kept() override {
    if (before_.empty()) {
      unsetenv("POLYHEAD_CACHE");
    } else {
      setenv("POLYHEAD_CACHE", before_.c_str(), 1);
    }
  }
  std::vector<HeadRoles> ask(const std::string& digest = "0123") {
    return kept_roles(digest, [&] {
      ++found_;
      RoleScore sure{.role = "induction", .score = 0.1 + 0.2, .threshold = 0.6, .control = 0.125};
      sure.interval = {0.25, 0.35};
      sure.p = 1e-9;
      sure.note = "offset -1";
      return std::vector<HeadRoles>{{{2, 7}, {sure, {.role = "averaging", .score = 0.5, .number_only = true}}}};
    });
  }
  std::filesystem::path file() const { return scratch_ / "roles" / "0123.json"; }

  const std::string before_ = std::getenv("POLYHEAD_CACHE") == nullptr ? "" : std::getenv("POLYHEAD_CACHE");
  const io::Scratch scratch_;
  int found_ = 0;
};

TEST_F(Kept, AreFoundOnceAndReadBackAsTheyWere) {
  const std::vector<HeadRoles> first = ask(), again = ask();
  EXPECT_EQ(found_, 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].id, (HeadId{2, 7}));
  ASSERT_EQ(again[0].scores.size(), 2u);
  for (std::size_t n = 0; n < 2; ++n) {
    const RoleScore &a = first[0].scores[n], &b = again[0].scores[n];
    EXPECT_EQ(a.role, b.role);
    EXPECT_EQ(a.score, b.score) << "to the last bit";
    EXPECT_EQ(a.threshold, b.threshold);
    EXPECT_EQ(a.control, b.control);
    EXPECT_EQ(a.note, b.note);
    EXPECT_EQ(a.p, b.p);
    EXPECT_EQ(a.number_only, b.number_only);
    EXPECT_EQ(a.by_chance, b.by_chance);
    ASSERT_EQ(a.interval.has_value(), b.interval.has_value());
    if (a.interval) {
      EXPECT_EQ(a.interval->low, b.interval->low);
      EXPECT_EQ(a.interval->high, b.interval->high);
    }
  }
  ask("4567");
  EXPECT_EQ(found_, 2) << "another model";
}

TEST_F(Kept, AreFoundAgainIfTheFileIsDamagedOrStale) {
  ask();
  const std::string whole = io::read_file(file(), 1 << 20);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    EXPECT_NE(text.find(from), text.npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  int expected = 1;
  for (const std::string& text : {std::string(), whole.substr(0, whole.size() / 2), replaced("0.125", "0.126"),
                                  replaced("induction", "inductive"), replaced("\"version\":2", "\"version\":1"),
                                  replaced("0123", "0124"), std::string("[]"), std::string("null")}) {
    io::spill(file(), text);
    ask();
    EXPECT_EQ(found_, ++expected) << text;
    EXPECT_EQ(io::read_file(file(), 1 << 20), whole) << "and kept anew";
  }
}

TEST_F(Kept, DoWithoutAPlaceToKeepThem) {
  io::spill(scratch_ / "roles", "a file where the folder should be");
  EXPECT_EQ(ask().size(), 1u);
  EXPECT_EQ(ask().size(), 1u);
  EXPECT_EQ(found_, 2);
}

// A model whose weights differ by one bit is another model.
TEST_F(Kept, BelongToTheWeights) {
  const text::Tokenizer tokenizer = tokenizer_of("gpt2");
  model::Transformer model(config_of(model::Kind::gpt, 128), 1);
  Context context(1);
  const auto files = [&] {
    const auto all = std::filesystem::directory_iterator(scratch_ / "roles");
    return std::distance(begin(all), end(all));
  };
  const std::vector<HeadRoles> first = standard_roles(context, model, tokenizer),
                               again = standard_roles(context, model, tokenizer);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(first[0].scores[0].score, again[0].scores[0].score);
  model.parameters()[0]->value.as<float>()[0] += 1;
  standard_roles(context, model, tokenizer);
  EXPECT_EQ(files(), 2);
}

}  // namespace
}  // namespace polyhead::heads
