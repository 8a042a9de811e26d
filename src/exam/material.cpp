#include "exam/material.h"

#include <algorithm>
#include <numeric>

#include "core/draws.h"
#include "core/hash.h"
#include "core/memory.h"
#include "heads/sinks.h"
#include "polyhead/error.h"

namespace polyhead::exam {
namespace {

using Sequences = std::vector<train::Sequence>;

constexpr std::int64_t kDrawn = 32;            // sequences drawn at a time
constexpr std::int64_t kTrainingBatches = 32;  // in which tokens are counted

struct Parts {
  Sequences ranking, judging, reporting;
};

// A sequence always belongs to the same part: a hash of its tokens decides.
Sequences& part_of(const std::vector<std::int32_t>& tokens, Parts& parts) {
  const std::uint64_t third = (fnv1a(tokens) * 0x9e3779b97f4a7c15u >> 32) * 3 >> 32;
  return third == 0 ? parts.ranking : third == 1 ? parts.judging : parts.reporting;
}

Parts draw_parts(const train::Task& task, const MaterialOptions& options) {
  Parts parts;
  const auto wanted = static_cast<std::size_t>(options.samples);
  const std::uint64_t first = (options.seed & 0x7fffffff) << 24;  // far from the batches that training validates with
  const auto most = static_cast<std::uint64_t>(24 * options.samples / kDrawn + 24);
  for (std::uint64_t n = 0; n < most; ++n) {
    for (std::int64_t b = 0; b < kDrawn; ++b) {
      train::Sequence drawn = task.sequence(train::Split::validation, first + n, b);
      Sequences& part = part_of(drawn.tokens, parts);
      if (part.size() < wanted) part.push_back(std::move(drawn));
    }
    const std::size_t fewest = std::min({parts.ranking.size(), parts.judging.size(), parts.reporting.size()});
    if (fewest == wanted) return parts;
  }
  throw Error(ErrorCode::value, "material",
              "task " + task.name() + ": expected " + std::to_string(wanted) +
                  " sequences to rank heads by, and twice as many others to judge by and to report on, found too few "
                  "different ones");
}

// Calls call(rows) with at most `batch` rows at a time.
template <class Call>
void in_batches(const Sequences& all, std::int64_t batch, const Call& call) {
  for (std::int64_t at = 0; at < std::ssize(all); at += batch) {
    call(Sequences(all.begin() + at, all.begin() + std::min(at + batch, std::ssize(all))));
  }
}

std::vector<Examples> examples_of(const train::Task& task, const Sequences& all, std::int64_t batch) {
  std::vector<Examples> examples;
  in_batches(all, batch, [&](const Sequences& rows) { examples.push_back(task.batch_of(rows)); });
  return examples;
}

std::vector<heads::Probe> probes_of(const train::Task& task, const Sequences& all, const MaterialOptions& options) {
  std::vector<heads::Probe> probes;
  in_batches(all, options.batch, [&](const Sequences& rows) {
    const train::Batch batch = task.batch_of(rows);
    probes.push_back(
        heads::make_probe(batch.tokens, batch.lengths, task.special_tokens(), options.seed + probes.size()));
    for (std::size_t b = 0; b < rows.size(); ++b) {
      add_relations(task, static_cast<std::int64_t>(b), rows[b].links, probes.back().relations);
    }
  });
  return probes;
}

std::vector<std::int64_t> count_tokens(const train::Task& task) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(task.vocabulary()));
  for (std::int64_t n = 0; n < kTrainingBatches; ++n) {
    for (std::int64_t b = 0; b < kDrawn; ++b) {
      const train::Sequence drawn = task.sequence(train::Split::train, static_cast<std::uint64_t>(n), b);
      for (const std::int32_t token : drawn.tokens) ++counts[static_cast<std::size_t>(token)];
    }
  }
  return counts;
}

// The token that every sequence begins with, if there is one.
std::vector<std::int32_t> common_beginning(const Sequences& all) {
  const std::int32_t first = all[0].tokens[0];
  const bool common = std::all_of(all.begin(), all.end(), [&](const auto& s) { return s.tokens[0] == first; });
  return common ? std::vector<std::int32_t>{first} : std::vector<std::int32_t>{};
}

// A text in adjacent pieces, each between the beginning and the ending.
class Windows {
 public:
  Windows(const Reading& reading, std::int64_t length)
      : reading_(reading),
        length_(length),
        piece_(length - std::ssize(reading.beginning) - std::ssize(reading.ending)) {
    if (piece_ > 0) return;
    throw Error(ErrorCode::value, "material",
                "windows: expected more than the " + std::to_string(length - piece_) +
                    " special tokens around every text, found a length of " + std::to_string(length));
  }

  // The token after a window is its last target.
  std::int64_t count() const { return std::max<std::int64_t>(std::ssize(reading_.tokens) - 1, 0) / piece_; }

  Examples examples(const std::vector<std::int32_t>& windows) const {
    std::vector<std::int64_t> starts;
    for (const std::int32_t window : windows) starts.push_back(window * piece_);
    return pieces(starts, piece_);
  }
  // What is left after the last window: a shorter one, or none.
  std::vector<Examples> rest() const {
    const std::int64_t left = std::max<std::int64_t>(std::ssize(reading_.tokens) - 1, 0) % piece_;
    std::vector<Examples> made;
    if (left > 0) made.push_back(pieces({count() * piece_}, left));
    return made;
  }

