// What reads files of others, given bytes that nobody vouches for. Each call reads them or throws an Error with the
// code `input`; another exception, a crash, or a stray access is a finding.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace polyhead::fuzz {

struct Target {
  std::string name;
  void (*read)(std::string_view bytes);
  std::vector<std::filesystem::path> seeds;  // files that are read well
};

void read_safetensors(std::string_view bytes);  // whole, and as a list
void read_gguf(std::string_view bytes);         // all tensors, the model and the tokenizer
void read_config(std::string_view bytes);       // beside the weights of the family that it names
void read_tokenizer(std::string_view bytes);    // a text goes through what comes of it, and back

std::vector<Target> targets();

// Those of a corpus: the fixtures of the tests, and inputs that were findings once.
inline std::filesystem::path root() { return POLYHEAD_ROOT; }

}  // namespace polyhead::fuzz
