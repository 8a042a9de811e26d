#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "exam/origins.h"
#include "exam/page.h"
#include "io/file.h"

namespace polyhead::cli {
namespace {

constexpr std::size_t kMostShown = std::size_t{1} << 24;
constexpr std::int64_t kMostTokens = 100'000;

struct ViewOptions {
  std::string model, compare, text, prompt, versus, off;
  std::string out = "view.html";
  std::optional<std::int64_t> layer;
  DeviceChoice on;
};

[[noreturn]] void refuse_gate(const std::string& part) {
  throw Failure(Exit::usage,
                fmt::format("--off: expected heads such as 0.3 or 1.2:0.5 (layer.head:gate), found '{}'", part));
}

template <class Number>
Number number_in(std::string_view text, const std::string& part) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) refuse_gate(part);
  return number;
}

// "0.3,1.2:0.5": head 3 of layer 0 is off, the gate of head 2 of layer 1 is 0.5. The page's address uses the same form.
exam::GateList gates_in(const std::string& text) {
  exam::GateList gates;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t dot = part.find('.'), colon = std::min(part.find(':'), part.size());
    if (dot == part.npos || dot > colon) refuse_gate(part);
    const std::string_view all = part;
    const HeadId id{number_in<std::size_t>(all.substr(0, dot), part),
                    number_in<std::int64_t>(all.substr(dot + 1, colon - dot - 1), part)};
    const auto gate = colon == part.size() ? 0.0F : number_in<float>(all.substr(colon + 1), part);
    if (!(gate >= 0 && gate <= 2)) refuse_gate(part);
    gates.emplace_back(id, gate);
    begin = end + 1;
  }
  return gates;
}

// Everything a page shows about a text, with the weights of one layer or of all.
report::Model read(exam::Observer& observer, const std::string& name, const std::string& text,
                   const exam::GateList& gates, std::optional<std::int64_t> layer, Progress& progress) {
  progress.note("reading");
  const std::int64_t first = layer.value_or(0), end = layer ? *layer + 1 : std::ssize(observer.model().config().layers);
  return exam::read_for_page(observer, name, observer.tokens_of(text, kMostTokens), gates,
                             static_cast<std::size_t>(first), static_cast<std::size_t>(end), [&](std::size_t at) {
                               progress.note(fmt::format("weights of layer {}, up to {}", at, end - 1));
                             });
}

// The text quoted as one word of a shell command.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

// The command that writes this page again.
std::string command_of(const ViewOptions& o) {
  std::string command = "polyhead view " + shell_word(o.model);
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) command += fmt::format(" --{} {}", option, shell_word(value));
  };
  add("text", o.text);
  add("prompt", o.prompt);
  add("versus", o.versus);
  add("compare", o.compare);
  add("off", o.off);
  if (o.layer) command += fmt::format(" --layer {}", *o.layer);
  return command;
}

void view(const ViewOptions& o) {
  if (o.model.empty()) throw Failure(Exit::usage, kNoModel);
  if (!o.text.empty() && !o.prompt.empty())
    throw Failure(Exit::usage, "--text and --prompt: expected one of them, found both");
  const exam::GateList gates = gates_in(o.off);
  Context context = o.on.context();
  std::optional<Progress> progress(std::in_place, "view");
  progress->note("loading " + o.model);
  exam::Observer observer(context, o.model);
  const auto layers = std::ssize(observer.model().config().layers);
  if (o.layer && *o.layer >= layers) {
    throw Failure(Exit::usage, fmt::format("--layer: expected 0 to {}, found {}", layers - 1, *o.layer));
  }
  const std::string text = !o.prompt.empty() ? o.prompt
                           : !o.text.empty() ? io::read_file(o.text, kMostShown)
                                             : observer.language().example();
  report::Page page;
  page.title = exam::name_of(o.model);
  page.lead = exam::in_a_sentence(observer.model());
  if (!gates.empty()) page.about.emplace_back("gates that are not 1", o.off);
  page.about.emplace_back("as a command", command_of(o));
  if (o.compare.empty()) page.models.push_back(read(observer, page.title, text, gates, o.layer, *progress));
  if (!o.compare.empty()) {
    progress->note("loading " + o.compare);
    exam::Observer other(context, o.compare);
    const exam::Origins origins(context, observer.model(), other.model());
    page.models.push_back(read(observer, page.title, text, origins.own(gates, 0), o.layer, *progress));
    page.models.push_back(read(other, exam::name_of(o.compare), o.versus.empty() ? text : o.versus,
                               origins.own(gates, 1), o.layer, *progress));
    for (std::size_t which : {0, 1}) origins.tell(page.models[which], which);
    page.title += " and " + page.models[1].name;
  } else if (!o.versus.empty()) {
    page.models.push_back(read(observer, "second text", o.versus, gates, o.layer, *progress));
    page.models[0].name = "first text";
  }
  progress->note("writing " + o.out);
  const std::string html = report::html(page);
  io::write_atomically(o.out, [&](io::Writer& writer) { writer.write(html); });
  progress.reset();
  const report::Sample& first = page.models[0].samples[0];
  say(fmt::format("{}: {} tokens, {} heads, {:.1f} MB; open it in a browser\n", o.out, first.tokens.size(),
                  first.heads.size(), static_cast<double>(html.size()) / 1e6));
}

}  // namespace

Command view_command() {
  auto o = std::make_shared<ViewOptions>();
  return {
      .name = "view",
      .summary = "one HTML file: a text, every head, what the model makes of it",
      .description =
          "Writes what polyhead serve shows of one text into one HTML file that needs no server and no network: the "
          "tokens and what the model expects after each, the grid of all heads by role and numbers, and the attention "
          "of every head. Weights are kept in 8 bits; numbers are exact. For a long text, name one layer: the weights "
          "of a head grow with the square of the tokens.",
      .examples = {{"polyhead view run", "a model that polyhead train made, on a sequence it has not seen"},
                   {"polyhead view smollm2 --prompt 'It was the best of times'", "a downloaded model, on your text"},
                   {"polyhead view smollm2 --text chapter.txt --layer 5", "a long text, the weights of one layer"},
                   {"polyhead view run --compare other-run", "two models of the same shape, side by side"},
                   {"polyhead view run --off 0.3,1.2:0.5", "with head 3 of layer 0 off and a gate half open"}},
      .options = {{"MODEL", "",
                   "a folder that polyhead train, prune or Hugging Face's libraries made, a .gguf file, or the name of "
                   "a fetched model",
                   &o->model},
                  {"text", "FILE", "the text to read; default: an example", &o->text},
                  {"prompt", "TEXT", "the text itself", &o->prompt},
                  {"versus", "TEXT", "a second text to compare it with", &o->versus},
                  {"compare", "MODEL",
                   "a second model, beside the first: with as many layers and heads, or one of the two is what prune "
                   "left of the "
                   "other",
                   &o->compare},
                  {"layer", "N", "the weights of this layer alone; default: of all", &o->layer, {}, 0},
                  {"off", "LIST", "heads that are off, or whose gates are not 1: 0.3,1.2:0.5", &o->off},
                  {"out", "FILE", "the file to write", &o->out},
                  o->on.device_option(),
                  o->on.precision_option(),
                  o->on.threads_option()},
      .run = [o] { view(*o); }};
}

}  // namespace polyhead::cli
