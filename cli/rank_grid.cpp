#include "cli/rank_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "cli/report.h"
#include "cli/say.h"

namespace polyhead::cli {
namespace {

constexpr std::string_view kExample = "as in --ranks data=2,heads=4, for 8 ranks";

[[noreturn]] void refuse_grid(const std::string& what) { throw Failure(Exit::usage, "--ranks: " + what); }

// "data=2,heads=4".
std::map<std::string, int, std::less<>> numbers_in(std::string_view words) {
  std::map<std::string, int, std::less<>> numbers;
  while (!words.empty()) {
    const std::string_view one = words.substr(0, words.find(','));
    words.remove_prefix(std::min(one.size() + 1, words.size()));
    const std::size_t middle = std::min(one.find('='), one.size());
    const std::string name(one.substr(0, middle));
    const std::string_view digits = one.substr(std::min(middle + 1, one.size()));
    int number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool whole = error == std::errc{} && end == digits.data() + digits.size() && number > 0;
    if ((name != "data" && name != "heads") || !whole) {
      refuse_grid(fmt::format("expected data=N, heads=N, both, or auto, found '{}'; {}", one, kExample));
    }
    if (!numbers.emplace(name, number).second) refuse_grid(fmt::format("{} is given twice; {}", name, kExample));
  }
  return numbers;
}

}  // namespace

Option GridChoice::option() {
  return {"ranks", "HOW",
          "how ranks share a step, as in data=2,heads=4: 2 groups share the parts of a batch, and 4 ranks of each the "
          "heads and products of every pass. One that is left out takes what is left. auto: what 'polyhead plan' finds "
          "fastest; default: data alone",
          &words};
}

int GridChoice::heads(int ranks) const {
  const auto numbers = numbers_in(words);
  const auto number = [&](std::string_view name) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? 0 : found->second;
  };
  const int data = number("data"), heads = number("heads");
  if (data == 0 && heads == 0) return 1;
  const bool fits = data == 0    ? ranks % heads == 0
                    : heads == 0 ? ranks % data == 0
                                 : std::int64_t{data} * heads == ranks;
  if (!fits) {
    const std::string wanted = data == 0    ? fmt::format("a multiple of {} ranks", heads)
                               : heads == 0 ? fmt::format("a multiple of {} ranks", data)
                                            : fmt::format("{} ranks", static_cast<std::int64_t>(data) * heads);
    refuse_grid(fmt::format("expected {} for {}, found {}; start as many with mpirun -n", wanted, words,
                            ranks == 1 ? "one process" : std::to_string(ranks)));
  }
  return data == 0 ? heads : ranks / data;
}

int best_heads(Workload work, int ranks, std::string& why) {
  constexpr double kFlops = 50e9, kBytes = 10e9;
  struct Grid {
    double seconds;
    int heads;
  };
  std::vector<Grid> grids;
  for (int heads = 1; heads <= ranks; ++heads) {
    if (ranks % heads != 0 || ranks / heads > work.parts) continue;
    work.heads = heads;
    grids.push_back({forecast_training(work, rates_for(kFlops, kBytes), kAssumedLink, ranks).seconds(), heads});
  }
  std::stable_sort(grids.begin(), grids.end(), [](const Grid& a, const Grid& b) { return a.seconds < b.seconds; });
  const auto text = [&](const Grid& grid) {
    return fmt::format("data={},heads={} ({} a step)", ranks / grid.heads, grid.heads,
                       text_of(grid.seconds, Style::seconds));
  };
  why = fmt::format("--ranks auto: {}", text(grids[0]));
  if (grids.size() > 1) why += fmt::format(" rather than {}", text(grids[1]));
  why += fmt::format(", as 'polyhead plan' forecasts it for ranks of {:.0f} GFLOP/s\n", kFlops / 1e9);
  return grids[0].heads;
}

}  // namespace polyhead::cli
