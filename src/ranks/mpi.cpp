// Ranks as the processes of MPI_COMM_WORLD.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>

#include "core/awaited.h"
#include "core/processors.h"
#include "core/ranks.h"
#include "polyhead/error.h"

namespace polyhead::ranks {
namespace {

constexpr std::size_t kTogether = std::size_t{1} << 16;  // bytes of texts that are gathered at once
constexpr int kMessage = 1, kAsk = 2, kAnswer = 3;       // tags
constexpr int kNever = 4;                                // a tag that nobody sends

void check(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorCode::device, "ranks", "MPI: " + std::string(text, static_cast<std::size_t>(length)));
}

// MPI waits by asking all the time. We leave the processor to others that compute, and sleep if it takes longer.
void wait(std::span<MPI_Request> requests) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point patience = Clock::now() + std::chrono::milliseconds(5);
  for (int done = 0;;) {
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    if (done != 0) return;
    if (Clock::now() < patience) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}
void wait(MPI_Request request) { wait({&request, 1}); }

// MPI moves messages on only when it is called. While some are under way and their rank computes, this calls it.
class Courier {
 public:
  explicit Courier(MPI_Comm idle) : thread_([this, idle] { run(idle); }) {}
  ~Courier() {
    ends_ = true;
    begin();
    thread_.join();
  }
  void begin() { under_way_.add(1); }
  void end() { under_way_.add(static_cast<std::uint32_t>(-1)); }

 private:
  void run(MPI_Comm idle) const {
    for (;;) {
      under_way_.until(0, [](std::uint32_t count) { return count > 0; });
      if (ends_) return;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      int there = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, kNever, idle, &there, MPI_STATUS_IGNORE);
    }
  }

  Awaited under_way_;  // so many messages
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class Started final : public Ranks::Message {
 public:
  Started(Courier& courier, bool receives) : courier_(courier), receives_(receives) { courier_.begin(); }
  ~Started() override {
    courier_.end();
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      if (receives_) MPI_Cancel(&request);  // given up: nothing may come any more to where it was to go
      MPI_Request_free(&request);
    }
  }
  void add(MPI_Request request) { requests_.push_back(request); }
  void finish() override { wait(requests_); }

 private:
  Courier& courier_;
  bool receives_;
  std::vector<MPI_Request> requests_;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find_first_of(",\n")); }

int size_of(MPI_Comm all) {
  int size = 0;
  check(MPI_Comm_size(all, &size));
  return size;
}
int rank_in(MPI_Comm all) {
  int rank = 0;
  check(MPI_Comm_rank(all, &rank));
  return rank;
}

// Machine and processors of this process: ranks with the same ones share them.
std::string place() {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  check(MPI_Get_processor_name(name, &length));
  std::string text(name, static_cast<std::size_t>(length));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return text;
  for (int n = 0; n < CPU_SETSIZE; ++n) {
    if (CPU_ISSET(n, &set)) text += " " + std::to_string(n);
  }
  return text;
}

class Mpi final : public Ranks {
 public:
  // All ranks, or some of them, which know how many threads they have.
  Mpi(MPI_Comm comm, std::size_t piece, int threads = 0)
      : Ranks(rank_in(comm), polyhead::ranks::size_of(comm)),
        messages_(comm),
        all_(threads == 0),
        threads_(threads),
        piece_(piece) {
    check(MPI_Comm_dup(comm, &jobs_));
    check(MPI_Comm_set_errhandler(messages_, MPI_ERRORS_RETURN));
    check(MPI_Comm_set_errhandler(jobs_, MPI_ERRORS_ARE_FATAL));  // the thread that answers could tell nobody
    if (!all_) return;
    const std::string mine = place();
    const std::vector<std::string> places = gather(mine);
    threads_ = std::max(1, usable_processors() / static_cast<int>(std::count(places.begin(), places.end(), mine)));
  }
  ~Mpi() override {
    courier_.reset();
    if (!all_ && std::uncaught_exceptions() > 0) return;  // to free is done together, and the others may go on
    MPI_Comm_free(&jobs_);
    MPI_Comm_free(&messages_);
    if (all_) MPI_Finalize();
  }

  std::string transport() const override { return "MPI (" + library() + ")"; }
  int threads() const override { return threads_; }

