#include "core/ranks.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "core/processors.h"
#include "polyhead/error.h"

namespace polyhead {
namespace {

class Alone final : public Ranks {
 public:
  Alone() : Ranks(0, 1) {}
  std::string transport() const override { return "none: one process"; }
  int threads() const override { return usable_processors(); }
  std::unique_ptr<Message> start_send(std::span<const std::byte>, int) override { nobody(); }
  std::unique_ptr<Message> start_receive(std::span<std::byte>, int) override { nobody(); }
  void broadcast(std::span<std::byte>, int) override {}
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  void share(std::int64_t count, const std::function<void(std::int64_t)>& run) override {
    for (std::int64_t job = 0; job < count; ++job) run(job);
  }
  std::unique_ptr<Ranks> split(int) override { return std::make_unique<Alone>(); }

 private:
  [[noreturn]] static void nobody() {
    throw Error(ErrorCode::value, "ranks", "expected another rank, found one alone");
  }
};

// A whole number in the environment.
std::optional<int> number_in(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

// Both end with a zero.
std::string joined(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += fact.what + '\0' + fact.value + '\0';
  return text;
}

std::vector<Fact> split(const std::string& text) {
  std::vector<Fact> facts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t middle = text.find('\0', at), end = text.find('\0', middle + 1);
    facts.push_back({text.substr(at, middle - at), text.substr(middle + 1, end - middle - 1)});
    at = end + 1;
  }
  return facts;
}

// Where two texts differ first: those lines, without the blanks around them.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto line = [](const std::string& text, std::string::const_iterator at) {
    const auto place = static_cast<std::size_t>(at - text.begin());
    const std::size_t before = place == 0 ? text.npos : text.rfind('\n', place - 1);
    const std::size_t begin = text.find_first_not_of(' ', before == text.npos ? 0 : before + 1);
    return begin == text.npos ? "nothing" : text.substr(begin, text.find('\n', place) - begin);
  };
  return {line(a, differ.first), line(b, differ.second)};
}

}  // namespace

void Ranks::exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) {
  const std::unique_ptr<Message> coming = start_receive(in, from), going = start_send(out, to);
  coming->finish();
  going->finish();
}

Ranks& alone() {
  static Alone one;
  return one;
}

void together(Ranks& ranks, const std::function<void()>& work) {
  if (ranks.size() == 1) return work();
  std::exception_ptr own;
  ErrorCode code = ErrorCode::input;
  std::string words;
  try {
    work();
  } catch (const Error& error) {
    own = std::current_exception();
    code = error.code();
    words = error.what();
  } catch (const std::exception& error) {
    own = std::current_exception();
    words = error.what();
  }
  const std::vector<std::string> all = ranks.gather(own ? static_cast<char>('0' + static_cast<int>(code)) + words : "");
  const auto failed = std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
  if (failed == all.end()) return;
  ranks.end_together();
  if (own) std::rethrow_exception(own);
  throw Error(static_cast<ErrorCode>((*failed)[0] - '0'), "ranks",
              "rank " + std::to_string(failed - all.begin()) + ": " + failed->substr(1));
}

void complete(Ranks& ranks, std::vector<std::string>& texts) {
  if (ranks.size() == 1) return;
  std::string mine;
  for (std::size_t n = 0; n < texts.size(); ++n) {
    if (texts[n].empty()) continue;
    const std::uint64_t head[] = {n, texts[n].size()};
    mine.append(reinterpret_cast<const char*>(head), sizeof head);
    mine += texts[n];
  }
  for (const std::string& some : ranks.gather(mine)) {
    std::uint64_t head[2];
    for (std::size_t at = 0; at < some.size(); at += sizeof head + head[1]) {
      std::memcpy(head, some.data() + at, sizeof head);
      texts[head[0]] = some.substr(at + sizeof head, head[1]);
    }
  }
}

void expect_agreement(Ranks& ranks, std::string_view op, const std::vector<Fact>& facts) {
  const std::vector<std::string> all = ranks.gather(joined(facts));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::vector<Fact> first = split(all[0]), found = split(all[rank]);
    const std::size_t count = std::max(first.size(), found.size());
    first.resize(count);
    found.resize(count);
    for (std::size_t n = 0; n < count; ++n) {
      if (found[n].what == first[n].what && found[n].value == first[n].value) continue;
      ranks.end_together();
      const auto [expected, other] = first_difference(first[n].value, found[n].value);
      throw Error(ErrorCode::input, op,
                  "rank " + std::to_string(rank) + " has another " +
                      (first[n].what.empty() ? found[n].what : first[n].what) + ": expected " + expected +
                      " as rank 0 has, found " + other + "; start all ranks with the same");
    }
  }
}

std::optional<Launch> launch() {
  if (const char* choice = std::getenv("POLYHEAD_RANKS"); choice != nullptr && std::string_view(choice) == "off") {
    return std::nullopt;
  }
  const std::pair<const char*, const char*> names[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                       {"PMI_RANK", "PMI_SIZE"},
                                                       {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank, size] : names) {
    const std::optional<int> own = number_in(rank), all = number_in(size);
    if (own && all && *own >= 0 && *own < *all) return Launch{*own, *all};
  }
  return std::nullopt;
}

}  // namespace polyhead
