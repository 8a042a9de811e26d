#include "house/rooms.h"

#include <algorithm>
#include <fstream>

#include "house/pages.h"

namespace polyhead::house {
namespace {

namespace fs = std::filesystem;

// Libraries of others, by the start of the path, and the rooms that may know them.
struct Library {
  std::string_view prefix;
  Names rooms;
};
const std::vector<Library> kLibraries = {
    {"immintrin.h", {"cpu"}}, {"hwy/", {"cpu"}},           {"Python.h", {"native"}},
    {"CLI/", {"cli"}},        {"fmt/", {"cli", "report"}}, {"nlohmann/", {"cli", "io", "report"}},
    {"utf8proc.h", {"text"}}, {"microhttpd.h", {"serve"}}, {"cuda", {"cuda"}},
    {"cublasLt.h", {"cuda"}}, {"cub/", {"cuda"}},          {"xxhash.h", {"io"}},
    {"zlib.h", {"report"}},   {"mpi.h", {"ranks"}},
};

// Headers of the operating system, and those of C that its own header needs; those of C++ have neither a slash nor
// ".h".
const Names kSystem = {"arpa/inet.h", "dlfcn.h",  "fcntl.h", "malloc.h", "netinet/in.h", "poll.h",    "pthread.h",
                       "sched.h",     "signal.h", "spawn.h", "stddef.h", "stdint.h",     "termios.h", "unistd.h"};

bool is_system(std::string_view header) {
  return header.starts_with("sys/") || kSystem.contains(header) ||
         (header.find('/') == std::string_view::npos && header.find('.') == std::string_view::npos);
}

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" `"), end = text.find_last_not_of(" `");
  return begin == text.npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(at, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
  }
  return parts;
}

Names names_in(const std::string& list) {
  const std::vector<std::string> names = split(list, ',');
  return {names.begin(), names.end()};
}

// "export < error, info < tensor", lowest level first; those that have everything come last.
std::vector<Names> levels_in(const std::string& text) {
  std::vector<Names> levels;
  for (const std::string& level : split(text, '<')) levels.push_back(names_in(level));
  levels.push_back({"polyhead", "polyhead_c"});
  return levels;
}

struct Include {
  int line = 0;
  bool quoted = false;
  std::string path;
};

// The path in `#include "path"` or <path>, if that is what the line is.
std::optional<Include> include_in(std::string_view line) {
  const auto skip_space = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  for (const std::string_view word : {"#", "include"}) {
    skip_space();
    if (!line.starts_with(word)) return std::nullopt;
    line.remove_prefix(word.size());
  }
  skip_space();
  if (!line.starts_with('"') && !line.starts_with('<')) return std::nullopt;
  const bool quoted = line[0] == '"';
  line.remove_prefix(1);
  return Include{0, quoted, std::string(line.substr(0, line.find(quoted ? '"' : '>')))};
}

std::vector<Include> includes_of(const fs::path& file) {
  std::vector<Include> found;
  std::ifstream in(file);
  std::string text;
  for (int line = 1; std::getline(in, text); ++line) {
    if (auto include = include_in(text)) {
      include->line = line;
      found.push_back(*include);
    }
  }
  return found;
}

bool is_source(const fs::path& file) {
  static const Names extensions = {".h", ".hpp", ".cuh", ".inc", ".c", ".cpp", ".cu"};
  return extensions.contains(file.extension().string());
}

// The stem of "polyhead/tensor.h", if that is what the path is.
std::optional<std::string> public_stem(const std::string& path) {
  if (!path.starts_with("polyhead/")) return std::nullopt;
  return fs::path(path).stem().string();
}

// Why a file of `room` may not include this, or nothing.
std::optional<std::string> refusal(const Table& table, const Room& room, const fs::path& file, const Include& include) {
  const std::string& path = include.path;
  if (path.find("..") != std::string::npos) return "paths do not climb";
  if (const auto stem = public_stem(path)) {
    const auto level = table.level_of(*stem);
    if (!level) return "no such public header in the table";
    if (*level > *table.level_of(room.up_to)) return "public headers go up to " + room.up_to + ".h here";
    return std::nullopt;
  }
  const std::string first = path.substr(0, path.find('/'));
  if (const Room* other = table.room(first); other != nullptr && first != path) {
    if (other != &room && !room.may_include.contains(other->name)) return "may not include " + first + "/";
    // Device code of the GPU stands on its own.
    const bool device = file.string().find("/cuda/device/") != std::string::npos;
    if (device && !path.starts_with("cuda/device/")) return "cuda/device/ includes nothing outside itself";
    return std::nullopt;
  }
  for (const Library& library : kLibraries) {
    if (!path.starts_with(library.prefix)) continue;
    if (library.rooms.contains(room.name)) return std::nullopt;
    return std::string(library.prefix) + " is not for this room";
  }
  if (include.quoted) {
    return fs::exists(file.parent_path() / path) ? std::nullopt
                                                 : std::optional<std::string>("no such file in any room");
  }
  return is_system(path) ? std::nullopt : std::optional<std::string>("a library that the table does not know");
}

