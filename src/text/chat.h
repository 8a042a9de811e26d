// Conversations in the form that a model has learnt. Files bring the form as a program in Jinja, which is not run: the
// forms that models in use have are written out here, and recognised by the marks that the program writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "polyhead/text.h"

namespace polyhead::text {

// What a model's files say.
struct ChatSource {
  std::string program;     // the Jinja template; empty if there is none
  std::string bos, eos;    // the texts of these tokens, which programs use
  std::string where = {};  // for messages
};

class ChatForm {
 public:
  virtual ~ChatForm() = default;
  // The conversation as text and, if it is to be answered, the beginning of the answer. Refuses (value) roles and
  // orders of roles that the form does not have.
  virtual std::string apply(const std::vector<Message>& messages, bool answer) const = 0;
  virtual std::string end_of_turn() const = 0;  // the mark after which a model has said what it had to say
};

// Null for a source without a program, and for programs of unknown forms.
std::unique_ptr<ChatForm> find_form(const ChatSource& source);
// Refuses (input) a source without a program, and programs of unknown forms, by the marks that were found.
std::unique_ptr<ChatForm> recognise(const ChatSource& source);

}  // namespace polyhead::text
