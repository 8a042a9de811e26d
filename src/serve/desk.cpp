#include "serve/desk.h"

#include <algorithm>
#include <new>

#include "exam/page.h"
#include "io/json.h"
#include "polyhead/error.h"
#include "report/text.h"

namespace polyhead::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(3);  // a ranking that nobody asks for this long is dropped
constexpr std::size_t kMostRankings = 4;

HeadId head_in(const io::Json& list, const std::vector<HeadId>& heads) {
  const HeadId id{list[0].get<std::size_t>(), list[1].get<std::int64_t>()};
  if (std::find(heads.begin(), heads.end(), id) == heads.end()) {
    throw Error(ErrorCode::input, "request", "this model has no head " + to_string(id));
  }
  return id;
}

bool are_counts(const io::Json& list, std::size_t size) {
  if (!list.is_array() || list.size() != size) return false;
  return list[0].is_number_unsigned() && list[1].is_number_unsigned();
}

exam::GateList gates_in(const io::Json& json, const std::vector<HeadId>& heads) {
  constexpr double kMost = 2;
  exam::GateList gates;
  const auto refuse = [] {
    throw Error(ErrorCode::input, "request", "\"gates\": expected [[layer, head, 0 to 2], …]");
  };
  if (!json.is_array() || json.size() > heads.size()) refuse();
  for (const io::Json& gate : json) {
    if (!are_counts(gate, 3) || !gate[2].is_number()) refuse();
    const auto value = gate[2].get<double>();
    if (!(value >= 0 && value <= kMost)) refuse();
    gates.emplace_back(head_in(gate, heads), static_cast<float>(value));
  }
  return gates;
}

}  // namespace

Answer refusal(int status, const std::string& why) {
  io::Json json;
  json["error"] = report::visible(why);
  return {.status = status, .body = json.dump()};
}

report::Page live_page(const exam::Observer& observer, const std::string& model, std::int64_t most_tokens) {
  report::Page page;
  page.title = exam::name_of(model);
  page.lead = exam::in_a_sentence(observer.model());
  page.live = report::Live{.model = model,
                           .example = observer.language().example(),
                           .hint = observer.language().hint(),
                           .most_tokens = std::min(most_tokens, observer.model().config().context)};
  return page;
}

Desk::Desk(std::vector<ServedModel> models, std::int64_t most_tokens)
    : models_(std::move(models)),
      most_tokens_(most_tokens),
      heads_(model::all_heads(models_.at(0).observer.model().config())) {
  report::Page page = live_page(models_[0].observer, models_[0].path, most_tokens);
  if (models_.size() > 1) {
    exam::expect_same_shape(models_[0].observer.model(), models_[1].observer.model());
    page.title += " and " + exam::name_of(models_[1].path);
    page.live->compared = models_[1].path;
  }
  page_ = report::html(page);
}

Answer Desk::answer(const std::string& what, const std::string& body) {
  constexpr int kUnusable = 422;
  try {
    if (what == "read") return read(body);
    if (what == "head") return head(body);
    if (what == "layer") return layer(body);
    if (what == "rank") return rank(body);
    return refusal(404, "unknown request: " + what);
  } catch (const std::bad_alloc&) {
    return refusal(kUnusable, "not enough memory for this text; shorten it");
  } catch (const std::exception& error) {
    return refusal(kUnusable, error.what());
  }
}

Desk::Question Desk::question_in(const std::string& body, HeadId* head, std::size_t* layer) {
  const io::Json json = io::parse_json(body, "request");
  io::expect_known_keys(json, {"text", "model", "gates", "head", "layer"}, "request");
  const auto last = std::ssize(models_) - 1;
  const std::int64_t model = json.contains("model") ? io::read_integer(json, "model", "request", 0, last) : 0;
  Question question{static_cast<std::size_t>(model), {}, {}};
  question.tokens = observer_of(question).tokens_of(io::read_text(json, "text", "request"), most_tokens_);
  if (json.contains("gates")) question.gates = gates_in(json["gates"], heads_);
  if (layer != nullptr) {
    const auto top = std::ssize(observer_of(question).model().config().layers) - 1;
    *layer = static_cast<std::size_t>(io::read_integer(json, "layer", "request", 0, top));
  }
  if (head == nullptr) return question;
  if (!json.contains("head") || !are_counts(json["head"], 2)) {
    throw Error(ErrorCode::input, "request", "\"head\": expected [layer, head]");
  }
  *head = head_in(json["head"], heads_);
  return question;
}

Answer Desk::read(const std::string& body) {
  const Question question = question_in(body);
  exam::Observer& observer = observer_of(question);
  const std::string name = exam::name_of(models_[question.model].path);
  return {.body = report::json(exam::describe(observer, name, observer.observe(question.tokens, question.gates)))};
}

// The weights as bytes, [T,T].
Answer Desk::head(const std::string& body) {
  HeadId id;
  const Question question = question_in(body, &id);
  return {.type = "application/octet-stream",
          .body = maps_.head({observer_of(question), question.tokens, question.gates}, id)};
}

// Those of all heads of a layer, [heads,T,T].
Answer Desk::layer(const std::string& body) {
  std::size_t at = 0;
  const Question question = question_in(body, nullptr, &at);
  return {.type = "application/octet-stream",
          .body = maps_.layer({observer_of(question), question.tokens, question.gates}, at)};
}

// The progress: {"done": 3, "of": 72, "damage": [0.1, …], "gradient": [0.2, …]}, in the order of the heads.
Answer Desk::rank(const std::string& body) {
  const Question question = question_in(body);
  drop_unasked();
  auto found = std::find_if(rankings_.begin(), rankings_.end(), [&](const Ranking& one) {
    return one.model == question.model && one.whole.tokens == question.tokens;
  });
  if (found == rankings_.end()) {
    if (rankings_.size() == kMostRankings) return refusal(503, "busy with other rankings");
    exam::Observer& observer = observer_of(question);
    rankings_.push_front(
        {question.model, observer.observe(question.tokens), observer.gradients(question.tokens), {}, {}});
    found = rankings_.begin();
  }
  rankings_.splice(rankings_.begin(), rankings_, found);
  found->asked = Clock::now();
  io::Json json{{"done", found->damages.size()}, {"of", heads_.size()}};
  json["damage"] = json["gradient"] = io::Json::array();
  for (const exam::Damage& damage : found->damages) json["damage"].push_back(damage.loss);
  for (const HeadImportance& head : found->gradients) json["gradient"].push_back(head.normalised);
  return {.body = json.dump()};
}

void Desk::drop_unasked() {
  std::erase_if(rankings_, [](const Ranking& one) { return Clock::now() - one.asked > kPatience; });
}

bool Desk::work() {
  drop_unasked();
  const auto next = std::find_if(rankings_.begin(), rankings_.end(),
                                 [&](const Ranking& one) { return one.damages.size() < heads_.size(); });
  if (next == rankings_.end()) return false;
  try {
    next->damages.push_back(models_[next->model].observer.damage(next->whole, heads_[next->damages.size()]));
  } catch (const std::exception&) {
    rankings_.erase(next);  // whoever asks again is told why, or starts it anew
  }
  return true;
}

}  // namespace polyhead::serve
