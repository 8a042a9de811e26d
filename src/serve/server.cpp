#include "serve/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <random>

#include "io/file.h"
#include "polyhead/error.h"

namespace polyhead::serve {
namespace {

std::string random_token() {
  std::random_device device;  // the system's own generator
  std::string token;
  for (int part = 0; part < 4; ++part) {
    for (std::uint32_t bits = device(), n = 0; n < 8; ++n, bits >>= 4) token += "0123456789abcdef"[bits & 15];
  }
  return token;
}

constexpr std::size_t kTokenSize = 32;

bool is_token(const std::string& text) {
  return text.size() == kTokenSize && text.find_first_not_of("0123456789abcdef") == text.npos;
}

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;

  bool is_v6() const { return any.sa_family == AF_INET6; }
  socklen_t size() const { return is_v6() ? sizeof v6 : sizeof v4; }
  std::uint16_t port() const { return ntohs(is_v6() ? v6.sin6_port : v4.sin_port); }
};

Address address_of(const ServerOptions& options) {
  Address address{};
  if (inet_pton(AF_INET, options.host.c_str(), &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(options.port);
  } else if (inet_pton(AF_INET6, options.host.c_str(), &address.v6.sin6_addr) == 1) {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(options.port);
  } else {
    throw Error(ErrorCode::input, "serve", "host: expected an address such as 127.0.0.1, found '" + options.host + "'");
  }
  return address;
}

// A socket that listens there. If the port was 0, the address receives the one that the system chose.
int listen_at(Address& address, const ServerOptions& options) {
  const int file = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  socklen_t size = address.size();
  const bool listening = file >= 0 && setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                         bind(file, &address.any, size) == 0 && listen(file, SOMAXCONN) == 0 &&
                         getsockname(file, &address.any, &size) == 0;
  if (listening) return file;
  const int why = errno;
  if (file >= 0) close(file);
  throw Error(ErrorCode::io, "serve",
              options.host + ", port " + std::to_string(options.port) + ": " + std::strerror(why) +
                  (why == EADDRINUSE ? "; name another with --port, or leave it out for one that is free" : ""));
}

std::string header_of(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

struct ForResponse {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};

MHD_Result send(MHD_Connection* connection, const Answer& answer) {
  const std::unique_ptr<MHD_Response, ForResponse> response(MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY));
  if (response == nullptr) return MHD_NO;
  const std::pair<const char*, const char*> headers[] = {
      {"Content-Type", answer.type.c_str()},
      {"Cache-Control", "no-store"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Content-Security-Policy", "frame-ancestors 'none'"}};  // in addition to the page's own, which cannot say this
  for (const auto& [name, value] : headers) MHD_add_response_header(response.get(), name, value);
  if (answer.status == MHD_HTTP_SERVICE_UNAVAILABLE) MHD_add_response_header(response.get(), "Retry-After", "1");
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response.get(), "Allow", "GET, POST");
  return MHD_queue_response(connection, static_cast<unsigned>(answer.status), response.get());
}

}  // namespace

std::string kept_token(const std::filesystem::path& file) {
  io::make_folder(file.parent_path());
  const std::string made = random_token();
  // Whoever comes second finds what the first one made.
  if (const int fresh = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); fresh >= 0) {
    const io::Descriptor ours(fresh);
    if (write(fresh, made.data(), made.size()) == std::ssize(made)) return made;
    throw Error(ErrorCode::io, "serve", file.string() + ": " + std::strerror(errno));
  }
  struct stat about {};
  const bool private_file = lstat(file.c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
                            (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  const std::string kept = private_file ? io::read_file(file, kTokenSize) : "";
  if (is_token(kept)) return kept;
  throw Error(ErrorCode::input, "serve",
              file.string() + ": expected the key of addresses, a file that only you may read, found something else; " +
                  "remove it, and another key is made");
}

struct Server::Request {
  MHD_Connection* connection = nullptr;
  std::string what, body;
  bool asked = false;  // and answered by the time the callback runs again
  Answer answer{};
};

// What libmicrohttpd calls.
struct Server::Callbacks {
  // First when the header is there, then for every piece of the body, then once with nothing, and again when resumed.
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path, const char* method,
                               const char* /*version*/, const char* data, std::size_t* bytes, void** own) {
    Server& server = *static_cast<Server*>(self);
    try {
      if (*own == nullptr) {
        auto request = std::make_unique<Request>();
        const bool fine = server.check(connection, path, method, *request);
        Request& kept = *request;
        *own = request.release();
        return fine ? MHD_YES : send(connection, kept.answer);
      }
      Request& request = *static_cast<Request*>(*own);
      if (request.asked) return send(connection, request.answer);
      if (*bytes > 0) {
        if (request.body.size() + *bytes > kMostBytes) return MHD_NO;  // too long, without a Content-Length: close
        request.body.append(data, *bytes);
        *bytes = 0;
        return MHD_YES;
      }
      server.ask(request, connection);
      return request.asked ? MHD_YES : send(connection, request.answer);
    } catch (const std::exception&) {
      return MHD_NO;  // out of memory: this connection ends, the others continue
    }
  }

  static void on_end(void* /*self*/, MHD_Connection* /*connection*/, void** own, MHD_RequestTerminationCode /*why*/) {
    delete static_cast<Request*>(*own);
    *own = nullptr;
  }
};

bool Server::check(MHD_Connection* connection, const std::string& path, const std::string& method,
                   Request& request) const {
  const auto refuse = [&](int status, const char* why) {
    request.answer = refusal(status, why);
    return false;
  };
  if (!hosts_.contains(header_of(connection, "Host"))) return refuse(MHD_HTTP_FORBIDDEN, "unexpected Host header");
  const std::string origin = header_of(connection, "Origin"), prefix = "/" + token_ + "/";
  if (!origin.empty() && (!origin.starts_with("http://") || !hosts_.contains(origin.substr(7)))) {
    return refuse(MHD_HTTP_FORBIDDEN, "asked from another page");
  }
  if (!path.starts_with(prefix)) {
    return refuse(MHD_HTTP_NOT_FOUND, "nothing here: take the whole address from the terminal");
  }
  request.what = path.substr(prefix.size());
  if (request.what.empty()) {
    return method == MHD_HTTP_METHOD_GET ? true : refuse(MHD_HTTP_METHOD_NOT_ALLOWED, "the page is there for GET");
  }
  static const std::set<std::string> known{"read", "head", "layer", "rank", "api", "file"};
  if (!known.contains(request.what)) {
    return refuse(MHD_HTTP_NOT_FOUND, "nothing here: expected read, head, layer, rank, api or file");
  }
  if (method != MHD_HTTP_METHOD_POST) return refuse(MHD_HTTP_METHOD_NOT_ALLOWED, "questions come by POST");
  if (header_of(connection, "Content-Type") != "application/json") {
    return refuse(MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "questions are application/json");
  }
  const std::string length = header_of(connection, "Content-Length");
  std::size_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (bytes > kMostBytes) return refuse(MHD_HTTP_CONTENT_TOO_LARGE, "expected up to 1 MiB; shorten the text");
  return true;
}

// The page is sent at once; a question waits its turn, or is told that the server is busy.
void Server::ask(Request& request, MHD_Connection* connection) {
  if (request.what.empty()) {
    request.answer = {.type = "text/html; charset=utf-8", .body = desk_.page()};
    return;
  }
  const std::lock_guard lock(mutex_);
  if (ending_ || waiting_.size() >= kMostWaiting) {
    request.answer = refusal(MHD_HTTP_SERVICE_UNAVAILABLE, ending_ ? "the server is ending" : "busy");
    return;
  }
  request.asked = true;
  request.connection = connection;
  MHD_suspend_connection(connection);
  waiting_.push_back(&request);
  changes_.add(1);
}

// Questions first; while there are none, rankings advance step by step.
void Server::answer_all() {
  const auto next = [&]() -> Request* {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return nullptr;
    Request* request = waiting_.front();
    waiting_.pop_front();
    return request;
  };
  const auto ending = [&] {
    const std::lock_guard lock(mutex_);
    return ending_;
  };
  while (!ending()) {
    const std::uint32_t seen = changes_.now();
    if (Request* request = next()) {
      request->answer = desk_.answer(request->what, request->body);
      MHD_resume_connection(request->connection);
    } else if (!desk_.work() && !ending()) {
      changes_.until(0, [&](std::uint32_t now) { return now != seen; });
    }
  }
}

Server::Server(Desk& desk, const ServerOptions& options)
    : desk_(desk), token_(options.token.empty() ? random_token() : options.token) {
  Address address = address_of(options);
  const int file = listen_at(address, options);
  const std::string host = address.is_v6() ? "[" + options.host + "]" : options.host;
  const std::string port = ":" + std::to_string(address.port());
  for (const std::string& name : {host, std::string("localhost"), std::string("127.0.0.1"), std::string("[::1]")}) {
    hosts_.insert(name + port);
  }
  address_ = "http://" + host + port + "/" + token_ + "/";
  // By poll: with epoll, clients that leave in the middle of a request were noticed only when their time was up.
  daemon_ = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr,  //
                             &Callbacks::on_request, this,                                                  //
                             MHD_OPTION_LISTEN_SOCKET, file,                                                //
                             MHD_OPTION_CONNECTION_LIMIT, kMostConnections,                                 //
                             MHD_OPTION_CONNECTION_TIMEOUT, kSeconds,                                       //
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, std::size_t{32} << 10,                     //
                             MHD_OPTION_NOTIFY_COMPLETED, &Callbacks::on_end, nullptr,                      //
                             MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  if (daemon_ == nullptr) {
    close(file);
    throw Error(ErrorCode::io, "serve", "the server cannot start: the system has no more threads or files to give");
  }
  answering_ = std::thread([this] { answer_all(); });
}

Server::~Server() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changes_.add(1);
  answering_.join();
  for (Request* request : waiting_) {
    request->answer = refusal(MHD_HTTP_SERVICE_UNAVAILABLE, "the server is ending");
    MHD_resume_connection(request->connection);
  }
  MHD_stop_daemon(daemon_);
}

}  // namespace polyhead::serve
