#include "text/post_processor.h"

#include "text/fields.h"

namespace polyhead::text {
namespace {

// ["[SEP]", 102]
Id read_pair(const io::Json& json, const std::string& key, const std::string& where) {
  const io::Json& pair = list_of(json, key, where);
  if (pair.size() != 2 || !pair[1].is_number_integer() || pair[1] < 0 || pair[1] > kMostId) {
    refuse(where, io::in_quotes(key) + ": expected a token and its number");
  }
  return pair[1].get<Id>();
}

// "single": special tokens and the text ("Sequence"), in their order.
void read_template(PostProcessor& to, const io::Json& json, const std::string& where) {
  bool text_seen = false;
  for (const io::Json& part : list_of(json, "single", where)) {
    if (const io::Json& special = field(part, "SpecialToken"); special.is_object()) {
      const std::string name = io::read_text(special, "id", where);
      const io::Json& known = field(field(json, "special_tokens"), name);
      if (!known.is_object()) refuse(where, "no special token " + io::in_quotes(name) + " in \"special_tokens\"");
      for (const std::int64_t id : io::read_integers(known, "ids", where, 0, kMostId)) {
        (text_seen ? to.after : to.before).push_back(static_cast<Id>(id));
      }
    } else if (field(part, "Sequence").is_object() && !text_seen) {
      text_seen = true;
    } else {
      refuse(where, "\"single\": expected special tokens and one sequence");
    }
  }
}

void read_around(PostProcessor& to, const io::Json& json, const std::string& where) {
  to.before.push_back(read_pair(json, "cls", where));
  to.after.push_back(read_pair(json, "sep", where));
}

void read_trim(PostProcessor& to, const io::Json& json, const std::string& where) {
  if (!flag_or(json, "trim_offsets", where, true)) return;
  to.trim = PostProcessor::Trim{flag_or(json, "add_prefix_space", where, true)};
}

void read_into(PostProcessor& to, const io::Json& json, const std::string& where) {
  const Readers<void> readers = {
      {"TemplateProcessing", [&](const io::Json& part, const std::string& at) { read_template(to, part, at); }},
      {"BertProcessing", [&](const io::Json& part, const std::string& at) { read_around(to, part, at); }},
      {"RobertaProcessing",
       [&](const io::Json& part, const std::string& at) {
         read_trim(to, part, at);
         read_around(to, part, at);
       }},
      {"ByteLevel", [&](const io::Json& part, const std::string& at) { read_trim(to, part, at); }},
      {"Sequence",
       [&](const io::Json& part, const std::string& at) {
         for (const io::Json& each : list_of(part, "processors", at)) read_into(to, each, at);
       }},
  };
  read_part(readers, json, where);
}

}  // namespace

PostProcessor read_post_processor(const io::Json& json, const std::string& where) {
  PostProcessor result;
  if (!json.is_null()) read_into(result, json, where);
  return result;
}

}  // namespace polyhead::text
