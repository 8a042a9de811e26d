// What shared work takes on so many ranks: time, traffic and memory, by a model of two numbers for the link between two
// ranks (a message of n bytes takes latency + n / bandwidth) and a few rates of one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace polyhead::cli {

struct Rates {          // of one rank, per second
  double training = 0;  // FLOPs of passes forward and backward
  double forward = 0;   // FLOPs of passes forward alone
  double sums = 0;      // numbers of a gradient that are packed, added or unpacked
  double steps = 0;     // parameters that the optimiser changes
  double merges = 0;    // numbers of attention's output that are merged with those of another shard
};

// Of a rank of so many FLOPs a second, which reads and writes so many bytes of memory a second.
Rates rates_for(double flops, double bytes);

struct Link {
  double latency = 0;    // seconds until the first byte is there
  double bandwidth = 0;  // bytes per second, each way
};
constexpr Link kAssumedLink{.latency = 5e-6, .bandwidth = 12.5e9};  // a network of 100 Gbit/s

struct Workload {
  model::Config config;
  std::int64_t batch = 0, tokens = 0, parts = 1;  // a step: sequences, tokens of each, parts of the batch
  std::int64_t heads = 1;                         // of its ranks, how many share every pass; they divide their number
  // A scan: sequences that it judges heads by, tokens of each, how many a pass reads, how many passes a head takes, and
  // how often sequences are surveyed for where heads look.
  std::int64_t sequences = 0, window = 0, at_once = 1, per_head = 1, surveys = 1;
};

// The time of one unit of work (a step, a pass, a scan), by what it goes to; bytes that all ranks together send; the
// memory of the rank that takes most.
struct Forecast {
  std::int64_t ranks = 1;
  double shared = 0;    // divided by the number of ranks
  double uneven = 0;    // the slowest rank's share beyond that
  double repeated = 0;  // what every rank does, or one for all
  double sending = 0;   // messages, and the sums that wait for them
  double bytes = 0, memory = 0;

  double seconds() const { return shared + uneven + repeated + sending; }
};

// A step of polyhead train; there are no more groups of ranks that share a pass than parts.
Forecast forecast_training(const Workload& work, const Rates& rates, const Link& link, std::int64_t ranks);
// A pass over one sequence that lies on the ranks (ops/ring.h).
Forecast forecast_prefill(const Workload& work, const Rates& rates, const Link& link, std::int64_t ranks);
// polyhead heads.
Forecast forecast_scan(const Workload& work, const Rates& rates, const Link& link, std::int64_t ranks);

// FLOPs of a pass forward over so many sequences: two for a multiply-add, as `polyhead count` counts them.
double forward_flops(const model::Config& config, std::int64_t sequences, std::int64_t tokens);

// How far more ranks pay, of forecasts for rising numbers: each rank that is added brings at least a quarter of what
// the ranks before it bring. `why`: what then holds them up; empty if all of them pay.
struct Worth {
  std::int64_t ranks = 1;
  std::string why;
};
Worth worth_of(const std::vector<Forecast>& forecasts);

}  // namespace polyhead::cli