 private:
  // `piece` tokens from each start on. The first one after the beginning could be anything: it is not a target.
  Examples pieces(const std::vector<std::int64_t>& starts, std::int64_t piece) const {
    const std::int64_t B = std::ssize(starts), begins = std::ssize(reading_.beginning), T = length_ - piece_ + piece;
    Examples some{Tensor::empty({B, T}, DType::i32), Tensor::empty({B, T}, DType::i32), Tensor()};
    for (std::int64_t b = 0; b < B; ++b) {
      const auto first = reading_.tokens.begin() + starts[static_cast<std::size_t>(b)];
      std::int32_t* tokens = some.tokens.as<std::int32_t>() + b * T;
      tokens = std::copy_n(first, piece, std::copy(reading_.beginning.begin(), reading_.beginning.end(), tokens));
      std::copy(reading_.ending.begin(), reading_.ending.end(), tokens);
      std::int32_t* targets = some.targets.as<std::int32_t>() + b * T;
      std::fill(std::copy_n(first + 1, piece, std::fill_n(targets, begins, -1)), targets + T, -1);
    }
    return some;
  }

  const Reading& reading_;
  std::int64_t length_, piece_;
};

// As many windows as the text has, up to `samples`.
std::vector<Tensor> sink_windows(const Reading& reading, std::int64_t samples, Draws& draws) {
  constexpr std::int64_t kBatch = 8;
  const Windows windows(reading, heads::kSinkTokens);
  const std::vector<std::int32_t> chosen = draws.distinct(std::min(samples, windows.count()), 0, windows.count());
  std::vector<Tensor> made;
  for (std::int64_t at = 0; at < std::ssize(chosen); at += kBatch) {
    const std::int64_t end = std::min(at + kBatch, std::ssize(chosen));
    made.push_back(windows.examples({chosen.begin() + at, chosen.begin() + end}).tokens);
  }
  return made;
}

}  // namespace

void add_relations(const train::Task& task, std::int64_t sequence, const std::vector<train::Link>& links,
                   std::vector<heads::Relation>& to) {
  for (const train::Link& link : links) {
    if (task.classes() == 0) to.push_back({sequence, link.query - 1, link.key, "predicts " + link.relation});
    to.push_back({sequence, link.query, link.key, link.relation});
  }
}

Material make_material(const train::Task& task, const MaterialOptions& options) {
  // Three parts of tokens and targets; two kinds of probes, with marks and targets of four kinds.
  const double bytes = static_cast<double>(options.samples) * static_cast<double>(task.context()) * (3 * 16 + 2 * 21);
  expect_memory("material", std::to_string(options.samples) + " sequences of each kind", bytes, "take fewer");
  const Parts parts = draw_parts(task, options);
  Material material{.ranking = examples_of(task, parts.ranking, options.batch),
                    .judging = examples_of(task, parts.judging, options.batch),
                    .reporting = examples_of(task, parts.reporting, options.batch),
                    .probes = {probes_of(task, parts.ranking, options), {}, count_tokens(task)},
                    .sinks = {}};
  heads::add_repeats(material.probes, task.special_tokens(),
                     {.beginning = common_beginning(parts.ranking),
                      .batch = options.batch,
                      .length = task.context(),
                      .seed = options.seed},
                     options.samples);
  return material;
}

std::int64_t windows_in_a_part(const Reading& reading, std::int64_t length) {
  return Windows(reading, length).count() / 3;
}

Material make_material(const Reading& reading, std::int64_t length, const MaterialOptions& options) {
  const Windows windows(reading, length);
  const std::int64_t each = windows.count() / 3;
  if (each < options.samples) {
    throw Error(ErrorCode::value, "material",
                "the text: expected " + std::to_string(3 * options.samples) + " windows of " + std::to_string(length) +
                    " tokens, in three parts, found " + std::to_string(reading.tokens.size()) +
                    " tokens; take a longer text, or fewer or shorter windows");
  }
  Material material;
  constexpr std::uint32_t kDomain = 0x77696e64u;  // separate from other users of the same seed
  Draws draws(options.seed, 0, 0, kDomain);
  std::int64_t part = 0;
  for (std::vector<Examples>* to : {&material.ranking, &material.judging, &material.reporting}) {
    std::vector<std::int32_t> chosen = draws.distinct(options.samples, 0, each);
    for (std::int32_t& window : chosen) window = 3 * window + static_cast<std::int32_t>(part);
    for (std::int64_t at = 0; at < options.samples; at += options.batch) {
      const std::int64_t end = std::min(at + options.batch, options.samples);
      to->push_back(windows.examples({chosen.begin() + at, chosen.begin() + end}));
    }
    ++part;
  }
  heads::Probes& probes = material.probes;
  for (const Examples& some : material.ranking) {
    probes.plain.push_back(
        heads::make_probe(some.tokens, {}, reading.marks, options.seed + probes.plain.size(), reading.special));
  }
  probes.counts.assign(static_cast<std::size_t>(reading.vocabulary), 0);
  for (const std::int32_t token : reading.tokens) ++probes.counts[static_cast<std::size_t>(token)];
  std::vector<std::int32_t> unread = reading.special;
  unread.insert(unread.end(), reading.marks.begin(), reading.marks.end());
  heads::add_repeats(probes, unread,
                     {.beginning = reading.beginning, .batch = options.batch, .length = length, .seed = options.seed},
                     options.samples);
  material.tokenizer = reading.tokenizer;
  if (options.sinks) material.sinks = sink_windows(reading, options.samples, draws);
  return material;
}

std::vector<Examples> all_windows(const Reading& reading, std::int64_t length, std::int64_t batch) {
  const Windows windows(reading, length);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(windows.count()));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<Examples> made;
  for (std::int64_t at = 0; at < std::ssize(numbers); at += batch) {
    made.push_back(
        windows.examples({numbers.begin() + at, numbers.begin() + std::min(at + batch, std::ssize(numbers))}));
  }
  for (Examples& rest : windows.rest()) made.push_back(std::move(rest));
  return made;
}

}  // namespace polyhead::exam
