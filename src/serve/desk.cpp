#include "serve/desk.h"

#include <algorithm>
#include <new>

#include "exam/page.h"
#include "io/json.h"
#include "polyhead/error.h"
#include "report/text.h"
#include "serve/numbers.h"

namespace polyhead::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(3);  // a ranking that nobody asks for this long is dropped
constexpr std::size_t kMostRankings = 4;
constexpr std::int64_t kMostInFile = 128 << 20;  // weights of a side

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

// Ordered by layer and head, each once.
std::vector<HeadId> chosen_heads(const io::Json& list, const std::vector<HeadId>& heads) {
  const auto refuse = [] {
    throw Error(ErrorCode::input, "request", "\"heads\": expected [[layer, head], …], at least one");
  };
  if (!list.is_array() || list.empty() || list.size() > heads.size()) refuse();
  std::vector<HeadId> chosen;
  for (const io::Json& one : list) {
    if (!are_counts(one, 2)) refuse();
    chosen.push_back(head_in(one, heads));
  }
  std::vector<HeadId> ordered;
  std::copy_if(heads.begin(), heads.end(), std::back_inserter(ordered),
               [&](const HeadId& id) { return std::find(chosen.begin(), chosen.end(), id) != chosen.end(); });
  return ordered;
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
                           .examples = {},
                           .hint = observer.language().hint(),
                           .most_tokens = std::min(most_tokens, observer.model().config().context)};
  for (const auto& [name, text, shows] : observer.language().examples()) {
    page.live->examples.push_back({name, text, shows});
  }
  return page;
}

Desk::Desk(std::vector<ServedModel> models, std::int64_t most_tokens)
    : models_(std::move(models)), most_tokens_(most_tokens) {
  for (const ServedModel& one : models_) heads_.push_back(model::all_heads(one.observer.model().config()));
  report::Page page = live_page(models_[0].observer, models_[0].path, most_tokens);
  if (models_.size() > 1) {
    Context& context = models_[0].observer.context();
    origins_.emplace(context, models_[0].observer.model(), models_[1].observer.model());
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
    if (what == "api") return api(body);
    if (what == "file") return file(body);
    return refusal(404, "unknown request: " + what);
  } catch (const std::bad_alloc&) {
    return refusal(kUnusable, "not enough memory for this text; shorten it");
  } catch (const std::exception& error) {
    return refusal(kUnusable, error.what());
  }
}

// Those of the text and, after them, those that a language model has added.
std::vector<std::int32_t> Desk::tokens_in(const io::Json& json, const exam::Observer& observer) const {
  std::vector<std::int32_t> tokens = observer.tokens_of(io::read_text(json, "text", "request"), most_tokens_);
  if (!json.contains("then")) return tokens;
  const model::Config& config = observer.model().config();
  if (config.kind != model::Kind::gpt) {
    throw Error(ErrorCode::input, "request", "\"then\": only a language model goes on with a text");
  }
  for (const std::int64_t token : io::read_integers(json, "then", "request", 0, config.vocabulary - 1)) {
    tokens.push_back(static_cast<std::int32_t>(token));
  }
  expect_room(tokens, observer);
  return tokens;
}

void Desk::expect_room(const std::vector<std::int32_t>& tokens, const exam::Observer& observer) const {
  const std::int64_t fits = std::min(most_tokens_, observer.model().config().context);
  if (std::ssize(tokens) <= fits) return;
  throw Error(ErrorCode::input, "request",
              "expected up to " + std::to_string(fits) + " tokens with those that were added, found " +
                  std::to_string(tokens.size()) + "; begin with a shorter text");
}

Desk::Question Desk::question_in(const io::Json& json, std::vector<std::string> own) {
  own.insert(own.end(), {"text", "then", "model", "gates", "head", "layer"});
  io::expect_known_keys(json, own, "request");
  const auto last = std::ssize(models_) - 1;
  const std::int64_t model = json.contains("model") ? io::read_integer(json, "model", "request", 0, last) : 0;
  Question question{static_cast<std::size_t>(model), {}, {}};
  question.tokens = tokens_in(json, observer_of(question));
  if (json.contains("gates")) question.gates = gates_in(json["gates"], heads_[question.model]);
  return question;
}

Answer Desk::read(const std::string& body) {
  const Question question = question_in(io::parse_json(body, "request"));
  exam::Observer& observer = observer_of(question);
  const std::string name = exam::name_of(models_[question.model].path);
  report::Model model = exam::describe(observer, name, observer.observe(question.tokens, question.gates));
  if (origins_) origins_->tell(model, question.model);
  return {.body = report::json(model)};
}

// The weights as bytes, [T,T].
Answer Desk::head(const std::string& body) {
  const io::Json json = io::parse_json(body, "request");
  const Question question = question_in(json);
  if (!json.contains("head") || !are_counts(json["head"], 2)) {
    throw Error(ErrorCode::input, "request", "\"head\": expected [layer, head]");
  }
  return {.type = "application/octet-stream",
          .body = maps_.head({observer_of(question), question.tokens, question.gates},
                             head_in(json["head"], heads_[question.model]))};
}