  std::unique_ptr<Message> start_send(std::span<const std::byte> bytes, int to) override {
    auto started = std::make_unique<Started>(*courier_, false);
    for (std::size_t at = 0; at < bytes.size(); at += piece_) started->add(sending(bytes, at, to));
    return started;
  }
  std::unique_ptr<Message> start_receive(std::span<std::byte> bytes, int from) override {
    auto started = std::make_unique<Started>(*courier_, true);
    for (std::size_t at = 0; at < bytes.size(); at += piece_) started->add(receiving(bytes, at, from));
    return started;
  }
  void broadcast(std::span<std::byte> bytes, int from) override {
    for (std::size_t at = 0; at < bytes.size(); at += piece_) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Ibcast(bytes.data() + at, piece_of(bytes.size(), at), MPI_BYTE, from, messages_, &request));
      wait(request);
    }
  }

  std::vector<std::string> gather(const std::string& mine) override {
    const std::uint64_t own = mine.size();
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size()));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(&own, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, messages_, &request));
    wait(request);
    const std::uint64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    return sum <= kTogether ? gather_at_once(mine, sizes, sum) : gather_in_turn(mine, sizes);
  }

  // Rank 0 counts, and answers the others from a thread of its own, since its first one computes.
  void share(std::int64_t count, const std::function<void(std::int64_t)>& run) override {
    if (rank() > 0) {
      for (std::int64_t job = asked(); job < count; job = asked()) run(job);
      return wait_for_all();
    }
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> failed{false};
    std::thread answers([&] { answer(next, count, failed); });
    try {
      for (std::int64_t job = next++; job < count; job = next++) run(job);
    } catch (...) {
      failed = true;
      answers.join();
      throw;
    }
    answers.join();
    wait_for_all();  // who asks again asks about the next jobs
  }
  std::unique_ptr<Ranks> split(int number) override {
    MPI_Comm some = MPI_COMM_NULL;
    check(MPI_Comm_split(messages_, number, rank(), &some));
    return std::make_unique<Mpi>(some, piece_, threads_);
  }

 private:
  void wait_for_all() const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(messages_, &request));
    wait(request);
  }
  // Texts that are short: one message to everybody, where one after the other would wait for every rank in turn.
  std::vector<std::string> gather_at_once(const std::string& mine, const std::vector<std::uint64_t>& sizes,
                                          std::uint64_t sum) const {
    std::vector<int> counts(sizes.begin(), sizes.end()), begins(sizes.size());
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
    std::string joined(sum, '\0');
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, joined.data(), counts.data(),
                          begins.data(), MPI_BYTE, messages_, &request));
    wait(request);
    std::vector<std::string> all;
    std::size_t at = 0;
    for (const std::uint64_t bytes : sizes) {
      all.push_back(joined.substr(at, bytes));
      at += bytes;
    }
    return all;
  }
  std::vector<std::string> gather_in_turn(const std::string& mine, const std::vector<std::uint64_t>& sizes) {
    std::vector<std::string> all;
    for (const std::uint64_t bytes : sizes) all.emplace_back(bytes, '\0');
    all[static_cast<std::size_t>(rank())] = mine;
    for (int from = 0; from < size(); ++from) {
      broadcast(std::as_writable_bytes(std::span(all[static_cast<std::size_t>(from)])), from);
    }
    return all;
  }
  MPI_Request sending(std::span<const std::byte> bytes, std::size_t at, int to) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(bytes.data() + at, piece_of(bytes.size(), at), MPI_BYTE, to, kMessage, messages_, &request));
    return request;
  }
  MPI_Request receiving(std::span<std::byte> bytes, std::size_t at, int from) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(bytes.data() + at, piece_of(bytes.size(), at), MPI_BYTE, from, kMessage, messages_, &request));
    return request;
  }

  std::int64_t asked() const {
    std::int64_t job = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(nullptr, 0, MPI_BYTE, 0, kAsk, jobs_, &request));
    wait(request);
    check(MPI_Irecv(&job, 1, MPI_INT64_T, 0, kAnswer, jobs_, &request));
    wait(request);
    return job;
  }
  // Until every other rank has heard that there are no more.
  void answer(std::atomic<std::int64_t>& next, std::int64_t count, const std::atomic<bool>& failed) const {
    for (int told = 1; told < size() && !failed;) {
      int there = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, kAsk, jobs_, &there, &status);
      if (there == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        continue;
      }
      MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kAsk, jobs_, MPI_STATUS_IGNORE);
      const std::int64_t job = next++;
      told += job >= count ? 1 : 0;
      MPI_Send(&job, 1, MPI_INT64_T, status.MPI_SOURCE, kAnswer, jobs_);
    }
  }

  int piece_of(std::size_t bytes, std::size_t at) const { return static_cast<int>(std::min(piece_, bytes - at)); }

  MPI_Comm messages_, jobs_ = MPI_COMM_NULL;
  bool all_;
  int threads_;
  const std::size_t piece_;
  std::optional<Courier> courier_{std::in_place, messages_};
};

}  // namespace

bool available() noexcept { return true; }
std::string reason() { return {}; }

std::string library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return first_line({text, static_cast<std::size_t>(length)});
}

std::unique_ptr<Ranks> join(std::size_t piece) {
  int given = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given));
  if (given < MPI_THREAD_MULTIPLE) {
    throw Error(ErrorCode::device, "ranks",
                library() + ": expected an MPI that several threads of a process may call, found one that forbids it");
  }
  MPI_Comm all = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &all));
  return std::make_unique<Mpi>(all, piece);
}

void abandon(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace polyhead::ranks
