// Parts of tokenizers one by one, on vocabularies small enough to see what must come out.
#include <gtest/gtest.h>

#include "text/decoder.h"
#include "text/fixtures.h"
#include "text/normalizer.h"
#include "text/patterns.h"
#include "text/pre_tokenizer.h"

namespace polyhead::text {
namespace {

using Ids = std::vector<Id>;

Tokenizer made(const std::string& json) { return tokenizer_from_json(io::parse_json(json, "test"), "test"); }
Ids encoded(const std::string& json, const std::string& text) { return ids_of(made(json).encode(text)); }

std::string bpe(const std::string& vocabulary, const std::string& merges) {
  return R"({"model":{"type":"BPE","vocab":)" + vocabulary + R"(,"merges":)" + merges + "}}";
}

// What has been merged is offered to both neighbours.
TEST(Bpe, WhatWasMergedMergesOn) {
  const std::string vocabulary = R"({"x":0,"a":1,"b":2,"ab":3,"xab":4,"abx":5})";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"],["x","ab"]])"), "xab"), Ids{4}) << "to the left";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"],["ab","x"]])"), "abx"), Ids{5}) << "to the right";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"]])"), "xabx"), (Ids{0, 3, 0}));
}

TEST(Bpe, TheEarlierRuleGoesFirstAndThenTheFirstPlace) {
  const std::string vocabulary = R"({"a":0,"b":1,"c":2,"ab":3,"bc":4,"aa":5})";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"],["b","c"]])"), "abc"), (Ids{3, 2}));
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["b","c"],["a","b"]])"), "abc"), (Ids{0, 4}));
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","a"]])"), "aaa"), (Ids{5, 0}));
}

TEST(WordPiece, AWordOfTheGreatestLengthIsStillCut) {
  const std::string json =
      R"({"model":{"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##","max_input_chars_per_word":3,
          "vocab":{"?":0,"a":1,"##a":2}}})";
  EXPECT_EQ(encoded(json, "aaa"), (Ids{1, 2, 2}));
  EXPECT_EQ(encoded(json, "aaaa"), Ids{0});
}

// One blank before the first token was put there and is nobody's; more were in the text.
TEST(RobertaProcessing, BlanksAreTrimmedFromOffsets) {
  const Tokenizer tokenizer = made(
      R"({"model":{"type":"BPE","unk_token":"<s>","vocab":{"Ġ":0,"ĠĠ":1,"ĠĠĠ":2,"a":3,"Ġa":4,"<s>":5},
                   "merges":[["Ġ","Ġ"],["ĠĠ","Ġ"],["Ġ","a"]]},
          "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},
          "post_processor":{"type":"RobertaProcessing","sep":["<s>",5],"cls":["<s>",5],"trim_offsets":true,
                            "add_prefix_space":true}})");
  const auto places = [&](const std::string& text) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (const Token& token : tokenizer.encode(text, false)) found.emplace_back(token.first_char, token.last_char);
    return found;
  };
  using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(places("a a"), (Places{{0, 1}, {2, 3}}));
  EXPECT_EQ(places("   "), (Places{{3, 3}}));
}

TEST(SplitPatterns, SignsTakeTheEndsOfTheirLineButNotInGpt2) {
  const Chars text = chars_of("!\n\nx");
  EXPECT_EQ(kLlama3Pattern.end_of(text, 0), 3u);
  EXPECT_EQ(kQwen2Pattern.end_of(text, 0), 3u);
  EXPECT_EQ(kGpt2Pattern.end_of(text, 0), 1u);
}

TEST(AddedTokens, CountAmongTheTokens) {
  const Tokenizer tokenizer = made(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
                                       "added_tokens":[{"id":7,"content":"<s>","special":true}]})");
  EXPECT_EQ(tokenizer.size(), 8) << "one more than the highest number";
  EXPECT_EQ(ids_of(tokenizer.encode("a<s>a")), (Ids{0, 7, 0}));
}

