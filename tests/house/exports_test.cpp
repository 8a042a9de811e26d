// The shared library's edge: it exports what the public headers declare, all of it, and nothing else.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "house/rooms.h"
#include "house/shell.h"

namespace polyhead::house {
namespace {

using Names = std::set<std::string>;

struct Declared {
  Names classes;   // "polyhead::Tensor"
  Names inside;    // functions that a header defines: "polyhead::Tensor::view"
  Names promised;  // functions that it only declares, so the library has to have them: "polyhead::Tensor::empty"
};

// Reads just enough C++ for headers as ours are: scopes, and the functions in them.
class Reader {
 public:
  explicit Reader(Declared& to) : to_(to) {}

  void read(const std::string& header) {
    for (const char c :
         std::regex_replace(header, std::regex(R"(//[^\n]*|/\*[^]*?\*/|#[^\n]*|template\s*<[^<>]*>)"), "")) {
      parentheses_ += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (parentheses_ > 0 || (c != '{' && c != '}' && c != ';')) {
        statement_ += c;
      } else if (c == '{') {
        open();
      } else if (c == '}') {
        close();
      } else {
        if (in_scope()) promise();
        statement_.clear();
      }
    }
  }

 private:
  struct Scope {
    std::string name;  // empty for a body
    std::string kept;  // what stood before the brace of an initialiser, which goes on after it
  };

  bool in_scope() const { return !scopes_.empty() && !scopes_.back().name.empty(); }
  std::string full(const std::string& name) const { return scopes_.back().name + "::" + name; }

  void open() {
    static const std::regex scope(R"(\b(namespace|class|struct)\s+(POLYHEAD_PUBLIC\s+)?([\w:]+)[^()]*$)");
    std::smatch match;
    if (std::regex_search(statement_, match, scope)) {
      const std::string name = scopes_.empty() ? match[3].str() : full(match[3]);
      if (match[1] != "namespace") to_.classes.insert(name);
      scopes_.push_back({name, ""});
    } else {
      const bool function = in_scope() && statement_.find('(') != std::string::npos;
      if (function) to_.inside.insert(full(name_of(statement_)));
      scopes_.push_back({"", function ? "" : statement_});
    }
    statement_.clear();
  }

  void close() {
    statement_ = scopes_.back().kept;
    scopes_.pop_back();
  }

  void promise() {
    static const std::regex none(R"(\b(friend|using|constexpr)\b|=\s*(default|delete|0)\s*$)");
    if (statement_.find('(') == std::string::npos || std::regex_search(statement_, none)) return;
    to_.promised.insert(full(name_of(statement_)));
  }

  // "static Tensor empty(const Dims& shape ..." -> "empty"
  static std::string name_of(const std::string& statement) {
    std::smatch match;
    std::regex_search(statement, match, std::regex(R"((operator [\w ]+|operator\W+|~?\w+)\s*\()"));
    return match[1];
  }

