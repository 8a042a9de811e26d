#include "text/chat.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <set>

#include "text/fields.h"

namespace polyhead::text {
namespace {

using Messages = std::vector<Message>;

[[noreturn]] void refuse_message(const std::string& what) { throw Error(ErrorCode::value, "chat", what); }

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string without_newlines(const std::string& text) {  // at both ends
  const std::size_t first = text.find_first_not_of('\n');
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of('\n') - first + 1);
}

// The text of a string in quotes, as Jinja reads it, up to `end`.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t n = 0; n < text.size(); ++n) {
    if (text[n] != '\\' || n + 1 == text.size()) {
      plain += text[n];
      continue;
    }
    const char next = text[++n];
    plain += next == 'n' ? "\n" : next == 't' ? "\t" : std::string(1, next);
  }
  return plain;
}

// What a template writes, read from its text.
class Program {
 public:
  explicit Program(const ChatSource& source) : source_(source), text_(source.program) {}

  bool has(std::string_view what) const { return text_.find(what) != text_.npos; }
  const std::string& bos() const { return source_.bos; }
  const std::string& eos() const { return source_.eos; }
  bool begins_with_bos() const { return has("bos_token") || (!source_.bos.empty() && has(source_.bos)); }
  bool trims() const { return has("trim") || has(".strip()"); }

  // The first string in quotes from `from` on that has `what` in it.
  std::optional<std::string> quoted(std::string_view what, std::size_t from = 0) const {
    for (std::size_t at = from; (at = text_.find_first_of("'\"", at)) != text_.npos;) {
      std::size_t end = at + 1;
      while (end < text_.size() && text_[end] != text_[at]) end += text_[end] == '\\' ? 2 : 1;
      if (end >= text_.size()) return std::nullopt;
      const std::string_view inside = std::string_view(text_).substr(at + 1, end - at - 1);
      if (inside.find(what) != inside.npos) return unescaped(inside);
      at = end + 1;
    }
    return std::nullopt;
  }

  // Whether a new line follows a mark, written with it or after it.
  bool ends_lines(const std::string& mark) const {
    for (const char* line : {"\\n", "\n", "' + '\\n", "\" + \"\\n", "'+'\\n", " + '\\n", " + \"\\n", "' }}\n", "'}}\n",
                             "\" }}\n", " }}\n", "}}\n"}) {
      if (has(mark + line)) return true;
    }
    return false;
  }

  // What begins an answer: the string after the last mention of it, if it begins as the form has it.
  std::string opening(const std::string& otherwise) const {
    const std::size_t asked = text_.rfind("add_generation_prompt");
    if (asked == text_.npos) return otherwise;
    const std::optional<std::string> found = quoted("", asked);
    return found && found->starts_with(otherwise) ? *found : otherwise;
  }

  // The text between two marks, if the program writes one there as it is.
  std::optional<std::string> written_between(std::string_view begin, std::string_view end) const {
    for (std::size_t at = 0; (at = text_.find(begin, at)) != text_.npos;) {
      at += begin.size();
      const bool escaped = text_.compare(at, 2, "\\n") == 0;
      const std::size_t first = at + (escaped ? 2 : text_[at] == '\n' ? 1 : 0), last = text_.find(end, first);
      const std::string_view inside = std::string_view(text_).substr(first, last == text_.npos ? 0 : last - first);
      const bool plain = inside.find_first_of("'\"") == inside.npos && inside.find("{{") == inside.npos;
      if (first > at && plain && !inside.empty()) return unescaped(inside);
    }
    return std::nullopt;
  }

 private:
  const ChatSource& source_;
  const std::string& text_;
};

void expect_roles(const Messages& messages, bool system) {
  if (messages.empty()) refuse_message("expected at least one message, found none");
  for (std::size_t n = 0; n < messages.size(); ++n) {
    const std::string& role = messages[n].role;
    if (role == "user" || role == "assistant" || (role == "system" && system)) continue;
    if (role == "system") {
      refuse_message("message " + std::to_string(n) +
                     ": this model's template takes no system message; put it into the first user message");
    }
    const bool tools = role == "tool" || role == "function" || role == "ipython";
    refuse_message("message " + std::to_string(n) + ": expected the role system, user or assistant, found " +
                   io::in_quotes(role) +
                   (tools ? "; polyhead has no messages from tools: put what the tool said into a user message" : ""));
  }
}

