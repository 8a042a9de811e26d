// Answers the questions of a page: what a request means, and what comes back. Of HTTP it knows only status codes.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>

#include "exam/observer.h"
#include "exam/origins.h"
#include "io/json.h"
#include "report/page.h"
#include "serve/maps.h"

namespace polyhead::serve {

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body{};
};

// {"error": "…"}: what is wrong, in words.
Answer refusal(int status, const std::string& why);

// A model that the page shows.
struct ServedModel {
  exam::Observer& observer;
  std::string path;  // for its name and for the command that the page shows
};

// The page that asks the server for the rest: the name of the model (from its path), what it is, and what may be typed.
report::Page live_page(const exam::Observer& observer, const std::string& model, std::int64_t most_tokens);

// Not for several threads at once.
class Desk {
 public:
  // One model, or two to compare. Throws Error (input) unless exam::Origins knows which heads belong together.
  Desk(std::vector<ServedModel> models, std::int64_t most_tokens);

  // The page itself.
  const std::string& page() const noexcept { return page_; }

  // Answers "read", "head", "layer", "rank", "api" or "file" with a body as in docs/page.md. Never throws.
  Answer answer(const std::string& what, const std::string& body);

  // Takes one step, about a pass, of a ranking that is waited for; false if there is none. Never throws.
  bool work();

 private:
  // Ranks heads by what a text loses without each; dropped when nobody asks for it any more.
  struct Ranking {
    std::size_t model;
    exam::Observation whole;
    std::vector<HeadImportance> gradients;
    std::vector<exam::Damage> damages;
    std::chrono::steady_clock::time_point asked;
  };
  struct Question {
    std::size_t model;
    std::vector<std::int32_t> tokens;
    exam::GateList gates;
  };

  // What every question has; `own` are the keys that this one has besides.
  Question question_in(const io::Json& json, std::vector<std::string> own = {});
  std::vector<std::int32_t> tokens_in(const io::Json& json, const exam::Observer& observer) const;
  void expect_room(const std::vector<std::int32_t>& tokens, const exam::Observer& observer) const;
  Answer read(const std::string& body);
  Answer head(const std::string& body);
  Answer layer(const std::string& body);
  Answer rank(const std::string& body);
  Answer api(const std::string& body);
  Answer file(const std::string& body);
  void drop_unasked();

  exam::Observer& observer_of(const Question& question) { return models_[question.model].observer; }

  std::vector<ServedModel> models_;
  std::int64_t most_tokens_;
  std::vector<std::vector<HeadId>> heads_;  // of each model
  std::optional<exam::Origins> origins_;    // of two
  std::string page_;
  Maps maps_;
  std::list<Ranking> rankings_;  // the one asked for most recently comes first
};

}  // namespace polyhead::serve