// Those of all heads of a layer, [heads,T,T].
Answer Desk::layer(const std::string& body) {
  const io::Json json = io::parse_json(body, "request");
  const Question question = question_in(json);
  const auto top = std::ssize(observer_of(question).model().config().layers) - 1;
  const auto at = static_cast<std::size_t>(io::read_integer(json, "layer", "request", 0, top));
  return {.type = "application/octet-stream",
          .body = maps_.layer({observer_of(question), question.tokens, question.gates}, at)};
}

// For other programs: a text, the tokens that the model adds, and the attention over both as numbers.
Answer Desk::api(const std::string& body) {
  constexpr std::int64_t kMostGenerated = 256, kMostTop = 64;
  const io::Json json = io::parse_json(body, "request");
  Question question = question_in(json, {"generate", "top", "heads", "from"});
  exam::Observer& observer = observer_of(question);
  const auto number = [&](const char* key, std::int64_t usual, std::int64_t least, std::int64_t most) {
    return json.contains(key) ? io::read_integer(json, key, "request", least, most) : usual;
  };
  const std::int64_t generated = number("generate", 0, 0, kMostGenerated);
  if (generated > 0 && observer.model().config().kind != model::Kind::gpt) {
    throw Error(ErrorCode::input, "request", "\"generate\": only a language model goes on with a text");
  }
  for (std::int64_t n = 0; n < generated; ++n) {
    question.tokens.push_back(observer.next_token(question.tokens, question.gates));
    expect_room(question.tokens, observer);
  }
  NumbersAsked asked{
      .tokens = question.tokens, .gates = question.gates, .heads = heads_[question.model], .generated = generated};
  asked.from = number("from", 0, 0, std::ssize(asked.tokens) - 1);
  asked.top = number("top", 5, 1, kMostTop);
  if (json.contains("heads")) asked.heads = chosen_heads(json["heads"], heads_[question.model]);
  return {.body = numbers(observer, exam::name_of(models_[question.model].path), asked)};
}

// What a page shows, of one or two sides, as a page by itself.
Answer Desk::file(const std::string& body) {
  const io::Json json = io::parse_json(body, "request");
  io::expect_known_keys(json, {"sides", "view"}, "request");
  if (!json.contains("sides") || !json["sides"].is_array() || json["sides"].empty() || json["sides"].size() > 2) {
    throw Error(ErrorCode::input, "request", "\"sides\": expected one or two, as \"read\" takes them");
  }
  std::vector<Question> sides;
  for (const io::Json& side : json["sides"]) sides.push_back(question_in(side));
  report::Page page;
  page.title = exam::name_of(models_[0].path);
  page.lead = exam::in_a_sentence(models_[0].observer.model());
  page.view = io::read_text(json, "view", "request");
  for (const Question& side : sides) {
    const model::Config& config = observer_of(side).model().config();
    const std::int64_t T = std::ssize(side.tokens), weights = config.head_count() * T * T;
    if (weights > kMostInFile) {
      throw Error(ErrorCode::input, "request",
                  "a file would have " + std::to_string(weights) + " weights, up to " + std::to_string(kMostInFile) +
                      " are written from here; polyhead view --layer writes those of one layer");
    }
    const bool texts = sides.size() == 2 && sides[0].model == sides[1].model;
    const std::string name = !texts               ? exam::name_of(models_[side.model].path)
                             : &side == &sides[0] ? "first text"
                                                  : "second text";
    page.models.push_back(exam::read_for_page(observer_of(side), name, side.tokens, side.gates, 0, config.layers.size(),
                                              [](std::size_t) {}));
    if (origins_) origins_->tell(page.models.back(), side.model);
  }
  std::string gates;
  for (const auto& [id, value] : sides[0].gates) {
    gates += (gates.empty() ? "" : ", ") + to_string(id) + (value == 0 ? " off" : ": " + std::to_string(value));
  }
  if (!gates.empty()) page.about.emplace_back("gates that are not 1", gates);
  return {.type = "text/html; charset=utf-8", .body = report::html(page)};
}

// The progress: {"done": 3, "of": 72, "damage": [0.1, …], "gradient": [0.2, …]}, in the order of the heads.
Answer Desk::rank(const std::string& body) {
  const Question question = question_in(io::parse_json(body, "request"));
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
  io::Json json{{"done", found->damages.size()}, {"of", heads_[question.model].size()}};
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
                                 [&](const Ranking& one) { return one.damages.size() < heads_[one.model].size(); });
  if (next == rankings_.end()) return false;
  try {
    next->damages.push_back(
        models_[next->model].observer.damage(next->whole, heads_[next->model][next->damages.size()]));
  } catch (const std::exception&) {
    rankings_.erase(next);  // whoever asks again is told why, or starts it anew
  }
  return true;
}

}  // namespace polyhead::serve