// After a system message, if there is one: user, assistant, user ...
void expect_turns(const Messages& messages, bool system) {
  expect_roles(messages, system);
  const std::size_t first = messages[0].role == "system" ? 1 : 0;
  if (first == messages.size()) refuse_message("expected a user message, found none");
  for (std::size_t n = first; n < messages.size(); ++n) {
    const char* const expected = (n - first) % 2 == 0 ? "user" : "assistant";
    if (messages[n].role == expected) continue;
    refuse_message("message " + std::to_string(n) + ": expected the role " + expected +
                   ", since user and assistant take " + "turns in this model's template, found " +
                   io::in_quotes(messages[n].role));
  }
}

struct Thought {
  std::string thought, said;
};
Thought divided(const std::string& content) {
  const std::size_t end = content.find("</think>");
  if (end == content.npos) return {"", content};
  const std::string before = content.substr(0, end), after = content.substr(content.rfind("</think>") + 8);
  const std::size_t begin = before.rfind("<think>");
  const std::size_t first = after.find_first_not_of('\n');
  return {without_newlines(begin == before.npos ? before : before.substr(begin + 7)),
          first == after.npos ? "" : after.substr(first)};
}

// <|im_start|>role, a new line, the text, <|im_end|>. Programs differ in the system message that they begin with if
// there is none, and in what becomes of earlier thoughts.
class ChatMl final : public ChatForm {
 public:
  static bool writes(const Program& program) { return program.ends_lines("<|im_end|>"); }
  explicit ChatMl(const Program& program)
      : system_(program.written_between("<|im_start|>system", "<|im_end|>")),
        bos_(program.has("bos_token") ? program.bos() : ""),
        opening_(program.opening("<|im_start|>assistant\n")),
        trims_(program.has("trim")),
        forgets_(program.has("split('</think>')") || program.has("split(\"</think>\")")),
        thinks_last_(program.has("last_query_index")) {}

  std::string end_of_turn() const override { return "<|im_end|>"; }

  std::string apply(const Messages& messages, bool answer) const override {
    expect_roles(messages, true);
    std::string text = bos_;
    if (system_ && messages[0].role != "system") text += turn("system", *system_);
    std::size_t asked = 0;  // the last message of the user
    for (std::size_t n = 0; n < messages.size(); ++n) asked = messages[n].role == "user" ? n : asked;
    for (std::size_t n = 0; n < messages.size(); ++n) {
      const auto& [role, given] = messages[n];
      std::string content = trims_ ? trimmed(given) : given;
      if (role == "assistant" && forgets_) {
        const Thought parts = divided(content);
        const bool last = n + 1 == messages.size(),
                   thinks = thinks_last_ && n > asked && (last || !parts.thought.empty());
        content = thinks ? "<think>\n" + parts.thought + "\n</think>\n\n" +
                               parts.said.substr(std::min(parts.said.find_first_not_of('\n'), parts.said.size()))
                         : parts.said;
      }
      text += turn(role, content);
    }
    return text + (answer ? opening_ : "");
  }

 private:
  static std::string turn(const std::string& role, const std::string& content) {
    return "<|im_start|>" + role + "\n" + content + "<|im_end|>\n";
  }
  std::optional<std::string> system_;
  std::string bos_, opening_;
  bool trims_, forgets_, thinks_last_;
};

// "03 Feb 2025"
std::string today() {
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  localtime_r(&now, &date);
  const std::string day = std::to_string(date.tm_mday);
  return (day.size() < 2 ? "0" : "") + day + " " + kMonths[static_cast<std::size_t>(date.tm_mon)] + " " +
         std::to_string(date.tm_year + 1900);
}

// A header with the role, an empty line, the text, <|eot_id|>. From 3.1 on there is always a system message, which
// begins with two dates.
class Llama3 final : public ChatForm {
 public:
  explicit Llama3(const Program& program)
      : bos_(program.begins_with_bos() ? program.bos() : ""), trims_(program.trims()) {
    if (const auto known = program.quoted("Cutting Knowledge Date: ")) {
      const auto written = program.quoted(" 20");  // date_string = "26 Jul 2024"
      dates_ = *known + "Today Date: " + (program.has("strftime_now") ? today() : written.value_or(today())) + "\n\n";
    }
  }
  std::string end_of_turn() const override { return "<|eot_id|>"; }

  std::string apply(const Messages& messages, bool answer) const override {
    expect_roles(messages, true);
    std::string text = bos_;
    const bool system = messages[0].role == "system";
    if (dates_) text += turn("system", *dates_ + (system ? content_of(messages[0]) : ""));
    for (std::size_t n = dates_ && system ? 1 : 0; n < messages.size(); ++n) {
      text += turn(messages[n].role, content_of(messages[n]));
    }
    return text + (answer ? header("assistant") : "");
  }

