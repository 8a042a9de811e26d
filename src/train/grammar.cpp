// English sentences from templates, as many whole ones as fit, with the links between their words:
//   ADVERB subject VERB adjective              [while PRONOUN slept] .    today the king near the ships is happy .
//   ADVERB subject VERB thanked object [while | because PRONOUN slept] .  the pronoun: subject | object
// A subject or object is "the [adjective] noun" with up to two modifiers, whose nouns stand between it and the words
// that agree with it: "near the ships", "that the old queen liked". Two kinds of word count, and both are determined:
// the verb, by the adverb (today is/are, yesterday was/were, lately has/have) and the subject's number, and the
// pronoun, by the conjunction and the referent's number and gender.
#include <iterator>

#include "train/random_task.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

constexpr const char* kWords[] = {
    "PAD",   "BOS",       ".",      "the",    "that",  "while", "because",            //
    "he",    "she",       "it",     "they",                                           // pronouns
    "today", "yesterday", "lately",                                                   // adverbs
    "is",    "are",       "was",    "were",   "has",   "have",                        // verbs: 2·adverb + plural
    "king",  "kings",     "boy",    "boys",   "man",   "men",   "uncle",   "uncles",  // nouns: 8·gender ..
    "queen", "queens",    "girl",   "girls",  "woman", "women", "aunt",    "aunts",   //
    "dog",   "dogs",      "horse",  "horses", "bird",  "birds", "ship",    "ships",   //
    "old",   "small",     "happy",  "tired",  "brave", "late",                        // adjectives
    "near",  "behind",    "with",                                                     // prepositions
    "liked", "saw",       "heard",                                                    // of modifiers
    "found", "thanked",   "called", "helped",                                         // after has and have
    "slept", "waited",    "sang",   "left",                                           // after pronouns
};
enum : std::int32_t {
  kPad,
  kBos,
  kStop,
  kThe,
  kThat,
  kWhile,
  kBecause,
  kPronouns,
  kThey = kPronouns + 3,
  kAdverbs,
  kLately = kAdverbs + 2,
  kVerbs,
  kNouns = kVerbs + 6,
  kAdjectives = kNouns + 24,
  kPrepositions = kAdjectives + 6,
  kLiked = kPrepositions + 3,
  kFound = kLiked + 3,
  kSlept = kFound + 4,
  kWordsEnd = kSlept + 4
};
static_assert(std::size(kWords) == kWordsEnd);

constexpr std::int64_t kLongestSentence = 28;

bool is_plural(std::int32_t noun) { return (noun - kNouns) % 2 == 1; }
std::int32_t pronoun_for(std::int32_t noun) { return is_plural(noun) ? kThey : kPronouns + (noun - kNouns) / 8; }

// Writes one sentence after another; positions are those of the whole sequence.
class Writer {
 public:
  explicit Writer(Draws& draws) : draws_(draws) {}

  void sentence() {
    const std::int32_t adverb = say_one_of(kAdverbs, kVerbs);
    const std::size_t subject = phrase(draws_.below(2) + draws_.below(2));
    link("subject-verb", subject, kVerbs + 2 * (adverb - kAdverbs) + is_plural(words[subject]));
    std::size_t object = subject;
    if (adverb == kLately) {
      say_one_of(kFound, kSlept);
      object = phrase(draws_.below(2));
    } else {
      say_one_of(kAdjectives, kPrepositions);
    }
    if (!draws_.one_in(3)) clause(subject, object);
    words.push_back(kStop);
  }

  std::vector<std::int32_t> words = {kBos};
  std::vector<Link> links;

 private:
  std::int32_t say_one_of(std::int32_t first, std::int32_t end) {
    words.push_back(draws_.between(first, end - 1));
    return words.back();
  }

  // A word that depends on the one at `key`.
  void link(const char* relation, std::size_t key, std::int32_t word) {
    links.push_back({static_cast<int>(words.size()), static_cast<int>(key), relation});
    words.push_back(word);
  }

  // "the [adjective] noun" and modifiers; returns where the noun stands.
  std::size_t phrase(std::int32_t modifiers) {
    words.push_back(kThe);
    if (draws_.one_in(2)) say_one_of(kAdjectives, kPrepositions);
    say_one_of(kNouns, kAdjectives);
    const std::size_t noun = words.size() - 1;
    for (std::int32_t n = 0; n < modifiers; ++n) modifier();
    return noun;
  }

  void modifier() {
    if (draws_.one_in(2)) {
      say_one_of(kPrepositions, kLiked);
      phrase(0);
    } else {
      words.push_back(kThat);
      phrase(0);
      say_one_of(kLiked, kFound);
    }
  }

  void clause(std::size_t subject, std::size_t object) {
    const bool about_object = object != subject && draws_.one_in(2);
    words.push_back(about_object ? kBecause : kWhile);
    const std::size_t referent = about_object ? object : subject;
    link("pronoun-referent", referent, pronoun_for(words[referent]));
    say_one_of(kSlept, kWordsEnd);
  }

  Draws& draws_;
};

class Grammar final : public RandomTask {
 public:
  using RandomTask::RandomTask;

  std::string token_text(std::int32_t token) const override { return kWords[token]; }
  std::vector<std::int32_t> special_tokens() const override { return {kBos, kStop}; }

 private:
  Sequence draw(Draws& draws) const override {
    Writer writer(draws);
    std::size_t words = 0, links = 0;  // of the sentences that fit
    while (std::ssize(writer.words) <= context()) {
      words = writer.words.size();
      links = writer.links.size();
      writer.sentence();
    }
    writer.words.resize(words);
    writer.links.resize(links);
    Sequence sequence = {std::move(writer.words), std::vector<std::int32_t>(words, -1), std::move(writer.links)};
    for (const Link& link : sequence.links) {
      const auto word = static_cast<std::size_t>(link.query);
      sequence.targets[word - 1] = sequence.tokens[word];
    }
    return sequence;
  }
};

}  // namespace

std::unique_ptr<Task> make_grammar(const TaskSummary& about, const TaskOptions& options) {
  if (options.vocabulary != 0 && options.vocabulary != kWordsEnd) {
    throw Error(ErrorCode::value, "task " + options.name,
                "vocabulary: expected " + std::to_string(kWordsEnd) + " (its words are given), found " +
                    std::to_string(options.vocabulary));
  }
  const TaskShape shape = {
      .vocabulary = kWordsEnd, .context = context_or(options, 40, 1 + kLongestSentence), .padded = true};
  return std::make_unique<Grammar>(about, options.seed, shape);
}

}  // namespace polyhead::train