// The folders of a tree that should be rooms, with the names of those.
std::vector<std::pair<fs::path, std::string>> folders_of(const fs::path& root) {
  std::vector<std::pair<fs::path, std::string>> folders = {
      {root / "cli", "cli"}, {root / "capi", "capi"}, {root / "python/native", "native"}};
  if (fs::is_directory(root / "src")) {
    for (const fs::directory_entry& entry : fs::directory_iterator(root / "src")) {
      if (entry.is_directory()) folders.emplace_back(entry.path(), entry.path().filename().string());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

std::vector<fs::path> sources_below(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && is_source(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const Room* Table::room(std::string_view name) const {
  const auto found = std::find_if(rooms.begin(), rooms.end(), [&](const Room& r) { return r.name == name; });
  return found == rooms.end() ? nullptr : &*found;
}

std::optional<std::size_t> Table::level_of(std::string_view header) const {
  for (std::size_t level = 0; level < levels.size(); ++level) {
    if (levels[level].contains(header)) return level;
  }
  return std::nullopt;
}

Table table_in(const fs::path& page) {
  constexpr std::string_view kLevels = "lower levels only:";
  Table table;
  for (const std::string& line : lines_of(page)) {
    const std::vector<std::string> cells = split(line, '|');  // the first and the last are empty
    if (cells.size() != 6) continue;
    if (const std::size_t at = cells[2].find(kLevels); at != std::string::npos) {
      table.levels = levels_in(cells[2].substr(at + kLevels.size()));
    } else if (const std::string up_to = cells[4].substr(0, cells[4].find(' '));
               table.level_of(up_to) || up_to == "all") {
      Room& room = table.rooms.emplace_back();
      room.name = cells[1].substr(cells[1].rfind('/') + 1);
      if (cells[3] != "std" && cells[3] != "nothing") room.may_include = names_in(cells[3]);
      room.up_to = up_to == "all" ? "polyhead" : up_to;
    }
  }
  return table;
}

std::vector<std::string> violations(const fs::path& root, const Table& table) {
  std::vector<std::string> found;
  const auto report = [&](const fs::path& file, const Include& include, const std::string& why) {
    found.push_back(file.lexically_relative(root).string() + ":" + std::to_string(include.line) + " includes " +
                    include.path + ": " + why);
  };

  for (const fs::path& file : sources_below(root / "include")) {
    const auto own = table.level_of(file.stem().string());
    if (!own) {
      found.push_back(file.lexically_relative(root).string() + ": no level in the table");
      continue;
    }
    for (const Include& include : includes_of(file)) {
      if (const auto stem = public_stem(include.path)) {
        const auto level = table.level_of(*stem);
        if (!level || *level >= *own) report(file, include, "not a lower level");
      } else if (include.quoted || !is_system(include.path)) {
        report(file, include, "public headers include public and standard ones only");
      }
    }
  }

  for (const auto& [folder, name] : folders_of(root)) {
    const Room* room = table.room(name);
    if (room == nullptr) {
      found.push_back(folder.lexically_relative(root).string() + ": no such room in the table");
      continue;
    }
    for (const fs::path& file : sources_below(folder)) {
      for (const Include& include : includes_of(file)) {
        if (const auto why = refusal(table, *room, file, include)) report(file, include, *why);
      }
    }
  }
  return found;
}

Names rooms_included_by(const fs::path& root, const std::string& room) {
  Names used;
  for (const auto& [folder, name] : folders_of(root)) {
    if (name != room) continue;
    for (const fs::path& file : sources_below(folder)) {
      for (const Include& include : includes_of(file)) used.insert(include.path.substr(0, include.path.find('/')));
    }
  }
  return used;
}

}  // namespace polyhead::house
