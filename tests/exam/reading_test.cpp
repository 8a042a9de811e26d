#include "exam/reading.h"

#include <gtest/gtest.h>

#include "io/scratch.h"
#include "polyhead/error.h"
#include "text/marks.h"

namespace polyhead::exam {
namespace {

constexpr const char* kReader =
    R"({"model":{"type":"BPE","vocab":{"a":0,".":1," ":2," .":3,"\n":4,"<s>":5},"merges":[[" ","."]]},"decoder":{"type":"Fuse"},
        "added_tokens":[{"id":5,"content":"<s>","special":true}],
        "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
          {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"n","type_id":0}}],
          "special_tokens":{"<s>":{"id":"<s>","ids":[5],"tokens":["<s>"]},"n":{"id":"n","ids":[4],"tokens":["\n"]}}}})";

TEST(Reading, HasTheTextTheBeginningAndTheMarks) {
  const io::Scratch scratch;
  io::spill(scratch / "tokenizer.json", kReader);
  io::spill(scratch / "text", "a a.");
  model::Config config = model::make_config(model::Kind::gpt, 1, 8, 2);
  config.vocabulary = 6;
  const Reading reading = read_text(scratch.folder(), scratch / "text", config);
  EXPECT_EQ(reading.tokens, (std::vector<std::int32_t>{0, 2, 0, 1})) << "without what is put before every text";
  EXPECT_EQ(reading.beginning, std::vector<std::int32_t>{5});
  EXPECT_EQ(reading.marks, (std::vector<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(reading.special, (std::vector<std::int32_t>{4, 5})) << "by its flag, and what stands around a text";
  EXPECT_TRUE(reading.ending.empty()) << "a language model goes on";
  config.kind = model::Kind::encoder;
  EXPECT_EQ(read_text(scratch.folder(), scratch / "text", config).ending, std::vector<std::int32_t>{4});
  config.vocabulary = 5;
  io::expect_error(ErrorCode::input, {"at most the model's 5 tokens, found 6"},
                   [&] { read_text(scratch.folder(), scratch / "text", config); });
}

// A mark may have blanks on both sides, and two newlines are one; letters beside a mark make a word of it.
TEST(Reading, KnowsMarksByThemselves) {
  const io::Scratch scratch;
  io::spill(
      scratch / "tokenizer.json",
      R"({"model":{"type":"BPE","vocab":{".":0," , ":1,"\n\n":2,"...":3,"a.":4," ":5,"?":6,"!!":7,";":8,": ":9,"!":10},
                "merges":[]},"decoder":{"type":"Fuse"}})");
  EXPECT_EQ(text::marks_of(text::load_tokenizer(scratch.folder())),
            (std::vector<std::int32_t>{0, 1, 2, 3, 6, 8, 9, 10}));
}

}  // namespace
}  // namespace polyhead::exam
