#include "fuzz/targets.h"

#include <unistd.h>

#include <array>
#include <fstream>

#include "io/gguf.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "polyhead/error.h"
#include "text/tokenizer.h"

namespace polyhead::fuzz {
namespace {

namespace fs = std::filesystem;

// A folder of this process, in memory where there is such a place.
class Place {
 public:
  Place()
      : folder_(fs::path(fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path()) /
                ("polyhead-fuzz-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path operator/(const fs::path& name) const { return folder_ / name; }

 private:
  fs::path folder_;
};

const Place& place() {
  static const Place here;
  return here;
}

fs::path spilt(const fs::path& name, std::string_view bytes) {
  fs::path path = place() / name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// Every attempt is made, whatever comes of the one before. `also`: another code that may come of it.
template <class Attempt>
void attempt(const Attempt& read, ErrorCode also = ErrorCode::input) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::input && error.code() != also) throw;
  }
}

std::vector<fs::path> files(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(root() / "tests" / folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.ends_with(extension) && !name.ends_with(".expected.json")) {
      found.push_back(entry.path());
    }
  }
  return found;
}

constexpr std::string_view kText =
    "The heads, 12 of them, don't  see \n\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82 \xff<s>!";

// A vocabulary may lack a token for what is in the text: that is an error of the value.
void through(const text::Tokenizer& tokenizer) {
  attempt(
      [&] {
        std::vector<text::Id> ids;
        for (const text::Token& token : tokenizer.encode(kText)) ids.push_back(token.id);
        tokenizer.decode(ids, true);
      },
      ErrorCode::value);
}

}  // namespace

void read_safetensors(std::string_view bytes) {
  const fs::path path = spilt("a.safetensors", bytes);
  attempt([&] { io::list_safetensors(path); });
  attempt([&] { io::read_safetensors(path); });
}

void read_gguf(std::string_view bytes) {
  const fs::path path = spilt("a.gguf", bytes);
  attempt([&] { io::read_gguf(path); });
  attempt([&] { model::load(path); });
  attempt([&] { through(text::load_tokenizer(path)); });
}

void read_config(std::string_view bytes) {
  static const std::vector<fs::path> families = files("fixtures/models", ".safetensors");
  attempt([&] { model::config_from_json(std::string(bytes), "config.json"); });
  for (const fs::path& weights : families) {
    const std::string name = weights.parent_path().filename().string();
    if (bytes.find(name) == bytes.npos) continue;
    const fs::path folder = place() / name;
    fs::create_directories(folder);
    if (!fs::exists(folder / "model.safetensors")) fs::copy_file(weights, folder / "model.safetensors");
    spilt(fs::path(name) / "config.json", bytes);
    attempt([&] { model::load(folder); });
  }
}

void read_tokenizer(std::string_view bytes) {
  attempt([&] {
    through(text::tokenizer_from_json(io::parse_json(std::string(bytes), "tokenizer.json"), "tokenizer.json"));
  });
}

std::vector<Target> targets() {
  std::vector<Target> all{{"safetensors", read_safetensors, files("fixtures", ".safetensors")},
                          {"gguf", read_gguf, files("fixtures", ".gguf")},
                          {"config", read_config, files("fixtures/models", "config.json")},
                          {"tokenizer", read_tokenizer, files("fixtures/tokenizers", ".json")}};
  for (Target& target : all) {
    const std::vector<fs::path> findings = files("fuzz/corpus/" + target.name, "");
    target.seeds.insert(target.seeds.end(), findings.begin(), findings.end());
  }
  return all;
}

}  // namespace polyhead::fuzz
