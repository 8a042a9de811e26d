#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "heads/patching.h"
#include "model/checkpoint.h"
#include "report/text.h"
#include "text/tokenizer.h"

namespace polyhead::cli {
namespace {

struct PatchOptions {
  std::string model, clean, corrupted, answer, instead;
  std::int64_t top = 20;
  DeviceChoice on;
  std::string format = "table";
};

using Tokens = std::vector<std::int32_t>;

Tokens tokens_of(const text::Tokenizer& tokenizer, const std::string& text) {
  Tokens tokens = tokenizer.beginning();
  for (const text::Token& token : tokenizer.encode(text, false)) tokens.push_back(token.id);
  return tokens;
}

// A token as text in quotes, 'Mary', for messages.
std::string shown(const text::Tokenizer& tokenizer, std::int32_t token) {
  return fmt::format("'{}'", report::visible(tokenizer.decode_alone(token)));
}

std::int32_t token_of(const text::Tokenizer& tokenizer, const std::string& name, const std::string& text) {
  const std::vector<text::Token> tokens = tokenizer.encode(text, false);
  if (tokens.size() == 1) return tokens[0].id;
  std::vector<std::string> parts;
  for (const text::Token& token : tokens) parts.push_back(shown(tokenizer, token.id));
  throw Failure(Exit::usage,
                fmt::format("{}: expected a text of one token, found {} ({}); a word within a text usually "
                            "begins with a space",
                            name, tokens.size(), fmt::join(parts, ", ")));
}

void expect_alike(const text::Tokenizer& tokenizer, const Tokens& clean, const Tokens& corrupted) {
  if (clean.size() == corrupted.size()) return;
  const auto listed = [&](const Tokens& tokens) {
    std::vector<std::string> parts;
    for (const std::int32_t token : tokens) parts.push_back(shown(tokenizer, token));
    return fmt::format("{}", fmt::join(parts, " "));
  };
  throw Failure(Exit::usage,
                fmt::format("--corrupted: expected as many tokens as --clean has, {}, found {}\n  clean      {}\n  "
                            "corrupted  {}",
                            clean.size(), corrupted.size(), listed(clean), listed(corrupted)));
}

struct Patched {
  std::string model, answer, instead;
  heads::Patching found;
};

Report report_of(const Patched& p, std::int64_t all, std::int64_t top) {
  std::vector<heads::PatchedHead> heads = p.found.heads;
  std::stable_sort(heads.begin(), heads.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.restored) > std::abs(b.restored); });
  Table table{.name = "heads",
              .columns = {{"head", "head"},
                          {"difference", "difference", Style::decimal},
                          {"restored", "restored", Style::percent}},
              .rows = {}};
  for (const heads::PatchedHead& head : heads) {
    table.rows.push_back({to_string(head.id), head.difference, head.restored});
  }
  Table most = table;
  most.rows.resize(std::min(most.rows.size(), static_cast<std::size_t>(top)));
  std::string text =
      fmt::format("{}: logit of {} above that of {}\nclean {}, corrupted {}\n\n", p.model, p.answer, p.instead,
                  text_of(Value(p.found.clean), Style::decimal), text_of(Value(p.found.corrupted), Style::decimal));
  text += text_of(most);
  if (most.rows.size() < table.rows.size()) {
    text += fmt::format("and {} heads that restore less (--top)\n", table.rows.size() - most.rows.size());
  }
  if (std::ssize(table.rows) < all)
    text += fmt::format("\nNote: only {} of {} heads were tried\n", table.rows.size(), all);
  text += "\nRestored: how far this head's output, taken from the clean run, moves the corrupted run towards it.\n";
  return {.command = "patch",
          .text = text,
          .fields = {{"model", p.model},
                     {"answer", p.answer},
                     {"instead", p.instead},
                     {"clean", p.found.clean},
                     {"corrupted", p.found.corrupted}},
          .tables = {table},
          .csv = table};
}

// What is asked, of which model.
struct Inquiry {
  Context context;
  text::Tokenizer tokenizer;
  Tokens clean, corrupted;
  std::unique_ptr<model::Transformer> model;
  heads::Question question;
};

