// Runs the real command.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace polyhead::cli {

struct Ran {
  int code = -1;
  std::string text;
};

inline Ran shell(const std::string& line) {
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + line);
  Ran ran;
  std::array<char, 4096> part;
  for (std::size_t size; (size = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    ran.text.append(part.data(), size);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// What is printed into a pipe is complete, wherever the tests run.
inline const int kNoColumns = unsetenv("COLUMNS");

inline std::string command(const std::string& arguments) { return "'" POLYHEAD_COMMAND "' " + arguments; }

inline Ran output_of(const std::string& arguments) { return shell(command(arguments) + " 2>/dev/null"); }
inline Ran errors_of(const std::string& arguments) { return shell(command(arguments) + " 2>&1 >/dev/null"); }
inline nlohmann::json json_of(const std::string& arguments) {
  return nlohmann::json::parse(output_of(arguments + " --format json").text);
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace polyhead::cli
