#include "core/suggest.h"

#include <algorithm>
#include <numeric>

namespace polyhead {
namespace {

// How many letters to insert, drop, change or swap with a neighbour to turn one word into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view given, const std::vector<std::string>& known) {
  const std::size_t near = std::max<std::size_t>(1, given.size() / 3);
  std::size_t best = near + 1;
  std::string_view word;
  for (const std::string& candidate : known) {
    const std::size_t longer = std::max(given.size(), candidate.size()) - std::min(given.size(), candidate.size());
    if (longer > near) continue;  // skips long words, which files may hold
    const std::size_t steps = distance(given, candidate);
    if (steps < best) best = steps, word = candidate;
  }
  return word.empty() ? "" : "; did you mean '" + std::string(word) + "'?";
}

}  // namespace polyhead