  Declared& to_;
  std::vector<Scope> scopes_;
  std::string statement_;
  int parentheses_ = 0;
};

Declared declared_in(const std::vector<std::string>& headers) {
  Declared declared;
  for (const std::string& header : headers) Reader(declared).read(header);
  return declared;
}

Declared public_headers() {
  std::vector<std::string> texts;
  for (const auto& file : sources_below(std::filesystem::path(POLYHEAD_ROOT) / "include")) {
    std::ifstream in(file);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return declared_in(texts);
}

// "polyhead::BasicView<void>::slice(int, long, long) const" -> "polyhead::BasicView::slice"
std::string bare(std::string name) {
  name = std::regex_replace(name, std::regex(R"(\[abi:cxx11\])"), "");
  for (const std::regex arguments("<[^<>]*>"); std::regex_search(name, arguments);) {
    name = std::regex_replace(name, arguments, "");
  }
  name = name.substr(0, name.find('('));
  const std::size_t start = name.rfind(" polyhead::");  // behind the result of a template
  return start == std::string::npos ? name : name.substr(start + 1);
}

// What nobody declared of what is exported, and what nobody exported of what is promised.
Names unexpected(const std::vector<std::string>& symbols, const Declared& declared) {
  Names found, missing = declared.promised;
  for (const std::string& symbol : symbols) {
    static const std::regex of_class("(vtable|typeinfo|typeinfo name) for (.*)");
    std::smatch match;
    if (std::regex_match(symbol, match, of_class)) {
      if (!declared.classes.contains(bare(match[2]))) found.insert("exported: " + symbol);
      continue;
    }
    const std::string name = bare(symbol);
    missing.erase(name);
    if (!declared.promised.contains(name) && !declared.inside.contains(name)) found.insert("exported: " + symbol);
  }
  for (const std::string& name : missing) found.insert("not exported: " + name);
  return found;
}

std::vector<std::string> exported_by(const std::string& library) {
  std::istringstream lines(output_of(std::string("'") + POLYHEAD_NM + "' -D --defined-only -C '" + library + "'"));
  std::vector<std::string> symbols;
  for (std::string line; std::getline(lines, line);) {  // "00000000000a1b20 T polyhead::version()"
    const std::size_t type = line.find(' ');
    if (type != std::string::npos) symbols.push_back(line.substr(type + 3));
  }
  return symbols;
}

TEST(Exports, AreWhatPublicHeadersDeclare) {
  EXPECT_EQ(unexpected(exported_by(POLYHEAD_SHARED), public_headers()), Names{});
}

// The C ABI shows the functions of its header and nothing else, and asks nobody for a C++ library.
TEST(Exports, OfTheCLibraryAreWhatItsHeaderDeclares) {
  std::ifstream in(std::filesystem::path(POLYHEAD_ROOT) / "include/polyhead/polyhead_c.h");
  const std::string header{std::istreambuf_iterator<char>(in), {}};
  const std::regex function(R"(POLYHEAD_C_PUBLIC [^;]*?(polyhead_\w+)\()");
  Names declared;
  for (std::sregex_iterator match(header.begin(), header.end(), function), end; match != end; ++match) {
    declared.insert((*match)[1]);
  }
  EXPECT_GE(declared.size(), 30u);
  const std::vector<std::string> exported = exported_by(POLYHEAD_C);
  EXPECT_EQ(Names(exported.begin(), exported.end()), declared);
}

TEST(Exports, ALeakAndABrokenPromiseAreFound) {
  const Declared declared = declared_in({R"(
    namespace POLYHEAD_PUBLIC polyhead {
    class Hidden;
    struct Window { int left = 0; Dims dims{1, 2}; explicit operator float() const; };  // void comment();
    template <class T> class View : public Base {
     public:
      View(T* data, const Dims& dims = {}) : data_(data) { check(); }
      View slice(int axis) const;
      friend bool operator==(const View&, const View&) = default;
    };
    inline int twice(int x) { return 2 * x; }
    void attend(const View<int>& q = {},
                int more = 1);
    })"});
  EXPECT_EQ(declared.classes, (Names{"polyhead::Window", "polyhead::View"}));
  EXPECT_EQ(declared.inside, (Names{"polyhead::View::View", "polyhead::twice"}));
  EXPECT_EQ(declared.promised,
            (Names{"polyhead::Window::operator float", "polyhead::View::slice", "polyhead::attend"}));

  const std::vector<std::string> right = {
      "polyhead::attend(polyhead::View<int> const&, int)", "polyhead::View<int>::slice(int) const",
      "polyhead::View<int>::View(int*, polyhead::Dims const&)", "polyhead::Window::operator float() const",
      "typeinfo name for polyhead::View<int>"};
  EXPECT_EQ(unexpected(right, declared), Names{});
  for (const char* leak :
       {"polyhead::cpu::attend(int)", "std::vector<polyhead::View>::push_back(polyhead::View const&)",
        "vtable for polyhead::Hidden", "cudaMalloc", "polyhead::View<int>::data()"}) {
    std::vector<std::string> wrong = right;
    wrong.push_back(leak);
    EXPECT_EQ(unexpected(wrong, declared), Names{"exported: " + std::string(leak)});
  }
  EXPECT_EQ(unexpected({right.begin() + 1, right.end()}, declared), Names{"not exported: polyhead::attend"});
}

}  // namespace
}  // namespace polyhead::house