// What shows nothing goes, and every kind of white space is a blank.
TEST(BertNormalizer, CleansTheText) {
  const std::string json =
      R"({"model":{"type":"WordPiece","unk_token":"?","vocab":{"?":0,"ab":1,"a":2,"b":3}},
          "normalizer":{"type":"BertNormalizer","clean_text":true},"pre_tokenizer":{"type":"BertPreTokenizer"}})";
  for (const std::string& nothing :
       {std::string("\ufffd"), std::string(1, '\0'), std::string("\x01"), std::string("\u200b")}) {
    EXPECT_EQ(encoded(json, "a" + nothing + "b"), Ids{1});
  }
  for (const std::string blank : {"\t", "\n", "\u00a0", "\u3000"})
    EXPECT_EQ(encoded(json, "a" + blank + "b"), (Ids{2, 3}));
}

// A byte that is no UTF-8 becomes a sign of its own, as do all others of its run.
TEST(ByteFallback, EveryByteOfABrokenRunIsShown) {
  const Tokenizer tokenizer = made(
      R"({"model":{"type":"BPE","vocab":{"a":0,"<0xE4>":1,"<0xBD>":2,"<0xA0>":3},"merges":[]},
          "decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]}})");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2, 3, 0}),
            "a\u4f60"
            "a");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2, 0}),
            "a\ufffd\ufffd"
            "a");
}

// ---- models

// Of two rules for one pair the later holds, as in the tokenizers library.
TEST(Bpe, OfTwoRulesForAPairTheLaterHolds) {
  const std::string vocabulary = R"({"a":0,"b":1,"c":2,"ab":3,"bc":4})";
  EXPECT_EQ(encoded(bpe(vocabulary, R"([["a","b"],["b","c"],["a","b"]])"), "abc"), (Ids{0, 4}));
}

