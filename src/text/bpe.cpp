#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "text/fields.h"
#include "text/model.h"

namespace polyhead::text {
namespace {

// What two tokens become.
struct Rule {
  Id left, right;
  std::int64_t rank;
  Id result;
};
bool before(const Rule& a, const Rule& b) { return std::tie(a.left, a.right) < std::tie(b.left, b.right); }

class Bpe final : public Model {
 public:
  Bpe(Vocabulary vocabulary, std::vector<Rule> rules, BpeOptions options, const std::string& where)
      : Model(std::move(vocabulary)), options_(std::move(options)), rules_(std::move(rules)) {
    if (!options_.unknown.empty()) unknown_ = this->vocabulary().at(options_.unknown, where + ": unk_token");
    // If a pair has two rules the later one counts, as in the tokenizers library.
    std::stable_sort(rules_.begin(), rules_.end(), before);
    const auto same = [](const Rule& a, const Rule& b) { return a.left == b.left && a.right == b.right; };
    rules_.erase(rules_.begin(), std::unique(rules_.rbegin(), rules_.rend(), same).base());
  }

  std::vector<Span> tokenize(const Chars& piece) const override {
    if (options_.whole_words) {
      if (const auto id = vocabulary().find(utf8_of(piece))) return {{*id, 0, piece.size()}};
    }
    std::vector<Span> spans = spans_of(piece);
    merge(spans);
    return spans;
  }

 private:
  const Rule* rule_of(Id left, Id right) const {
    const Rule wanted{left, right, 0, 0};
    const auto found = std::lower_bound(rules_.begin(), rules_.end(), wanted, before);
    return found != rules_.end() && found->left == left && found->right == right ? &*found : nullptr;
  }

  // A token for each character.
  std::vector<Span> spans_of(const Chars& piece) const {
    std::vector<Span> spans;
    bool after_unknown = false;
    for (std::size_t n = 0; n < piece.size(); ++n) {
      std::string text = n > 0 ? options_.prefix : "";
      append_utf8(text, piece[n].code);
      if (n + 1 == piece.size()) text += options_.suffix;
      const bool was_unknown = std::exchange(after_unknown, false);
      if (const auto id = vocabulary().find(text)) {
        spans.push_back({*id, n, n + 1});
        continue;
      }
      if (options_.byte_fallback) {
        const std::vector<Id> bytes = byte_tokens(std::span(piece).subspan(n, 1));
        for (const Id byte : bytes) spans.push_back({byte, n, n + 1});
        if (!bytes.empty()) continue;
      }
      if (!unknown_) refuse_unknown(std::span(piece).subspan(n, 1), options_.byte_level);
      after_unknown = true;
      if (was_unknown && options_.fuse_unknown) {
        spans.back().last = n + 1;
      } else {
        spans.push_back({*unknown_, n, n + 1});
      }
    }
    return spans;
  }

  // A heap of pairs that could merge, so that a word of a million characters does not take quadratic time.
  void merge(std::vector<Span>& spans) const {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    struct Pair {
      std::int64_t rank;
      std::size_t left;
      Id result;
      bool operator>(const Pair& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
    };
    std::vector<std::size_t> next(spans.size()), previous(spans.size());
    std::vector<bool> gone(spans.size());
    for (std::size_t n = 0; n < spans.size(); ++n) {
      next[n] = n + 1 < spans.size() ? n + 1 : kNone;
      previous[n] = n > 0 ? n - 1 : kNone;
    }
    std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs;
    const auto offer = [&](std::size_t left) {
      if (left == kNone || next[left] == kNone) return;
      if (const Rule* rule = rule_of(spans[left].id, spans[next[left]].id))
        pairs.push({rule->rank, left, rule->result});
    };
    for (std::size_t n = 0; n < spans.size(); ++n) offer(n);
    while (!pairs.empty()) {
      const Pair pair = pairs.top();
      pairs.pop();
      const std::size_t left = pair.left, right = gone[left] ? kNone : next[left];
      if (right == kNone) continue;
      // The pair may have changed since it was offered; it still counts if it merges into the same token.
      const Rule* rule = rule_of(spans[left].id, spans[right].id);
      if (rule == nullptr || rule->result != pair.result) continue;
      spans[left].id = pair.result;
      spans[left].last = spans[right].last;
      gone[right] = true;
      next[left] = next[right];
      if (next[left] != kNone) previous[next[left]] = left;
      offer(previous[left]);
      offer(left);
    }
    std::size_t kept = 0;
    for (std::size_t n = 0; n < spans.size(); ++n) {
      if (!gone[n]) spans[kept++] = spans[n];
    }
    spans.resize(kept);
  }

  BpeOptions options_;
  std::optional<Id> unknown_;
  std::vector<Rule> rules_;  // by pair
};

std::vector<Rule> rules_of(const Vocabulary& vocabulary, const std::vector<Merge>& merges, const std::string& prefix,
                           const std::string& where) {
  std::vector<Rule> rules;
  rules.reserve(merges.size());
  for (std::size_t n = 0; n < merges.size(); ++n) {
    const auto& [left, right, rank] = merges[n];
    const std::string at = where + ": merge " + std::to_string(n);
    const Id a = vocabulary.at(left, at), b = vocabulary.at(right, at);
    const std::string rest = right.starts_with(prefix) ? right.substr(prefix.size()) : right;
    rules.push_back({a, b, rank, vocabulary.at(left + rest, at)});
  }
  return rules;
}

std::vector<Rule> rules_by_score(const Vocabulary& vocabulary, const std::vector<double>& scores) {
  std::vector<double> ranked = scores;
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  std::vector<Rule> rules;
  for (const auto& [token, id] : vocabulary.sorted()) {
    const auto rank =
        std::lower_bound(ranked.begin(), ranked.end(), scores[static_cast<std::size_t>(id)], std::greater<>()) -
        ranked.begin();
    const std::string_view text = token;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = vocabulary.find(text.substr(0, cut));
      const auto right = left ? vocabulary.find(text.substr(cut)) : std::nullopt;
      if (right) rules.push_back({*left, *right, rank, id});
    }
  }
  return rules;
}

}  // namespace

std::unique_ptr<Model> make_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const BpeOptions& options,
                                const std::string& where) {
  std::vector<Rule> rules = rules_of(vocabulary, merges, options.prefix, where);
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(rules), options, where);
}

std::unique_ptr<Model> make_scored_bpe(Vocabulary vocabulary, const std::vector<double>& scores,
                                       const BpeOptions& options, const std::string& where) {
  std::vector<Rule> rules = rules_by_score(vocabulary, scores);
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(rules), options, where);
}

}  // namespace polyhead::text