 private:
  std::string content_of(const Message& message) const { return trims_ ? trimmed(message.content) : message.content; }
  static std::string header(const std::string& role) { return "<|start_header_id|>" + role + "<|end_header_id|>\n\n"; }
  static std::string turn(const std::string& role, const std::string& content) {
    return header(role) + content + "<|eot_id|>";
  }
  std::string bos_;
  bool trims_;
  std::optional<std::string> dates_;
};

// The assistant is called model. Gemma 3 puts a system message before the user's first one, Gemma 2 refuses it.
class Gemma final : public ChatForm {
 public:
  explicit Gemma(const Program& program)
      : bos_(program.begins_with_bos() ? program.bos() : ""), system_(program.has("first_user_prefix")) {}
  std::string end_of_turn() const override { return "<end_of_turn>"; }

  std::string apply(const Messages& messages, bool answer) const override {
    expect_turns(messages, system_);
    std::string text = bos_, prefix;
    for (const auto& [role, content] : messages) {
      if (role == "system") {
        prefix = content + "\n\n";
        continue;
      }
      text += "<start_of_turn>" + (role == "user" ? role : "model") + "\n" + std::exchange(prefix, "") +
              trimmed(content) + "<end_of_turn>\n";
    }
    return text + (answer ? "<start_of_turn>model\n" : "");
  }

 private:
  std::string bos_;
  bool system_;
};

// [INST] and [/INST] around what the user says; answers end with EOS. Llama 2 writes a system message into the user's
// first one and repeats BOS, Mistral has other blanks and no system message, or one before the user's first or last
// words.
class Instructions final : public ChatForm {
 public:
  explicit Instructions(const Program& program)
      : bos_(program.begins_with_bos() ? program.bos() : ""),
        eos_(program.eos()),
        open_(program.quoted("[INST]").value_or("[INST] ")),
        close_(program.quoted("[/INST]").value_or(" [/INST]")),
        llama_(program.has("<<SYS>>")),
        system_first_(program.has("loop.first and system_message")),
        system_last_(program.has("loop.last and system_message")),
        trims_(llama_ || program.trims()),
        before_(llama_ || program.has("' ' + message") || program.has("\" \" + message") ? " " : ""),
        after_(llama_ ? " " : ""),
        behind_(!llama_ && (program.has("eos_token + ' '") || program.has("eos_token + \" \"")) ? " " : "") {}
  std::string end_of_turn() const override { return eos_; }

  std::string apply(const Messages& messages, bool answer) const override {
    expect_turns(messages, llama_ || system_first_ || system_last_);
    (void)answer;  // an answer begins where the instruction ends
    const std::size_t first = messages[0].role == "system" ? 1 : 0;
    const std::string system = first == 0 ? ""
                               : llama_   ? "<<SYS>>\n" + messages[0].content + "\n<</SYS>>\n\n"
                                          : messages[0].content + "\n\n";
    std::string text = llama_ ? "" : bos_;
    for (std::size_t n = first; n < messages.size(); ++n) {
      const std::string& content = messages[n].content;
      if (messages[n].role == "assistant") {
        text += before_ + (trims_ ? trimmed(content) : content) + after_ + eos_ + behind_;
        continue;
      }
      const bool here = system_last_ ? n + 1 == messages.size() : n == first;
      const std::string whole = (here ? system : "") + content;
      text += (llama_ ? bos_ : "") + open_ + (llama_ ? trimmed(whole) : whole) + close_;
    }
    return text;
  }

 private:
  std::string bos_, eos_, open_, close_;
  bool llama_, system_first_, system_last_, trims_;
  std::string before_, after_, behind_;
};

// <|role|>, a new line, the text, EOS, a new line.
class Zephyr final : public ChatForm {
 public:
  static bool writes(const Program& program) { return program.ends_lines("eos_token"); }
  explicit Zephyr(const Program& program) : eos_(program.eos()) {}
  std::string end_of_turn() const override { return eos_; }

  std::string apply(const Messages& messages, bool answer) const override {
    expect_roles(messages, true);
    std::string text;
    for (const auto& [role, content] : messages) text += "<|" + role + "|>\n" + content + eos_ + "\n";
    return text + (answer ? "<|assistant|>\n" : "");
  }

 private:
  std::string eos_;
};

