// The page: what was found, the figures, and every head to inspect, in one file that needs nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "report/figure.h"

namespace polyhead::report {

// What is known about one head; the page leaves out what was not measured.
struct Head {
  int layer = 0, head = 0;
  std::string role;  // its role, or empty
  std::optional<double> score;
  std::vector<std::pair<std::string, double>> roles;       // every role that was tried, and its score
  std::vector<std::pair<std::string, double>> statistics;  // "entropy (nats)", "on the first key", …
  std::optional<double> importance;
  std::optional<double> damage, damage_low, damage_high;  // of knocking it out, with its interval
  bool kept = true;                                       // false: pruned
  std::optional<std::pair<int, int>> origin{};            // (layer, head) of the model that it was pruned from
  bool borderline = false;                                // its role: other sequences may decide otherwise
};

// The attention of some heads over one text.
struct Sample {
  std::string name;
  std::vector<std::string> tokens;         // queries, and keys if key_tokens is empty
  std::vector<std::string> key_tokens;     // of cross-attention
  std::vector<std::pair<int, int>> heads;  // (layer, head)
  std::vector<float> weights;              // [heads, queries, keys], from 0 to 1

  // What the model makes of it, if known.
  using Likely = std::pair<std::string, double>;
  std::vector<std::vector<Likely>> predictions{};  // of the next token, by token; or of the classes, in one row
  std::vector<std::int32_t> next{};                // the numbers of the tokens in the last row of predictions
  bool classes = false;                            // predictions are of classes
  std::vector<double> losses{};                    // of token t + 1 at t
  std::vector<double> embedding{};                 // of the whole text
};

struct Model {
  std::string name, note;
  std::vector<Head> heads;
  std::vector<Sample> samples;
};

using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;
struct Table {
  std::string id, title, caption;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

struct Finding {
  std::string text;
  std::string figure;  // the id of the figure or table that shows it, or empty
};

// What a task asks, shown by one case.
struct Example {
  struct Token {
    std::string text;
    bool wanted = false;  // the model has to predict it
  };
  std::string task, asks;
  std::vector<Token> tokens;
  std::string answer;  // the class, of a classifier; else empty
};

// One question, what it is asked about, and the figures and tables that answer it, by their ids.
struct Chapter {
  std::string question;
  std::vector<Example> examples;
  std::vector<std::string> answers;
  std::string verdict{}, caveat{};  // the answer in a sentence or two, and what speaks against it
};

// A page that asks a server for what it shows: type a text, switch heads off.
struct Live {
  struct Suggestion {
    std::string name, text, shows;  // a text to try, and what there is to see in it
  };
  std::string model;                 // as the command line names it
  std::vector<Suggestion> examples;  // the first of them to begin with
  std::string hint;                  // what may be typed
  std::int64_t most_tokens = 0;
  std::string compared{};  // another model to compare it with, or empty
};

struct Page {
  std::string title, lead;
  std::vector<std::pair<std::string, std::string>> about;  // "version", "device", "date", "time"
  std::vector<Finding> findings;
  std::vector<Figure> figures;
  std::vector<Table> tables;
  std::vector<Model> models;
  std::vector<Chapter> chapters{};  // empty, or every figure and table is in one of them
  std::optional<Live> live{};
  std::string view{};  // how it opens, as in an address of it: "colour=map&pin=4.1"
};

// What the page reads, as docs/page.md describes it; the figures themselves are not in it.
std::string json(const Page& page);
std::string json(const Model& model);

// A byte per weight: its square root in 255ths, so that small weights, of which long texts have many, keep their
// digits.
std::vector<std::uint8_t> quantised(std::span<const float> weights);

// The whole HTML file. Throws Error if sizes do not fit together, if a finding or a chapter names a figure or table
// that does not exist, or if there are chapters and a figure or table is in none.
std::string html(const Page& page);

}  // namespace polyhead::report
