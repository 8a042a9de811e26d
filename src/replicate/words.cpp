#include "replicate/words.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/draws.h"

namespace polyhead::replicate {
namespace {

constexpr std::uint32_t kDomain = 0x776f7264u;  // separate from other users of a seed

using Words = std::vector<std::string>;

const Words& names() {
  static const Words all{"Mary",  "John",  "Anna", "Peter", "Tom",   "James", "Sarah", "Paul",  "Kate",   "Mark",
                         "David", "Laura", "Jack", "Emma",  "Simon", "Alice", "Henry", "Helen", "George", "Rose"};
  return all;
}

// {0} gives to {1}; what both do, where, and what is given.
struct Template {
  const char *begin, *between, *rest;
};
constexpr std::array kTemplates{
    Template{"When", " and", " walked through the market, {0} handed the basket to"},
    Template{"Before the train left,", " and", " had been talking at the station. Then {0} passed the ticket to"},
    Template{"Last night", " and", " cooked together, and afterwards {0} gave the plate to"},
    Template{"At the end of the lesson", " and", " were alone in the room, so {0} threw the ball to"},
    Template{"Friends say that", " and", " met by the river, where {0} offered the boat to"},
    Template{"While", " and", " were working in the garden, {0} brought the letter to"}};

const std::vector<Words>& series() {
  static const std::vector<Words> all{
      {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"},
      {"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"},
      {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"},
      {"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
       "December"},
      {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M",
       "N", "O", "P", "Q", "R", "S", "T", "U", "V", "W", "X", "Y", "Z"}};
  return all;
}

// Runs of words that are one token each: "fifth sixth" is not a run of a tokenizer that cuts "sixth".
std::vector<std::vector<std::int32_t>> runs_of(const Specimen& specimen) {
  std::vector<std::vector<std::int32_t>> runs;
  for (const Words& words : series()) {
    runs.emplace_back();
    for (const std::string& word : words) {
      if (const auto token = specimen.one_token(word)) {
        runs.back().push_back(*token);
      } else {
        runs.emplace_back();
      }
    }
  }
  return runs;
}

// The name that gives is {0} in the text.
Prompt prompt_of(const Specimen& specimen, const Template& text, const std::string& gives, const std::string& gets,
                 bool giver_first) {
  const std::string rest = text.rest;
  const std::size_t at = rest.find(" {0}");
  Prompt prompt;
  prompt.tokens = specimen.tokens_of(text.begin);
  const auto add = [&](const std::string& some) {
    for (const text::Token& token : specimen.tokenizer().encode(some, false)) prompt.tokens.push_back(token.id);
    return std::ssize(prompt.tokens) - 1;
  };
  std::int64_t& first = giver_first ? prompt.at_wrong : prompt.at_right;
  std::int64_t& second = giver_first ? prompt.at_right : prompt.at_wrong;
  first = add(" " + (giver_first ? gives : gets));
  add(text.between);
  second = add(" " + (giver_first ? gets : gives));
  add(rest.substr(0, at));
  prompt.again_at_wrong = add(" " + gives);
  add(rest.substr(at + 4));
  prompt.right = *specimen.one_token(gets);
  prompt.wrong = *specimen.one_token(gives);
  return prompt;
}

}  // namespace

std::vector<double> Asked::margins(Specimen& specimen, const std::vector<HeadId>& without) const {
  std::vector<std::vector<std::int32_t>> sequences;
  std::vector<Specimen::Row> ends;
  for (const Prompt& prompt : prompts) {
    ends.push_back({std::ssize(sequences), std::ssize(prompt.tokens) - 1});
    sequences.push_back(prompt.tokens);
  }
  const Tensor logits = specimen.logits_at(rows_of(sequences), ends, without);
  std::vector<double> margins;
  for (std::size_t n = 0; n < prompts.size(); ++n) {
    const float* row = logits.as<float>() + static_cast<std::int64_t>(n) * specimen.config().vocabulary;
    margins.push_back(static_cast<double>(row[prompts[n].right]) - static_cast<double>(row[prompts[n].wrong]));
  }
  return margins;
}

std::vector<std::int32_t> names_of(const Specimen& specimen) {
  std::vector<std::int32_t> tokens;
  for (const std::string& name : names()) {
    if (const auto token = specimen.one_token(name)) tokens.push_back(*token);
  }
  return tokens;
}

Asked ask_names(Specimen& specimen) {
  Words known = names();
  std::erase_if(known, [&](const std::string& name) { return !specimen.one_token(name); });
  Asked asked;
  if (known.size() < 4) return asked;
  Draws draws(1, 0, 0, kDomain);
  for (std::int64_t n = 0; n < specimen.effort().prompts; ++n) {
    draws.shuffle(known, 2);
    const Template& text = kTemplates[static_cast<std::size_t>(n / 2) % kTemplates.size()];
    Prompt prompt = prompt_of(specimen, text, known[0], known[1], n % 2 == 0);
    if (std::ssize(prompt.tokens) <= specimen.config().context) asked.prompts.push_back(std::move(prompt));
  }
  return asked;
}

Asked ask_ordinals(Specimen& specimen) {
  constexpr std::size_t kShown = 3;
  Asked asked;
  for (const std::vector<std::int32_t>& run : runs_of(specimen)) {
    for (std::size_t at = 0; at + kShown + 1 < run.size(); ++at) {
      Prompt& prompt = asked.prompts.emplace_back();
      prompt.tokens = specimen.tokenizer().beginning();
      prompt.tokens.insert(prompt.tokens.end(), run.begin() + static_cast<std::ptrdiff_t>(at),
                           run.begin() + static_cast<std::ptrdiff_t>(at + kShown));
      prompt.right = run[at + kShown];
      prompt.wrong = run[at + kShown + 1];
    }
  }
  return asked;
}

std::vector<Ordinal> ordinals_of(const Specimen& specimen) {
  std::vector<Ordinal> all;
  for (const std::vector<std::int32_t>& run : runs_of(specimen)) {
    for (std::size_t n = 0; n < run.size(); ++n) {
      const std::ptrdiff_t at = std::ssize(all);
      all.push_back({run[n], n > 0 ? at - 1 : -1, n + 1 < run.size() ? at + 1 : -1});
    }
  }
  return all;
}

std::vector<std::int32_t> common_words(const Specimen& specimen, std::size_t count) {
  std::set<std::int32_t> seen;
  std::vector<std::int32_t> found;
  for (const heads::ProbeText& text : heads::standard_texts()) {
    for (const text::Token& token : specimen.tokenizer().encode(text.text, false)) {
      const std::string word = specimen.tokenizer().decode_alone(token.id);
      const auto letters = std::count_if(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
      if (letters >= 4 && seen.insert(token.id).second) found.push_back(token.id);
    }
  }
  Draws draws(2, 0, 0, kDomain);
  draws.shuffle(found, std::min<std::int64_t>(std::ssize(found), static_cast<std::int64_t>(count)));
  found.resize(std::min(found.size(), count));
  return found;
}

}  // namespace polyhead::replicate
