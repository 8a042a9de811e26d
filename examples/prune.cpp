// Opens a model that has learnt to repeat what it has read, shows what each head is for and what is lost without it,
// lets the model continue a sequence, and writes a smaller model without the heads that it does not need:
//
//   polyhead train repeat --out run
//   example_prune run small
#include <polyhead/polyhead.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <random>
#include <vector>

namespace {

constexpr std::int32_t kBegin = 0;  // what every sequence begins with

// `batch` sequences: kBegin, then a segment of different tokens, repeated. From the second copy on the next token is
// known, and counts.
polyhead::Examples repeats(const polyhead::Model& model, std::int64_t batch, std::minstd_rand& random) {
  const std::int64_t T = model.context_length();
  polyhead::Examples made{polyhead::Tensor::empty({batch, T}, polyhead::DType::i32),
                          polyhead::Tensor::empty({batch, T}, polyhead::DType::i32),
                          {}};
  std::vector<std::int32_t> symbols(static_cast<std::size_t>(model.vocabulary() - 1));
  std::iota(symbols.begin(), symbols.end(), kBegin + 1);
  for (std::int64_t b = 0; b < batch; ++b) {
    std::shuffle(symbols.begin(), symbols.end(), random);
    const std::int64_t length = std::min<std::int64_t>(T / 4 + b % 3, std::ssize(symbols));
    const auto token = [&](std::int64_t t) {
      return t == 0 ? kBegin : symbols[static_cast<std::size_t>((t - 1) % length)];
    };
    for (std::int64_t t = 0; t < T; ++t) {
      made.tokens.as<std::int32_t>()[b * T + t] = token(t);
      made.targets.as<std::int32_t>()[b * T + t] = t > length ? token(t + 1) : -1;
    }
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: example_prune MODEL SMALLER\n");
    return 2;
  }
  polyhead::Context context;
  const polyhead::Model model = polyhead::Model::load(argv[1]);
  std::minstd_rand random(1);
  std::vector<polyhead::Examples> ranking, judging;  // judged on other sequences than ranked on
  ranking.push_back(repeats(model, 32, random));
  judging.push_back(repeats(model, 32, random));

  std::printf("%-5s %-15s %6s %9s %17s\n", "head", "role", "score", "entropy", "accuracy without");
  for (const polyhead::SurveyedHead& head :
       polyhead::survey_heads(context, model, ranking[0].tokens, {.separators = {kBegin}})) {
    const polyhead::Score without = model.score(context, judging, {head.id});
    std::printf("%-5s %-15s %6.3f %9.3f %17.3f\n", to_string(head.id).c_str(),
                head.role.empty() ? "-" : head.role.c_str(), head.role_score,
                head.mean(polyhead::Statistic::entropy, polyhead::Statistic::rows), without.accuracy);
  }

  std::printf("1 2 3 4 1 goes on:");
  const auto said =
      model.generate(context, {{kBegin, 1, 2, 3, 4, 1}}, 6, {.temperature = 0});  // one prompt, one answer
  for (const std::int32_t token : said[0]) std::printf(" %d", token);

  const polyhead::PruneCurve curve = polyhead::prune(context, model, ranking, judging, 0.01);
  const polyhead::Model smaller = polyhead::without_heads(model, curve.removed());
  std::filesystem::create_directories(argv[2]);
  smaller.save(argv[2]);
  std::printf("\n%zu of %zu heads can go: accuracy %.3f before, %.3f after; parameters %lld before, %lld after\n",
              curve.removed().size(), model.heads().size(), curve.accuracy, smaller.score(context, judging).accuracy,
              static_cast<long long>(model.parameter_count()), static_cast<long long>(smaller.parameter_count()));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
