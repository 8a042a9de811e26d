// Processes that compute one thing together, each with memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyhead {

// Calls are made in the same order on all ranks that take part. Messages have any size.
class Ranks {
 public:
  virtual ~Ranks() = default;

  // A message under way, which moves while its rank computes. Its bytes stay where they are until it is done.
  class Message {
   public:
    virtual ~Message() = default;  // not finished: given up, as where a rank ends with an error
    virtual void finish() = 0;     // returns when it is done
  };

  int rank() const noexcept { return rank_; }  // 0 .. size - 1
  int size() const noexcept { return size_; }
  virtual std::string transport() const = 0;  // in words
  virtual int threads() const = 0;            // that each rank has processors for, if all of them compute

  // From one rank to another. Messages between two ranks are matched in the order in which each of them starts them.
  virtual std::unique_ptr<Message> start_send(std::span<const std::byte> bytes, int to) = 0;
  virtual std::unique_ptr<Message> start_receive(std::span<std::byte> bytes, int from) = 0;
  // These wait. `exchange` does both at once, where everybody would wait to be heard.
  void send(std::span<const std::byte> bytes, int to) { start_send(bytes, to)->finish(); }
  void receive(std::span<std::byte> bytes, int from) { start_receive(bytes, from)->finish(); }
  void exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from);
  virtual void broadcast(std::span<std::byte> bytes, int from) = 0;
  // The text of every rank, on every rank.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // Runs every job in [0, count) once, on the rank that asks next; a rank gets its jobs in rising order. Returns when
  // all have been run.
  virtual void share(std::int64_t count, const std::function<void(std::int64_t job)>& run) = 0;
  // Those that give the same number, in their order, as ranks of their own: all call it. They go before these do.
  virtual std::unique_ptr<Ranks> split(int number) = 0;

  // Said on all ranks before all of them end: then none needs to end the others.
  void end_together() noexcept { ends_together_ = true; }
  bool ends_together() const noexcept { return ends_together_; }

 protected:
  Ranks(int rank, int size) : rank_(rank), size_(size) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

 private:
  int rank_, size_;
  bool ends_together_ = false;
};

// One process by itself.
Ranks& alone();

// Runs work that talks to no other rank on each of them. If it throws on some, all end together: these with what they
// threw, the others with an Error that says what the first of these threw.
void together(Ranks& ranks, const std::function<void()>& work);

// Of texts that are each on one rank and empty on the others, all on every rank.
void complete(Ranks& ranks, std::vector<std::string>& texts);

// Something that must be the same on all ranks, in words.
struct Fact {
  std::string what, value;
};
// Throws Error (input) on all ranks, which end together, if a rank's fact is not that of rank 0: it names both.
void expect_agreement(Ranks& ranks, std::string_view op, const std::vector<Fact>& facts);

// How mpirun or srun started this process, by its environment; nothing if they did not, or if POLYHEAD_RANKS is "off".
struct Launch {
  int rank = 0, size = 1;
};
std::optional<Launch> launch();

// On MPI in room ranks; room no_ranks has the same symbols for a build without. Only the command calls them.
namespace ranks {

bool available() noexcept;
std::string reason();   // why not
std::string library();  // "Open MPI v4.1.4"
// Once in a process; all ranks do. Messages go in pieces of so many bytes, which MPI counts by int. Throws Error
// (device) with the reason.
std::unique_ptr<Ranks> join(std::size_t piece = std::size_t{1} << 30);
[[noreturn]] void abandon(int code);  // ends all ranks at once

}  // namespace ranks

}  // namespace polyhead
