// Answers the questions of a page: what a request means, and what comes back. Of HTTP it knows only status codes.
#pragma once

#include <chrono>
#include <list>
#include <string>

#include "exam/viewer.h"

namespace polyhead::serve {

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body{};
};

// {"error": "…"}: what is wrong, in words.
Answer refusal(int status, const std::string& why);

struct Subject {
  exam::Viewer& viewer;
  std::string model;  // its path, for its name and for the command that the page shows
};

// Not for several threads at once.
class Desk {
 public:
  // One model, or two to compare. Throws Error (input) unless those have the same kind, layers and heads.
  Desk(std::vector<Subject> subjects, std::int64_t most_tokens);

  // The page itself.
  const std::string& page() const noexcept { return page_; }

  // Answers "read", "head" or "rank" with a body as in docs/page.md. Never throws.
  Answer answer(const std::string& what, const std::string& body);

  // Takes one step, about a pass, of a ranking that is waited for; false if there is none. Never throws.
  bool work();

 private:
  // Ranks heads by what a text loses without each; dropped when nobody asks for it any more.
  struct Ranking {
    std::size_t subject;
    exam::View whole;
    std::vector<HeadImportance> gradients;
    std::vector<exam::Damage> damages;
    std::chrono::steady_clock::time_point asked;
  };
  struct Question {
    std::size_t subject;
    std::vector<std::int32_t> tokens;
    exam::GateList gates;
  };

  // `head`, if given, receives the head that it asks about.
  Question question_in(const std::string& body, HeadId* head = nullptr);
  Answer read(const std::string& body);
  Answer head(const std::string& body);
  Answer rank(const std::string& body);
  void drop_unasked();

  exam::Viewer& viewer_of(const Question& question) { return subjects_[question.subject].viewer; }

  std::vector<Subject> subjects_;
  std::int64_t most_tokens_;
  std::vector<HeadId> heads_;
  std::string page_;
  std::list<Ranking> rankings_;  // the one asked for most recently comes first
};

}  // namespace polyhead::serve
