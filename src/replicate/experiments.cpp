#include "replicate/experiments.h"

namespace polyhead::replicate {
namespace {

// Numbers of the papers as their authors print them; heads are numbered as in the code, from 0.
std::vector<Experiment> made() {
  std::vector<Experiment> all;
  all.push_back({{"previous-token", "Some heads look at the token before",
                  "Olsson et al. 2022; Wang et al. 2023 (heads 2.2 and 4.11 of GPT-2 small)",
                  "0.99 of the weight of head 4.11 of GPT-2 small, as others measured it",
                  "mean weight on the key before, in texts; chosen on half of the windows, told of the other half"},
                 Takes::language_model});
  all.back().look = previous_token;
  all.push_back(
      {{"induction", "Some heads look at what followed the last time", "Olsson et al. 2022, prefix matching",
        "0.94 of the weight of head 5.5 of GPT-2 small, as others measured it on random tokens that come twice",
        "mean weight on the token after the earlier occurrence, on random tokens that repeat, in rows whose token "
        "has occurred once"},
       Takes::language_model});
  all.back().look = induction;
  all.push_back({{"duplicate", "Some heads look at the same token, where it stood before",
                  "Wang et al. 2023, duplicate-token heads (0.1, 3.0 and 0.10 of GPT-2 small)",
                  "0.67 of the weight of head 3.0 of GPT-2 small, as others measured it",
                  "mean weight on the earlier occurrence, on the same tokens"},
                 Takes::language_model});
  all.back().look = duplicate;
  all.push_back(
      {{"copying", "Induction heads copy what they look at",
        "Elhage et al. 2021 (OV circuits); Olsson et al. 2022, copying",
        "induction heads score high, most others about 0",
        "what a head would write for a word that stands alone, through the last norm to the logits: whether the "
        "word's own logit is in the highest hundredth. Theirs is the share of the raised logits in random text"},
       Takes::language_model,
       true});
  all.back().look = copying;
  all.push_back({{"sinks", "Most heads of a language model rest on the first token",
                  "Gu et al. 2025, When attention sink emerges in language models",
                  "70 % of the heads of GPT2-XL, 92 % of Llama-2-7B",
                  "share of heads whose mean weight on the first of 64 tokens is above 0.3"},
                 Takes::language_model});
  all.back().look = sinks;
  all.push_back(
      {{"name-movers", "Some heads carry the right name to the end of a sentence",
        "Wang et al. 2023, Interpretability in the wild",
        "0.59 of the last token's weight lies on the name; heads that copy 95 % of names, an average one 20 %",
        "heads that give 0.3 of the last token's weight to the right name and put 80 % of names into the five "
        "highest logits, chosen on half of the prompts, told of the other half; templates of our own"},
       Takes::language_model,
       true});
  all.back().look = name_movers;
  all.push_back(
      {{"copy-suppression", "A head lowers the logit of what it looks at", "McDougall et al. 2023, Copy suppression",
        "head 10.7 of GPT-2 small; 76.9 % of its effect",
        "share of words whose own logit the head puts in the lowest hundredth; and whether the margin of the right "
        "name in the prompts of name-movers grows without it"},
       Takes::language_model,
       true});
  all.back().look = copy_suppression;
  all.push_back(
      {{"successors", "A head turns an ordinal word into the next one", "Gould et al. 2023, Successor heads",
        "found in models of 31 million to 12 billion parameters",
        "share of numbers, days, months and letters for which, of all of them, what the head writes raises the "
        "successor most; chosen on half, told of the other half"},
       Takes::language_model,
       true});
  all.back().look = successors;
  all.push_back(
      {{"retrieval", "A few heads fetch what a long text hides",
        "Wu et al. 2024, Retrieval head mechanistically explains long-context factuality",
        "3 to 6 % of the heads score above 0.1",
        "share of the answer's tokens that the model gets right while the head's largest weight lies on that token "
        "in the hidden sentence, mean over sentences; up to 1,024 tokens, where theirs have up to 50,000"},
       Takes::language_model});
  all.back().look = retrieval;
  all.push_back(
      {{"idle-heads", "Most heads can be taken out alone without a change that shows",
        "Michel et al. 2019, section 3.2", "8 of 96 encoder heads of a translator change the result (p < 0.01)",
        "of 90 heads drawn (24 with --quick), those whose output 0 changes the loss on texts, with products rounded to "
        "bf16 on either side; "
        "of those said so one in twenty may be chance"},
       Takes::language_model});
  all.back().look = idle_heads;
  all.push_back({{"gradient-and-damage", "The gradient of a gate stands for what taking the head out does",
                  "Michel et al. 2019, section 4.1", "used to rank heads; no correlation printed",
                  "Spearman's correlation, over heads, of the gradient (normalised by layer) and the rise of the loss"},
                 Takes::language_model});
  all.back().look = gradient_and_damage;
  all.push_back(
      {{"pruning", "Many heads can go without a loss that shows, ranked by the gradient",
        "Michel et al. 2019, section 4", "20 % of a translator's heads, 40 % of BERT's on MNLI",
        "rise of the loss on texts without the fifth of the heads whose gradients are least on other texts; five "
        "random fifths beside it"},
       Takes::language_model});
  all.back().look = pruning;
  all.push_back({{"on-separators", "Heads of the middle layers rest on [SEP]", "Clark et al. 2019, section 3.2",
                  "more than half of the weight in layers 6 to 10 of BERT",
                  "mean weight on the special token at the end of a window, by layer"},
                 Takes::encoder});
  all.back().look = on_separators;
  all.push_back({{"broad-at-first", "Heads of the first layer look widely", "Clark et al. 2019, section 3.3",
                  "entropies of BERT's first layer are near that of equal weights",
                  "mean entropy of a row relative to that of equal weights, by layer"},
                 Takes::encoder});
  all.back().look = broad_at_first;
  all.push_back({{"neighbours", "Some heads of an encoder look at the token before or after",
                  "Clark et al. 2019, section 3.1", "4 and 5 heads of 144 of BERT give more than half of their weight",
                  "mean weight on the key before, or after, above one half"},
                 Takes::encoder});
  all.back().look = neighbours;
  all.push_back(
      {{"one-offset", "Positional heads point at one offset, and surely", "Voita et al. 2019",
        "the largest weight at one offset in 90 % of the rows; its mean above 0.8", "the same, in windows of texts"},
       Takes::encoder});
  all.back().look = one_offset;
  all.push_back(
      {{"induction-forms", "Induction takes two layers", "Elhage et al. 2021; Olsson et al. 2022",
        "in every model of two or more layers, in none of one",
        "models of attention alone, 300 steps on segments of 8 to 32 tokens that repeat: the best head's weight on "
        "the token after the earlier occurrence, over seeds"},
       Takes::nothing});
  all.back().train = induction_forms;
  return all;
}

}  // namespace

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = made();
  return all;
}

bool fits(const Experiment& experiment, const model::Config& config) {
  if (experiment.takes == Takes::nothing) return false;
  const bool encoder = config.kind == model::Kind::encoder;
  if (config.kind == model::Kind::classifier || encoder != (experiment.takes == Takes::encoder)) return false;
  return !experiment.adds_to_stream || !(config.sandwich || config.post_norm);
}

}  // namespace polyhead::replicate