heads::Question question_of(const PatchOptions& o, Inquiry& asked) {
  heads::Question question;
  if (o.answer.empty() || o.instead.empty()) {
    const heads::Likeliest likeliest =
        heads::likeliest_after(asked.context, *asked.model, asked.clean, asked.corrupted);
    question = {likeliest.clean, likeliest.corrupted};
  }
  if (!o.answer.empty()) question.answer = token_of(asked.tokenizer, "--answer", o.answer);
  if (!o.instead.empty()) question.instead = token_of(asked.tokenizer, "--instead", o.instead);
  if (question.answer != question.instead) return question;
  throw Failure(
      Exit::usage,
      fmt::format("the likeliest token after both texts is {}; name two tokens to compare with --answer and --instead",
                  shown(asked.tokenizer, question.answer)));
}

Inquiry inquiry_of(const PatchOptions& o) {
  if (o.model.empty()) throw Failure(Exit::usage, kNoModel);
  if (o.clean.empty() || o.corrupted.empty()) throw Failure(Exit::usage, "expected two texts: --clean and --corrupted");
  Inquiry asked{.context = o.on.context(),
                .tokenizer = text::load_tokenizer(o.model),
                .clean = {},
                .corrupted = {},
                .model = {},
                .question = {}};
  asked.clean = tokens_of(asked.tokenizer, o.clean);
  asked.corrupted = tokens_of(asked.tokenizer, o.corrupted);
  expect_alike(asked.tokenizer, asked.clean, asked.corrupted);
  asked.model = model::load(o.model, asked.context);
  text::expect_fits(asked.tokenizer, asked.model->config().vocabulary, o.model);
  asked.question = question_of(o, asked);
  return asked;
}

void patch(const PatchOptions& o) {
  std::optional<Progress> progress(std::in_place, "loading " + o.model);
  std::optional<Inquiry> asked;
  together(ranks(), [&] { asked.emplace(inquiry_of(o)); });
  auto& [context, tokenizer, clean, corrupted, model, question] = *asked;
  expect_ranks_alike("patch", *model,
                     {{"set of texts", fmt::format("{} and {}", fmt::join(clean, " "), fmt::join(corrupted, " "))},
                      {"question", fmt::format("{} or {}", question.answer, question.instead)}});
  Patched patched{o.model, shown(tokenizer, question.answer), shown(tokenizer, question.instead), {}};
  progress.emplace("heads", model->config().head_count());
  const auto on_head = [&](std::int64_t done) { progress->update(done, ""); };
  std::optional<Signals> signals;
  if (ranks().size() == 1) signals.emplace();
  const auto go_on = [&] { return !signals || Signals::noted() == 0; };
  patched.found = heads::patch(context, *model, clean, corrupted, question, on_head, ranks(), go_on);
  progress.reset();
  print(report_of(patched, model->config().head_count(), o.top), o.format);
  if (signals) Signals::end_if_noted("stopped before all heads were tried");
}

}  // namespace

Command patch_command() {
  auto o = std::make_shared<PatchOptions>();
  return {
      .name = "patch",
      .summary = "which heads carry what tells two texts apart",
      .description =
          "Activation patching. A language model reads a clean text and a corrupted one with the same number "
          "of tokens, which differ in what it should say next. Then it reads the corrupted one again, once for every "
          "head, with that head's output as it was in the clean run. How much of the difference between two logits at "
          "the last token this restores says how much of the information goes through that head.",
      .examples = {{"polyhead patch smollm2 --clean 'One two' --corrupted 'Two three'",
                    "compare the likeliest tokens after each"},
                   {"polyhead patch smollm2 --clean 'One two' --corrupted 'Two three' --top 9", "show fewer heads"},
                   {"mpirun -n 4 polyhead patch smollm2 --clean 'One two' --corrupted 'Two three'",
                    "four ranks take heads in turn: the same table"}},
      .options = {{"MODEL", "",
                   "a folder that Hugging Face's libraries made, a .gguf file, or the name of a fetched model",
                   &o->model},
                  {"clean", "TEXT", "the text after which the answer is right", &o->clean},
                  {"corrupted", "TEXT", "the same with something changed", &o->corrupted},
                  {"answer", "TEXT", "the token that is right; default: the likeliest after the clean text",
                   &o->answer},
                  {"instead", "TEXT", "the one to compare it with; default: the likeliest after the corrupted text",
                   &o->instead},
                  {"top", "N", "how many heads the table shows; JSON and CSV have all", &o->top},
                  o->on.device_option(),
                  o->on.precision_option(),
                  o->on.threads_option(),
                  format_option(o->format)},
      .run = [o] { patch(*o); },
      .on_ranks = true};
}

}  // namespace polyhead::cli
