#include "serve/numbers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "io/json.h"
#include "polyhead/error.h"
#include "report/text.h"

namespace polyhead::serve {
namespace {

using io::Json;

constexpr std::int64_t kMostNumbers = 4 << 20;  // of keys in an answer
constexpr std::int64_t kAtOnce = 16 << 20;      // weights that are kept at a time

// Six digits after the point, of which nobody reads more.
double rounded(double value) { return std::round(value * 1e6) / 1e6; }

// weights [T,T] of one head. The keys of a row by weight, those of equal weight by place; none without weight.
Json head_of(const float* weights, std::int64_t T, const NumbersAsked& asked) {
  Json keys = Json::array(), shares = Json::array(), entropies = Json::array();
  std::vector<double> received(static_cast<std::size_t>(T), 0.0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(T));
  for (std::int64_t query = asked.from; query < T; ++query) {
    const float* row = weights + query * T;
    std::iota(order.begin(), order.end(), 0);
    const auto top = order.begin() + std::min(asked.top, T);
    std::partial_sort(order.begin(), top, order.end(),
                      [&](std::int64_t a, std::int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    Json places = Json::array(), values = Json::array();
    for (auto key = order.begin(); key != top && row[*key] > 0; ++key) {
      places.push_back(*key);
      values.push_back(rounded(row[*key]));
    }
    double entropy = 0;
    for (std::int64_t key = 0; key < T; ++key) {
      const double weight = row[key];
      if (weight > 0) entropy -= weight * std::log(weight);
      received[static_cast<std::size_t>(key)] += weight;
    }
    keys.push_back(std::move(places));
    shares.push_back(std::move(values));
    entropies.push_back(rounded(entropy));
  }
  Json sums = Json::array();
  for (const double sum : received) sums.push_back(rounded(sum));
  return {{"keys", std::move(keys)},
          {"weights", std::move(shares)},
          {"entropy", std::move(entropies)},
          {"received", std::move(sums)}};
}

Json tokens_of(const exam::Observer& observer, const std::vector<std::int32_t>& tokens) {
  Json list = Json::array();
  for (const std::int32_t token : tokens) {
    list.push_back({{"id", token}, {"text", report::visible_token(observer.language().token_text(token))}});
  }
  return list;
}

}  // namespace

std::string numbers(exam::Observer& observer, const std::string& model, const NumbersAsked& asked) {
  const std::int64_t T = std::ssize(asked.tokens), H = std::ssize(asked.heads);
  if (H * (T - asked.from) * std::min(asked.top, T) + H * T > kMostNumbers) {
    throw Error(ErrorCode::input, "request",
                "the answer would be more than " + std::to_string(kMostNumbers) +
                    " numbers; ask for fewer \"heads\", a smaller \"top\", or a later \"from\"");
  }
  Json json{{"model", report::visible(model)},
            {"tokens", tokens_of(observer, asked.tokens)},
            {"generated", asked.generated},
            {"from", asked.from},
            {"heads", Json::array()}};
  std::vector<Tensor> all;
  if (observer.model().config().head_count() * T * T <= kAtOnce) {
    all = observer.weights_of_all(asked.tokens, asked.gates);
  }
  for (std::int64_t n = 0; n < H;) {
    const std::size_t layer = asked.heads[static_cast<std::size_t>(n)].layer;
    Tensor one = all.empty() ? observer.weights(asked.tokens, asked.gates, layer) : std::move(all[layer]);
    for (; n < H && asked.heads[static_cast<std::size_t>(n)].layer == layer; ++n) {
      const std::int64_t head = asked.heads[static_cast<std::size_t>(n)].head;
      Json found = head_of(one.as<float>() + head * T * T, T, asked);
      found["layer"] = layer;
      found["head"] = head;
      json["heads"].push_back(std::move(found));
    }
  }
  return json.dump();
}

}  // namespace polyhead::serve