// Marks before what each one says, and EOS after answers, without new lines; earlier thoughts are left out.
class DeepSeek final : public ChatForm {
 public:
  explicit DeepSeek(const Program& program)
      : bos_(program.begins_with_bos() ? program.bos() : ""), opening_(program.opening("<｜Assistant｜>")) {}
  std::string end_of_turn() const override { return "<｜end▁of▁sentence｜>"; }

  std::string apply(const Messages& messages, bool answer) const override {
    expect_roles(messages, true);
    std::string text, system;
    for (const auto& [role, content] : messages) {
      if (role == "system") system = content;
      if (role == "user") text += "<｜User｜>" + content;
      if (role == "assistant") {
        const std::size_t end = content.rfind("</think>");
        text += "<｜Assistant｜>" + (end == content.npos ? content : content.substr(end + 8)) + end_of_turn();
      }
    }
    return bos_ + system + text + (answer ? opening_ : "");
  }

 private:
  std::string bos_, opening_;
};

// Marks that look like <|this|>, <｜this｜> or [THIS].
std::set<std::string> marks_in(const std::string& program) {
  std::set<std::string> found;
  const auto collect = [&](std::string_view begin, std::string_view end) {
    for (std::size_t at = 0; (at = program.find(begin, at)) != program.npos;) {
      const std::size_t last = program.find(end, at + begin.size());
      const std::string mark = last == program.npos ? "" : program.substr(at, last + end.size() - at);
      if (!mark.empty() && mark.size() < 40 && mark.find_first_of(" '\"\n+") == mark.npos) found.insert(mark);
      at += begin.size();
    }
  };
  collect("<|", "|>");
  collect("<｜", "｜>");
  for (const char* mark : {"[INST]", "[SYSTEM_PROMPT]", "<start_of_turn>", "<<SYS>>"}) {
    if (program.find(mark) != program.npos) found.insert(mark);
  }
  return found;
}

// Null if the program writes other things between the marks than the form does.
template <class Form>
std::unique_ptr<ChatForm> make(const Program& program) {
  if constexpr (requires { Form::writes; }) {
    if (!Form::writes(program)) return nullptr;
  }
  return std::make_unique<Form>(program);
}

struct Known {
  std::set<std::string> needs, allows;
  std::unique_ptr<ChatForm> (*make)(const Program&);
};

const std::vector<Known>& known_forms() {
  static const std::vector<Known> all = {
      {{"<|im_start|>", "<|im_end|>"}, {"<|endoftext|>"}, make<ChatMl>},
      {{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       {"<|begin_of_text|>", "<|eom_id|>", "<|python_tag|>", "<|end_of_text|>"},
       make<Llama3>},
      {{"<start_of_turn>"}, {}, make<Gemma>},
      {{"[INST]"}, {"<<SYS>>"}, make<Instructions>},
      {{"<|user|>", "<|assistant|>"}, {"<|system|>"}, make<Zephyr>},
      {{"<｜User｜>", "<｜Assistant｜>"},
       {"<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁outputs▁begin｜>",
        "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"},
       make<DeepSeek>},
  };
  return all;
}

}  // namespace

std::unique_ptr<ChatForm> find_form(const ChatSource& source) {
  const std::set<std::string> marks = marks_in(source.program);
  const auto is_there = [&](const std::string& mark) { return marks.contains(mark); };
  for (const Known& form : known_forms()) {
    const auto is_known = [&](const std::string& mark) {
      return form.needs.contains(mark) || form.allows.contains(mark);
    };
    const bool complete = std::all_of(form.needs.begin(), form.needs.end(), is_there);
    if (complete && std::all_of(marks.begin(), marks.end(), is_known)) return form.make(Program(source));
  }
  return nullptr;
}

std::unique_ptr<ChatForm> recognise(const ChatSource& source) {
  if (source.program.empty()) {
    refuse(source.where,
           "this model has no chat template: it was not made for conversations; give it a text to continue");
  }
  if (auto form = find_form(source)) return form;
  std::string listed;
  for (const std::string& mark : marks_in(source.program)) listed += (listed.empty() ? "" : " ") + mark;
  refuse(source.where, "its chat template is of a form that polyhead does not know (the markers in it: " +
                           (listed.empty() ? "none" : listed) +
                           "); known are those of ChatML, Llama 2 and 3, Gemma, Mistral, Zephyr and DeepSeek. Write "
                           "the conversation as text and give it as a prompt");
}

}  // namespace polyhead::text
