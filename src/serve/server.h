// The live page over HTTP on the user's own machine: libmicrohttpd carries the bytes, one thread answers.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "core/awaited.h"
#include "serve/desk.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace polyhead::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address of this machine; IPv6 as ::1
  std::uint16_t port = 0;          // 0: any that is free
  std::string token{};             // the first part of every path; empty: 128 random bits
};

// The first part of every path, kept in a file that only its owner may read, so that an address stays the same from one
// server to the next. Makes the file if it is not there; refuses (input) one that others may read or that has no such
// part in it.
std::string kept_token(const std::filesystem::path& file);

// A client that names another host (DNS rebinding), does not know the token, or asks for anything but the page
// and the questions of docs/page.md is refused before a byte of the body is kept. A slow client costs one connection.
// Up to kMostWaiting questions wait in the queue; beyond that the answer is "busy".
class Server {
 public:
  // Throws Error (input) if the host is not an address, (io) if it cannot be used. Answers until it is destroyed.
  Server(Desk& desk, const ServerOptions& options = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  const std::string& address() const noexcept { return address_; }  // http://127.0.0.1:8080/token/

  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a body
  static constexpr std::size_t kMostWaiting = 32;
  static constexpr unsigned kMostConnections = 128;
  static constexpr unsigned kSeconds = 10;  // for which a client may be silent

 private:
  struct Request;
  struct Callbacks;

  // Whether the request is acceptable so far; if not, its answer says why.
  bool check(MHD_Connection* connection, const std::string& path, const std::string& method, Request& request) const;
  void ask(Request& request, MHD_Connection* connection);
  void answer_all();

  Desk& desk_;
  std::string token_, address_;
  std::set<std::string> hosts_;  // as browsers name us: "localhost:8080"
  MHD_Daemon* daemon_ = nullptr;
  std::mutex mutex_;  // of the queue and of ending_
  Awaited changes_;   // counts changes to both
  std::deque<Request*> waiting_;
  bool ending_ = false;
  std::thread answering_;
};

}  // namespace polyhead::serve
