// A tiny Llama that others saved, with a tokenizer of sixteen letters.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::cli {

inline constexpr const char* kTokenizer =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10,"l":11,"m":12,)"
    R"("n":13,"o":14,"p":15},"merges":[]},"decoder":{"type":"Fuse"}})";

inline std::filesystem::path llama_fixture() {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models/llama";
}

class Foreign : public ::testing::Test {
 protected:
  Foreign() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(llama_fixture() / name, scratch_ / name);
    }
    io::spill(scratch_ / "tokenizer.json", kTokenizer);
  }
  void set_config(const std::string& key, int value) const {
    auto config = nlohmann::json::parse(io::slurp(scratch_ / "config.json"));
    config[key] = value;
    io::spill(scratch_ / "config.json", config.dump());
  }

  io::Scratch scratch_;
};

}  // namespace polyhead::cli