TEST(Bpe, TokensWithinAndAtTheEndOfAWordHaveTheirOwnForms) {
  const std::string parts =
      R"({"model":{"type":"BPE","vocab":{"a":0,"#a":1,"a$":2,"#a$":3,"a#a":4,"aa":5},"merges":[],)";
  EXPECT_EQ(encoded(parts + R"("continuing_subword_prefix":"#"}})", "aaa"), (Ids{0, 1, 1}));
  EXPECT_EQ(encoded(parts + R"("end_of_word_suffix":"$"}})", "aaa"), (Ids{0, 0, 2}));
  EXPECT_EQ(encoded(parts + R"("continuing_subword_prefix":"#","end_of_word_suffix":"$"}})", "aa"), (Ids{0, 3}));
  EXPECT_EQ(encoded(parts + R"("ignore_merges":true}})", "aa"), Ids{5}) << "a word of the vocabulary as it is";
  EXPECT_EQ(encoded(parts + R"("ignore_merges":false}})", "aa"), (Ids{0, 0}));
  const std::string prefixed =
      R"({"model":{"type":"BPE","vocab":{"a":0,"#b":1,"ab":2},"merges":[["a","#b"]],"continuing_subword_prefix":"#"}})";
  EXPECT_EQ(encoded(prefixed, "ab"), Ids{2}) << "merged without the mark between them";
}

TEST(Bpe, UnknownCharactersAreOneTokenOrManyOrRefused) {
  const std::string parts = R"({"model":{"type":"BPE","vocab":{"?":0,"a":1},"merges":[])";
  io::expect_error(ErrorCode::value, {"\"x\" at byte 3", "no token"}, [&] { return encoded(parts + "}}", "aaaxya"); });
  EXPECT_EQ(encoded(parts + R"(,"unk_token":"?"}})", "axyaz"), (Ids{1, 0, 0, 1, 0}));
  EXPECT_EQ(encoded(parts + R"(,"unk_token":"?","fuse_unk":true}})", "axyaz"), (Ids{1, 0, 1, 0}));
  const Token fused = made(parts + R"(,"unk_token":"?","fuse_unk":true}})").encode("axyaz")[1];
  EXPECT_EQ((std::pair{fused.begin, fused.end}), (std::pair{1u, 3u})) << "it stands for all of them";
  EXPECT_EQ(encoded(parts + R"(,"unk_token":"?","byte_fallback":true}})", "a\u00e9"), (Ids{1, 0})) << "without bytes";
  io::Json json = io::parse_json(parts + R"(,"unk_token":"?","byte_fallback":true}})", "bytes");
  for (const std::string& byte : byte_tokens()) json["model"]["vocab"][byte] = json["model"]["vocab"].size();
  EXPECT_EQ(encoded(json.dump(), "a\u00e9"), (Ids{1, 2 + 0xc3, 2 + 0xa9}));
}

TEST(Unigram, OfEquallyGoodWaysTheOneThatWasFoundFirst) {
  const std::string parts = R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-1],["b",-1],["ab",)";
  EXPECT_EQ(encoded(parts + "-2]]}}", "ab"), Ids{3});
  EXPECT_EQ(encoded(parts + "-2.1]]}}", "ab"), (Ids{1, 2}));
  EXPECT_EQ(encoded(parts + "-1.9]]}}", "abab"), (Ids{3, 3}));
  EXPECT_EQ(encoded(parts + "-2]]}}", "axxb"), (Ids{1, 0, 2})) << "unknown ones in a row are one";
}

// Files of older versions do not name the type.
TEST(Models, AreKnownByTheirFields) {
  EXPECT_EQ(encoded(R"({"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})", "ab"), Ids{2});
  EXPECT_EQ(encoded(R"({"model":{"vocab":[["?",0],["ab",-1]],"unk_id":0}})", "ab"), Ids{1});
  EXPECT_EQ(encoded(R"({"model":{"vocab":{"[UNK]":0,"a":1,"##b":2}}})", "ab"), (Ids{1, 2}));
}

// ---- cutting

// The pieces that a pre-tokenizer makes of a text: words that the vocabulary has are whole, so tokens are pieces.
std::vector<std::string> pieces(const std::string& pre_tokenizer, const std::string& text) {
  std::vector<Chars> cut = {chars_of(text)};
  read_pre_tokenizer(io::parse_json(pre_tokenizer, "test"), "test")(cut);
  std::vector<std::string> all;
  for (const Chars& piece : cut) all.push_back(utf8_of(piece));
  return all;
}
using Texts = std::vector<std::string>;

TEST(Split, KeepsWhatIsCutAtAsItIsTold) {
  const auto split = [](const std::string& behavior, const std::string& text) {
    return pieces(R"({"type":"Split","pattern":{"String":"-"},"behavior":")" + behavior + "\"}", text);
  };
  EXPECT_EQ(split("Removed", "-a--b-"), (Texts{"a", "b"}));
  EXPECT_EQ(split("Isolated", "-a--b-"), (Texts{"-", "a", "-", "-", "b", "-"}));
  EXPECT_EQ(split("MergedWithPrevious", "-a--b-"), (Texts{"-", "a-", "-", "b-"}));
  EXPECT_EQ(split("MergedWithNext", "-a--b-"), (Texts{"-a", "-", "-b", "-"}));
  EXPECT_EQ(split("Contiguous", "-a--b-"), (Texts{"-", "a", "--", "b", "-"}));
}

TEST(Digits, StandTogetherOrAlone) {
  EXPECT_EQ(pieces(R"({"type":"Digits","individual_digits":false})", "a12b3"), (Texts{"a", "12", "b", "3"}));
  EXPECT_EQ(pieces(R"({"type":"Digits","individual_digits":true})", "a12b3"), (Texts{"a", "1", "2", "b", "3"}));
  EXPECT_EQ(pieces(R"({"type":"Digits"})", "12"), Texts{"12"});
}

TEST(Metaspace, StandsBeforeWordsAndWhereItIsToldBeforeTheText) {
  const auto made_of = [](const std::string& more, const std::string& text) {
    return pieces(R"({"type":"Metaspace","replacement":"_")" + more + "}", text);
  };
  EXPECT_EQ(made_of("", "a b"), (Texts{"_a", "_b"}));
  EXPECT_EQ(made_of("", " a"), Texts{"_a"}) << "not twice";
  EXPECT_EQ(made_of(R"(,"prepend_scheme":"never")", "a b"), (Texts{"a", "_b"}));
  EXPECT_EQ(made_of(R"(,"add_prefix_space":false)", "a b"), (Texts{"a", "_b"}));
  EXPECT_EQ(made_of(R"(,"split":false)", "a b"), Texts{"_a_b"});
}

// Of several blanks the last goes with the word behind them; at the end of a text they stay together.
TEST(SplitPatterns, TheLastBlankGoesWithItsWord) {
  for (const SplitPattern& pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern}) {
    const auto end_of = [&](const char* text) { return pattern.end_of(chars_of(text), 0); };
    EXPECT_EQ(end_of("   b"), 2u);
    EXPECT_EQ(end_of(" b"), 2u);
    EXPECT_EQ(end_of("   "), 3u);
    EXPECT_EQ(end_of("\t\tb"), 1u);
  }
  const Chars lines = chars_of(" \n  b");
  EXPECT_EQ(kGpt2Pattern.end_of(lines, 0), 3u);
  EXPECT_EQ(kLlama3Pattern.end_of(lines, 0), 2u) << "up to the last newline";
}

TEST(SplitPatterns, EndingsAreCutOffInAnyCaseButForGpt2) {
  for (const std::string ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    const Chars text = chars_of(ending + "x");
    EXPECT_EQ(kGpt2Pattern.end_of(text, 0), ending.size());
    EXPECT_EQ(kLlama3Pattern.end_of(text, 0), ending.size());
  }
  for (const std::string ending : {"'S", "'RE", "'Ve"}) {
    EXPECT_EQ(kLlama3Pattern.end_of(chars_of(ending + "x"), 0), ending.size());
    EXPECT_EQ(kGpt2Pattern.end_of(chars_of(ending + "x"), 0), 1u);
  }
  EXPECT_EQ(kLlama3Pattern.end_of(chars_of("'\u017fx"), 0), 2u) << "the long s is an s";
}

// ---- normalizers

std::string normalized(const std::string& normalizer, const std::string& text) {
  Chars chars = chars_of(text);
  read_normalizer(io::parse_json(normalizer, "test"), "test")(chars);
  return utf8_of(chars);
}

TEST(Normalizers, DoWhatTheirNamesSay) {
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "e\u0301\ufb01"), "\u00e9\ufb01");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "\u00e9\ufb01"), "e\u0301\ufb01");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "e\u0301\ufb01"), "\u00e9fi");
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", "\u00e9\ufb01"), "e\u0301fi");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "A\u00c9b"), "a\u00e9b");
  EXPECT_EQ(normalized(R"({"type":"Strip"})", " \ta b\n "), "a b");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":false})", " a "), "a ");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":false,"strip_right":true})", " a "), " a");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"__"})", "a"), "__a");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"__"})", ""), "");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"ab"},"content":"xyz"})", "aababb"), "axyzxyzb");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"ab"},"content":""})", "abc"), "c");
}

