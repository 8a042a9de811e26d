// The grammar against a reader of its own, which goes by the words; and the shortcuts that must not work.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "train/samples.h"

namespace polyhead::train {
namespace {

using Words = std::vector<std::string>;

struct Noun {
  bool plural;
  std::string pronoun;
};
// Every noun of the grammar, written down again.
std::map<std::string, Noun> nouns() {
  const std::vector<std::pair<std::string, Words>> singular = {{"he", {"king", "boy", "man", "uncle"}},
                                                               {"she", {"queen", "girl", "woman", "aunt"}},
                                                               {"it", {"dog", "horse", "bird", "ship"}}};
  const std::map<std::string, std::string> irregular = {{"man", "men"}, {"woman", "women"}};
  std::map<std::string, Noun> all;
  for (const auto& [pronoun, words] : singular) {
    for (const std::string& word : words) {
      all[word] = {false, pronoun};
      all[irregular.contains(word) ? irregular.at(word) : word + "s"] = {true, "they"};
    }
  }
  return all;
}

// Reads a sequence from left to right and says what form the next word has if it is a verb or a pronoun.
class Reader {
 public:
  // `nearest`: a reader who takes the last noun for the one that matters.
  explicit Reader(bool nearest) : nearest_(nearest) {}

  std::string next(const std::string& word) {
    if (verbs_.contains(word)) adverb_ = word, subject_.clear(), object_.clear();
    if (participles_.contains(word)) wants_object_ = true;
    if (nouns_.contains(word)) noun(word);
    if (word == "while") return nouns_.at(nearest_ ? last_ : subject_).pronoun;
    if (word == "because") return nouns_.at(nearest_ ? last_ : object_).pronoun;
    if (subject_.empty()) return "";
    return verbs_.at(adverb_)[nouns_.at(nearest_ ? last_ : subject_).plural];
  }

 private:
  void noun(const std::string& word) {
    if (subject_.empty()) subject_ = word;
    if (wants_object_) object_ = word;
    wants_object_ = false;
    last_ = word;
  }

  const std::map<std::string, Noun> nouns_ = nouns();
  const std::map<std::string, Words> verbs_ = {
      {"today", {"is", "are"}}, {"yesterday", {"was", "were"}}, {"lately", {"has", "have"}}};
  const std::set<std::string> participles_ = {"found", "thanked", "called", "helped"};
  bool nearest_, wants_object_ = false;
  std::string adverb_, subject_, object_, last_;
};

class Grammar : public testing::Test {
 protected:
  double score_of_reader(bool nearest) const {
    return score(sequences, [&](const Tokens& tokens) {
      Reader reader(nearest);
      Tokens answers;
      for (const std::int32_t token : tokens) answers.push_back(id(reader.next(task->token_text(token))));
      return answers;
    });
  }
  std::int32_t id(const std::string& word) const {
    for (std::int32_t token = 0; token < task->vocabulary(); ++token) {
      if (task->token_text(token) == word) return token;
    }
    return -1;
  }
  std::string text(const Sequence& sequence, int position) const {
    return task->token_text(sequence.tokens[static_cast<std::size_t>(position)]);
  }

  std::unique_ptr<Task> task = task_called("grammar");
  std::vector<Sequence> sequences = samples(*task, Split::train, 2000);
};

TEST_F(Grammar, IsSolvedByAReader) { EXPECT_EQ(score_of_reader(false), task->best_score()); }

TEST_F(Grammar, IsNotSolvedByTheNearestNoun) {
  const double nearest = score_of_reader(true);
  std::cout << "the nearest noun is right in " << nearest << " of the cases\n";
  EXPECT_LT(nearest, 0.75);
}

TEST_F(Grammar, CountsVerbsAndPronounsAlone) {
  const std::set<std::string> verbs = {"is", "are", "was", "were", "has", "have"};
  const std::set<std::string> pronouns = {"he", "she", "it", "they"};
  std::map<std::string, int> seen;
  for (const Sequence& sequence : sequences) {
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      const std::string word = i + 1 < sequence.tokens.size() ? text(sequence, static_cast<int>(i) + 1) : "";
      ASSERT_EQ(sequence.targets[i] >= 0, verbs.contains(word) || pronouns.contains(word));
      if (sequence.targets[i] >= 0) ++seen[word];
    }
    EXPECT_EQ(text(sequence, 0), "BOS");
    EXPECT_EQ(task->token_text(sequence.tokens.back()), ".");
    EXPECT_EQ(std::ssize(sequence.links), counted_in(sequence));
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST_F(Grammar, LinksJoinWordsThatAgree) {
  const std::map<std::string, Noun> known = nouns();
  const std::set<std::string> plural = {"are", "were", "have"};
  for (const Sequence& sequence : sequences) {
    for (const Link& link : sequence.links) {
      const Noun& noun = known.at(text(sequence, link.key));
      const std::string word = text(sequence, link.query);
      if (link.relation == "subject-verb") {
        EXPECT_EQ(plural.contains(word), noun.plural);
      } else {
        EXPECT_EQ(link.relation, "pronoun-referent");
        EXPECT_EQ(word, noun.pronoun);
      }
    }
  }
}

// The share of links that lie at the commonest distance: what a head gets that looks back a fixed distance.
TEST_F(Grammar, NoFixedDistanceServes) {
  std::map<std::string, std::map<int, int>> distances;
  for (const Sequence& sequence : sequences) {
    for (const Link& link : sequence.links) ++distances[link.relation][link.query - link.key];
  }
  ASSERT_EQ(distances.size(), 2u);
  for (const auto& [relation, counts] : distances) {
    int all = 0, most = 0;
    for (const auto& [distance, count] : counts) all += count, most = std::max(most, count);
    const double share = most / static_cast<double>(all);
    std::cout << relation << ": the best fixed distance is right in " << share << " of the cases\n";
    EXPECT_GT(all, 2000);
    EXPECT_LT(share, 0.4) << relation;
  }
}

}  // namespace
}  // namespace polyhead::train
