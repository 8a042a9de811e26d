// The attention of heads as bytes, kept by model, text and gates: a pass that is made for one head answers for others.
#pragma once

#include <list>
#include <map>
#include <string>

#include "exam/observer.h"

namespace polyhead::serve {

// Not for several threads at once.
class Maps {
 public:
  struct Of {
    exam::Observer& observer;
    const std::vector<std::int32_t>& tokens;
    const exam::GateList& gates;
  };

  std::string layer(const Of& of, std::size_t layer);  // [heads,T,T]
  std::string head(const Of& of, const HeadId& head);  // [T,T]

 private:
  struct Text {
    const exam::Observer* observer;
    std::vector<std::int32_t> tokens;
    exam::GateList gates;
    std::map<std::size_t, std::string> layers;
  };

  Text& text(const Of& of);
  // The layer, read with all others where they are few numbers.
  const std::string& read(const Of& of, std::size_t layer);
  void make_room();

  std::list<Text> texts_;  // the one asked for most recently comes first
};

}  // namespace polyhead::serve