// One after another, in the order given: these do not commute.
TEST(Normalizers, SequencesKeepTheirOrder) {
  const auto both = [](const std::string& first, const std::string& second, const std::string& text) {
    return normalized(R"({"type":"Sequence","normalizers":[)" + first + "," + second + "]}", text);
  };
  const std::string prepend = R"({"type":"Prepend","prepend":" X"})", strip = R"({"type":"Strip"})",
                    lower = R"({"type":"Lowercase"})",
                    replace = R"({"type":"Replace","pattern":{"String":"A"},"content":"BA"})";
  EXPECT_EQ(both(prepend, strip, " a "), "X a");
  EXPECT_EQ(both(strip, prepend, " a "), " Xa");
  EXPECT_EQ(both(prepend, lower, "A"), " xa");
  EXPECT_EQ(both(lower, prepend, "A"), " Xa");
  EXPECT_EQ(both(replace, lower, "A"), "ba");
  EXPECT_EQ(both(lower, replace, "A"), "a");
}

TEST(BertNormalizer, DoesWhatItIsTold) {
  const auto bert = [](const std::string& more, const std::string& text) {
    return normalized(R"({"type":"BertNormalizer")" + more + "}", text);
  };
  EXPECT_EQ(bert("", "\u00c9"), "e") << "without its accent, for it is made small";
  EXPECT_EQ(bert(R"(,"lowercase":false)", "\u00c9"), "\u00c9");
  EXPECT_EQ(bert(R"(,"lowercase":false,"strip_accents":true)", "\u00c9"), "E");
  EXPECT_EQ(bert(R"(,"strip_accents":false)", "\u00c9"), "\u00e9");
  const std::string as_is = R"(,"clean_text":false,"strip_accents":false)";
  for (const std::string sign : {"\u4e00", "\u9fff", "\u3400", "\u4dbf", "\uf900", "\ufaff", "\U00020000", "\U0002a6df",
                                 "\U0002a700", "\U0002b740", "\U0002ceaf", "\U0002f800"}) {
    EXPECT_EQ(bert(as_is, "a" + sign + "b"), "a " + sign + " b");
    EXPECT_EQ(bert(as_is + R"(,"handle_chinese_chars":false)", "a" + sign + "b"), "a" + sign + "b");
  }
  for (const std::string sign : {"\u3042", "\uac00"}) EXPECT_EQ(bert(as_is, sign), sign);
}

