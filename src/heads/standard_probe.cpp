#include "heads/standard_probe.h"

#include <algorithm>

#include "core/draws.h"
#include "text/marks.h"

namespace polyhead::heads {
namespace {

using TokenRow = std::vector<std::int32_t>;

constexpr std::int64_t kTokensAtOnce = 1024;

// Windows of one text, each `length` tokens, drawn without replacement.
std::vector<TokenRow> windows_of(const text::Tokenizer& tokenizer, bool encoder, const std::string& text,
                                 const StandardProbe& options, std::int64_t length, std::uint32_t number) {
  constexpr std::uint32_t kDomain = 0x70726f62u;  // separate from other users of a seed
  TokenRow all;
  try {
    for (const text::Token& token : tokenizer.encode(text, false)) all.push_back(token.id);
  } catch (const Error&) {  // a character without a token: a tokenizer of few words
    return {};
  }
  const TokenRow ending = encoder ? tokenizer.ending() : TokenRow{};
  const std::int64_t piece = length - std::ssize(tokenizer.beginning()) - std::ssize(ending);
  const std::int64_t there = piece > 0 ? std::ssize(all) / piece : 0;
  Draws draws(options.seed, number, 0, kDomain);
  std::vector<TokenRow> made;
  for (const std::int32_t window : draws.distinct(std::min(options.windows, there), 0, there)) {
    TokenRow& row = made.emplace_back(tokenizer.beginning());
    row.insert(row.end(), all.begin() + window * piece, all.begin() + (window + 1) * piece);
    row.insert(row.end(), ending.begin(), ending.end());
  }
  return made;
}

// Of a model whose layers see so many tokens at most.
std::int64_t length_of(const model::Config& config, std::int64_t wanted) {
  std::int64_t length = std::min(wanted, config.context);
  for (const model::LayerHeads& layer : config.layers) {
    if (layer.window > 0) length = std::min(length, layer.window);
  }
  return length;
}

}  // namespace

Probes standard_probes(const text::Tokenizer& tokenizer, const model::Config& config,
                       const std::vector<ProbeText>& texts, const StandardProbe& options) {
  const std::int64_t length = length_of(config, options.length);
  const TokenRow separators = text::marks_of(tokenizer), special = text::special_of(tokenizer);
  const std::int64_t batch = std::max<std::int64_t>(kTokensAtOnce / length, 1);
  Probes probes{.plain = {}, .repeats = {}, .counts = {}, .of_texts = true};
  for (std::size_t n = 0; n < texts.size(); ++n) {
    const std::vector<TokenRow> rows = windows_of(tokenizer, config.kind == model::Kind::encoder, texts[n].text,
                                                  options, length, static_cast<std::uint32_t>(n));
    for (std::int64_t at = 0; at < std::ssize(rows); at += batch) {
      const std::int64_t B = std::min(batch, std::ssize(rows) - at);
      Tensor tokens = Tensor::empty({B, length}, DType::i32);
      for (std::int64_t b = 0; b < B; ++b) {
        std::copy_n(rows[static_cast<std::size_t>(at + b)].begin(), length, tokens.as<std::int32_t>() + b * length);
      }
      probes.plain.push_back(make_probe(tokens, {}, separators, options.seed + probes.plain.size(), special));
      probes.plain.back().group = static_cast<int>(n);
    }
  }
  RepeatProbe repeats{.beginning = tokenizer.beginning(), .seed = options.seed};
  for (text::Id id = 0; id < tokenizer.size(); ++id) {
    if (std::find(special.begin(), special.end(), id) == special.end()) repeats.alphabet.push_back(id);
  }
  if (probes.plain.empty()) return probes;
  for (const std::int64_t wanted : options.repeat_lengths) {
    repeats.length = length_of(config, wanted);
    if (repeats.length < wanted && wanted != options.repeat_lengths[0])
      break;  // a context between two lengths has the shorter ones
    repeats.batch = std::max<std::int64_t>(kTokensAtOnce / repeats.length, 1);
    for (Probe& probe : make_repeats(repeats, options.repeats)) {
      probe.group = static_cast<int>(wanted);
      probes.repeats.push_back(std::move(probe));
    }
    ++repeats.seed;
  }
  return probes;
}

}  // namespace polyhead::heads
