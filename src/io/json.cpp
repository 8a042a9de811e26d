#include "io/json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>

#include "polyhead/error.h"

namespace polyhead::io {
namespace {

constexpr std::size_t kMaxLevels = 64;

// The text that is parsed, and how far the parser has read; the parser does not report where a key or a number is.
struct Source {
  std::string_view text;
  std::string_view where;
  std::size_t read = 0;

  // The place is that of the last character read.
  [[noreturn]] void refuse(const std::string& message) const {
    const std::string_view before = text.substr(0, std::max<std::size_t>(read, 1) - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    throw Error(
        ErrorCode::input, "json",
        std::string(where) + ": line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message);
  }
};

// Walks over the text and notes in the source how far it has come.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Source* source;
  std::size_t at;

  reference operator*() const { return source->text[at]; }
  Cursor& operator++() {
    source->read = ++at;
    return *this;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.at == b.at; }
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...; last read: '...'" without the
// parts that we say ourselves or that quote the file.
std::string reason_in(std::string_view what) {
  if (const std::size_t end = what.find("] "); end != std::string_view::npos) what.remove_prefix(end + 2);
  if (what.starts_with("parse error at ")) what.remove_prefix(what.find(": ") + 2);
  return std::string(what.substr(0, what.find("; last read")));
}

// Builds the value from the parser's events. The library's own builder searches each object for every key, n^2
// comparisons for n keys, and keeps the last of two equal ones.
class Builder final : public Json::json_sax_t {
 public:
  explicit Builder(const Source& source) : source_(source) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& digits) override {
    // An integer that does not fit in 64 bits arrives as a float.
    if (digits.find_first_of(".eE") == std::string::npos) source_.refuse("the integer does not fit in 64 bits");
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // not in JSON text

  bool start_object(std::size_t /*unknown*/) override { return open(Json::object()); }
  bool key(string_t& key) override {
    if (!levels_.back().keys.insert(key).second) source_.refuse("duplicate key " + in_quotes(key));
    levels_.back().key = std::move(key);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*unknown*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    source_.refuse(reason_in(error.what()));
  }

 private:
  struct Level {
    Json value;
    std::string key = {};             // of the field that comes next
    std::set<std::string> keys = {};  // a tree: keys could be chosen to collide in a hash table
  };

  bool open(Json value) {
    if (levels_.size() == kMaxLevels) {
      source_.refuse("more than " + std::to_string(kMaxLevels) + " levels of lists and objects");
    }
    levels_.push_back({std::move(value)});
    return true;
  }
  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return add(std::move(value));
  }
  bool add(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = levels_.back(); level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else {
      level.value.get_ref<Json::object_t&>().emplace_back(std::move(level.key), std::move(value));
    }
    return true;
  }

  const Source& source_;
  std::vector<Level> levels_;
  Json root_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  Source source{text, where};
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    source.read = nul + 1;
    source.refuse("a NUL byte");  // the parser would take it for the end of the text
  }
  Builder builder(source);
  Json::sax_parse(Cursor{&source, 0}, Cursor{&source, text.size()}, &builder);
  return builder.take();
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLength = 80;
  std::string part(text.substr(0, kLength));
  if (text.size() > kLength) part += "...";
  return Json(part).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace polyhead::io
