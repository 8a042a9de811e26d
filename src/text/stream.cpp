#include "text/stream.h"

#include <algorithm>

namespace polyhead::text {

std::string Stream::rest() {
  const std::span<const Id> all = std::span(tokens_).subspan(first_);
  const std::string known = tokenizer_.decode(all.first(said_ - first_), special_);
  const std::string text = tokenizer_.decode(all, special_);
  // A byte that fits nothing spoils the bytes before it, which have been said: it is decoded by itself.
  if (!text.starts_with(known)) return tokenizer_.decode(all.subspan(said_ - first_), special_);
  return text.substr(known.size());
}

std::string Stream::add(Id token) {
  tokens_.push_back(token);
  std::string piece = rest();
  if (piece.empty() || piece.ends_with("\ufffd")) return {};
  first_ = std::exchange(said_, tokens_.size());
  return piece;
}

std::string Stream::finish() {
  std::string piece = rest();
  first_ = std::exchange(said_, tokens_.size());
  return piece;
}

std::string Stops::add(const std::string& more) {
  waiting_ += more;
  std::size_t end = waiting_.npos;
  for (const std::string& stop : stops_) end = std::min(end, waiting_.find(stop));
  found_ = end != waiting_.npos;
  std::string said = waiting_.substr(0, found_ ? end : waiting_.size() - longest_beginning());
  waiting_.erase(0, found_ ? waiting_.npos : said.size());
  return said;
}

// How many bytes at the end of what waits may be the beginning of a stop.
std::size_t Stops::longest_beginning() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, waiting_.size()); n > longest; --n) {
      if (waiting_.ends_with(stop.substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace polyhead::text