// ---- decoders

std::string decoded(const std::string& decoder, Texts tokens) {
  read_decoder(io::parse_json(decoder, "test"), "test")(tokens);
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

TEST(Decoders, OfWordPieceCleanUp) {
  const std::string clean = R"({"type":"WordPiece"})", as_is = R"({"type":"WordPiece","cleanup":false})";
  EXPECT_EQ(decoded(clean, {"wo", "##rd", "next"}), "word next");
  for (const std::string mark : {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"}) {
    EXPECT_EQ(decoded(clean, {"a", mark}), "a" + mark);
    EXPECT_EQ(decoded(as_is, {"a", mark}), "a " + mark);
  }
  EXPECT_EQ(decoded(clean, {"a", "' b"}), "a'b");
  EXPECT_EQ(decoded(clean, {"we", "do not"}), "we don't");
  EXPECT_EQ(decoded(R"({"type":"WordPiece","prefix":"@@"})", {"a", "@@b", "##c"}), "ab ##c");
}

TEST(Decoders, DoWhatTheirNamesSay) {
  EXPECT_EQ(decoded("null", {"a", "b"}), "a b");
  EXPECT_EQ(decoded(R"({"type":"Fuse"})", {"a", "b"}), "ab");
  EXPECT_EQ(decoded(R"({"type":"Strip","content":"\u2581","start":1,"stop":2})", {"▁▁a▁▁▁", "▁"}), "▁a▁");
  EXPECT_EQ(decoded(R"({"type":"Replace","pattern":{"String":"ab"},"content":"x"})", {"abab", "a", "b"}), "xxab");
  EXPECT_EQ(decoded(R"({"type":"Metaspace","replacement":"_"})", {"_a", "_b"}), "a b");
  EXPECT_EQ(decoded(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"never"})", {"_a", "_b"}), " a b");
  EXPECT_EQ(decoded(R"({"type":"ByteFallback"})", {"<0x41>", "<0xZZ>", "<0x4>", "b"}), "A<0xZZ><0x4>b");
}

// ---- tokens beside the vocabulary

Ids with_added(const std::string& more, const std::string& text) {
  return encoded(R"({"model":{"type":"BPE","unk_token":"?","fuse_unk":true,
                              "vocab":{"a":0," ":1,"x":2,"_":3,"A":4,"?":5},"merges":[]},
                     "added_tokens":[{"id":9,"content":"<t>")" +
                     more + "}]}",
                 text);
}

TEST(AddedTokens, TakeTheBlanksBesideThemWhereTheyAreTold) {
  EXPECT_EQ(with_added("", "a <t> a"), (Ids{0, 1, 9, 1, 0}));
  EXPECT_EQ(with_added(R"(,"lstrip":true)", "a  <t> a"), (Ids{0, 9, 1, 0}));
  EXPECT_EQ(with_added(R"(,"rstrip":true)", "a <t>  a"), (Ids{0, 1, 9, 0}));
  EXPECT_EQ(with_added(R"(,"lstrip":true,"rstrip":true)", "<t> <t>"), (Ids{9, 9}));
  const Tokenizer both = made(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
      "added_tokens":[{"id":9,"content":"<t>","lstrip":true,"rstrip":true}]})");
  const std::vector<Token> tokens = both.encode("a <t>  <t> a");
  ASSERT_EQ(ids_of(tokens), (Ids{0, 9, 9, 0}));
  EXPECT_EQ((std::pair{tokens[1].begin, tokens[1].end}), (std::pair{1u, 7u}))
      << "the blanks between are the first one's";
  EXPECT_EQ((std::pair{tokens[2].begin, tokens[2].end}), (std::pair{7u, 11u}));
}

TEST(AddedTokens, ThatAreSingleWordsAreFoundBetweenWordsOnly) {
  const std::string single = R"(,"single_word":true)";
  EXPECT_EQ(with_added(single, "a <t> a"), (Ids{0, 1, 9, 1, 0}));
  EXPECT_EQ(with_added(single, "a<t> a"), (Ids{0, 5, 1, 0})) << "a letter before";
  EXPECT_EQ(with_added(single, "a <t>a"), (Ids{0, 1, 5, 0})) << "a letter behind";
  EXPECT_EQ(with_added(single, "<t>"), Ids{9});
  for (const std::string joined : {"_", "\u200c", "\u200d", "\u24b6", "1"}) {
    EXPECT_EQ(with_added(single, joined + "<t>"), joined == "_" ? (Ids{3, 5}) : Ids{5}) << joined;
  }
}

TEST(AddedTokens, TheLongestIsTakenAndTheNormalizerMayChangeThem) {
  const std::string parts = R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},
      "normalizer":{"type":"Lowercase"},"added_tokens":[{"id":5,"content":"AB","normalized":true},
      {"id":6,"content":"ABA","normalized":true},{"id":7,"content":"B","normalized":false,"special":true}]})";
  EXPECT_EQ(encoded(parts, "aba"), Ids{6});
  EXPECT_EQ(encoded(parts, "abb"), (Ids{5, 1}));
  EXPECT_EQ(encoded(parts, "aB"), (Ids{0, 7})) << "as it is written, before anything else";
  EXPECT_EQ(made(parts).decode(Ids{0, 7, 5}), "a AB") << "special ones are left out, others are not";
  EXPECT_EQ(made(parts).decode(Ids{0, 7, 5}, true), "a B AB");
}

