// Verdicts, what is kept of a result, and a run that goes on where it stopped.
#include <gtest/gtest.h>

#include <set>

#include "io/file.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "replicate/replicate.h"
#include "replicate/words_tokenizer.h"

namespace polyhead::replicate {
namespace {

namespace fs = std::filesystem;

TEST(Verdict, TakesTheIntervalBeyondLimitAndControl) {
  const Estimate control{0.1, 0.05, 0.2};
  EXPECT_EQ(verdict_on({0.6, 0.5, 0.7}, control, 0.5), Verdict::comes_out);
  EXPECT_EQ(verdict_on({0.6, 0.49, 0.7}, control, 0.5), Verdict::cannot_tell);
  EXPECT_EQ(verdict_on({0.6, 0.5, 0.7}, {0.5, 0.4, 0.5}, 0.4), Verdict::cannot_tell) << "no further than the control";
  EXPECT_EQ(verdict_on({0.3, 0.2, 0.49}, control, 0.5), Verdict::not_here);
  EXPECT_EQ(verdict_on({0.6, 0.55, 0.65}, {0.8, 0.7, 0.9}, 0.5), Verdict::not_here) << "the control has more";
}

TEST(Measure, IsSaidWithItsInterval) {
  EXPECT_EQ(text_of({"w", {0.834, 0.81, 0.852}}), "0.83 (0.81 to 0.85)");
  EXPECT_EQ(text_of({"w", {0.834, 0.834, 0.834}}), "0.83");
  EXPECT_EQ(text_of({"w", {0.834, 0.5, 1}, Unit::percent}), "83.4 % (50.0 % to 100.0 %)");
  EXPECT_EQ(text_of({"w", {-0.0125, -0.02, 0}, Unit::nats}), "-0.013 nats (-0.020 nats to 0.000 nats)");
}

TEST(Kept, IsReadBackAsItWas) {
  Result result{"sinks",
                "tiny",
                Verdict::partly,
                "Some.",
                {"ours", {0.1 + 0.2, 0.1, 0.4}, Unit::percent},
                {"control", {0, 0, 0}}};
  result.further = {{"rise", {1, 0.5, 1.5}, Unit::nats}};
  result.heads = {{2, 7}, {0, 1}};
  const Result again = result_from(io::parse_json(to_json(result).dump(), "result"));
  EXPECT_EQ(again.verdict, Verdict::partly);
  EXPECT_EQ(again.ours.value.mean, 0.1 + 0.2) << "to the last bit";
  EXPECT_EQ(again.ours.unit, Unit::percent);
  EXPECT_EQ(again.further.at(0).value.high, 1.5);
  EXPECT_EQ(again.heads, result.heads);
  EXPECT_EQ(to_json(again), to_json(result));
}

// Every result says what it is about, and every kind of model has some.
TEST(Experiments, AreToldWhole) {
  std::set<std::string> names;
  model::Config reads = model::make_config(model::Kind::gpt, 2, 16, 2),
                encodes = model::make_config(model::Kind::encoder, 2, 16, 2), sandwich = reads;
  sandwich.sandwich = true;
  std::size_t of_readers = 0, of_encoders = 0, of_sandwiches = 0;
  for (const Experiment& one : experiments()) {
    EXPECT_TRUE(names.insert(one.published.name).second) << one.published.name;
    for (const std::string& text :
         {one.published.claim, one.published.source, one.published.number, one.published.definition}) {
      EXPECT_GT(text.size(), 10u) << one.published.name;
    }
    EXPECT_EQ(one.takes == Takes::nothing, one.train != nullptr);
    EXPECT_EQ(one.takes == Takes::nothing, one.look == nullptr);
    of_readers += fits(one, reads);
    of_encoders += fits(one, encodes);
    of_sandwiches += fits(one, sandwich);
  }
  EXPECT_GE(of_readers, 10u);
  EXPECT_GE(of_encoders, 4u);
  EXPECT_LT(of_sandwiches, of_readers) << "what heads write is normed there";
}

class Replicate : public testing::Test {
 protected:
  Replicate() {
    io::make_folder(scratch_ / "tiny");
    io::spill(scratch_ / "tiny" / "tokenizer.json", words_tokenizer());
    model::Config config = model::make_config(model::Kind::gpt, 2, 32, 2);
    config.vocabulary = text::load_tokenizer(scratch_ / "tiny").size();
    config.context = 128;
    model::save(model::Transformer(config, 1), scratch_ / "tiny");
  }
  std::vector<Result> results(std::vector<std::string> only = {"previous-token", "sinks"}, int most = 100) {
    Context context(1);
    asked_ = 0;
    return replicate(context, {.folder = scratch_ / "out",
                               .models = {scratch_ / "tiny"},
                               .only = std::move(only),
                               .quick = true,
                               .go_on = [this, most] { return ++asked_ <= most; }});
  }
  fs::path file(const char* name) const { return scratch_ / "out/results" / (std::string("tiny-") + name + ".json"); }

  const io::Scratch scratch_;
  int asked_ = 0;
};

TEST_F(Replicate, AnUntrainedModelShowsNothing) {
  const std::vector<Result> all = results({"previous-token", "induction", "duplicate", "sinks", "retrieval"});
  ASSERT_EQ(all.size(), 5u);
  for (const Result& result : all) {
    EXPECT_NE(result.verdict, Verdict::comes_out) << result.sentence;
    EXPECT_NE(result.verdict, Verdict::partly) << result.sentence;
    EXPECT_TRUE(result.heads.empty()) << result.name;
  }
}

TEST_F(Replicate, GoesOnWhereItStopped) {
  EXPECT_EQ(results({}, 2).size(), 1u) << "asked before the model, the first result and the second";
  const std::vector<Result> both = results();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].name, "previous-token");
  // What is there is not looked for again ...
  std::string text = io::read_file(file("previous-token"), 1 << 20);
  const std::string sentence = both[0].sentence;
  text.replace(text.find(sentence), sentence.size(), "Kept.");
  io::spill(file("previous-token"), text);
  EXPECT_EQ(results()[0].sentence, "Kept.");
  // ... unless it is damaged, or of other weights.
  io::spill(file("previous-token"), text.substr(0, text.size() / 2));
  EXPECT_EQ(results()[0].sentence, sentence);
  io::spill(file("previous-token"), text);
  const auto config = model::load(scratch_ / "tiny", Context(1))->config();
  model::save(model::Transformer(config, 2), scratch_ / "tiny");
  EXPECT_NE(results()[0].sentence, "Kept.");
}

TEST_F(Replicate, RefusesWhatItDoesNotKnow) {
  io::expect_error(ErrorCode::input, {"no result is called snks; there are previous-token, induction"},
                   [&] { results({"snks"}); });
  fs::remove(scratch_ / "tiny/tokenizer.json");
  io::expect_error(ErrorCode::input, {"tiny: expected a model with a tokenizer"}, [&] { results(); });
  EXPECT_FALSE(fs::exists(scratch_ / "out")) << "before anything is made";
}

TEST_F(Replicate, ThePageShowsAllOfIt) {
  const std::vector<Result> all = results();
  const std::string page = report::html(page_of(all, true));
  for (const Result& result : all) {
    EXPECT_NE(page.find(result.model + ", " + result.name), page.npos);
    EXPECT_NE(page.find(published(result.name).claim), page.npos) << result.name;
  }
  EXPECT_NO_THROW(report::html(page_of({}, false)));
}

}  // namespace
}  // namespace polyhead::replicate