// Without a word on it, offsets are trimmed.
TEST(RobertaProcessing, TrimsUnlessItIsToldNotTo) {
  const auto first = [](const std::string& more) {
    const Tokenizer tokenizer = made(
        R"({"model":{"type":"BPE","unk_token":"<s>","vocab":{"Ġ":0,"a":1,"Ġa":2,"<s>":3},"merges":[["Ġ","a"]]},
            "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
            "post_processor":{"type":"RobertaProcessing","sep":["<s>",3],"cls":["<s>",3])" +
        more + "}}");
    const Token token = tokenizer.encode("a a", false)[1];
    return std::pair{token.first_char, token.last_char};
  };
  EXPECT_EQ(first(""), (std::pair{2u, 3u}));
  EXPECT_EQ(first(R"(,"trim_offsets":true)"), (std::pair{2u, 3u}));
  EXPECT_EQ(first(R"(,"trim_offsets":false)"), (std::pair{1u, 3u}));
}

// A byte-level post-processor takes it that a blank was added unless it is told otherwise.
TEST(ByteLevelProcessing, TakesTheFirstBlankForAddedUnlessItIsToldOtherwise) {
  const auto first = [](const std::string& more) {
    const Token token = made(R"({"model":{"type":"BPE","unk_token":"a","vocab":{"Ġ":0,"a":1,"Ġa":2},
                                          "merges":[["Ġ","a"]]},
                                 "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
                                 "post_processor":{"type":"ByteLevel")" +
                             more + "}}")
                            .encode(" a", false)[0];
    return std::pair{token.first_char, token.last_char};
  };
  EXPECT_EQ(first(""), (std::pair{0u, 2u}));
  EXPECT_EQ(first(R"(,"add_prefix_space":true)"), (std::pair{0u, 2u}));
  EXPECT_EQ(first(R"(,"add_prefix_space":false)"), (std::pair{1u, 2u}));
}

// The file beside the model says where texts end; only without it the model's own does.
TEST(EndTokens, AreThoseOfGenerationFirst) {
  const io::Scratch scratch;
  EXPECT_TRUE(end_tokens(scratch.folder()).empty());
  io::spill(scratch / "config.json", R"({"eos_token_id":3})");
  EXPECT_EQ(end_tokens(scratch.folder()), std::set<Id>{3});
  io::spill(scratch / "generation_config.json", R"({"eos_token_id":[5,4,-1,"x"]})");
  EXPECT_EQ(end_tokens(scratch.folder()), (std::set<Id>{4, 5}));
  io::spill(scratch / "generation_config.json", "{}");
  EXPECT_EQ(end_tokens(scratch.folder()), std::set<Id>{3});
}

}  // namespace
}  // namespace polyhead::text
