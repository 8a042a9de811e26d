// The server as anybody on the machine may meet it: in order, out of order, in crowds and in malice.
#include "serve/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "core/executor.h"
#include "polyhead/error.h"
#include "serve/models.h"
#include "support/kept.h"
#include "support/said.h"

namespace polyhead::serve {
namespace {

using Clock = std::chrono::steady_clock;

// A connection to a port of this machine that says what it is told to.
class Client {
 public:
  explicit Client(std::uint16_t port, double seconds = 20) : file_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto whole = static_cast<time_t>(seconds);
    const timeval patience{whole, static_cast<suseconds_t>(1e6 * (seconds - static_cast<double>(whole)))};
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = connect(file_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(file_); }

  bool connected() const { return connected_; }
  void say(const std::string& bytes) const { (void)!send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  bool answered() const {
    pollfd asked{.fd = file_, .events = POLLIN, .revents = 0};
    return poll(&asked, 1, 0) == 1;
  }
  // What is answered, until the server closes or patience ends.
  std::string hear() const {
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = recv(file_, part, sizeof part, 0)) > 0;)
      all.append(part, static_cast<std::size_t>(got));
    return all;
  }

 private:
  int file_;
  bool connected_ = false;
};

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

class Served : public testing::Test {
 protected:
  std::uint16_t port() const { return port_of(server_.address()); }
  std::string host() const { return "127.0.0.1:" + std::to_string(port()); }
  std::string path() const { return server_.address().substr(server_.address().find('/', 7)); }

  std::string heard(const std::string& bytes) const {
    const Client client(port());
    client.say(bytes);
    return client.hear();
  }
  int status(const std::string& bytes) const {
    const std::string answer = heard(bytes);
    return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9)) : 0;
  }
  std::string request(const std::string& method, const std::string& at, const std::string& headers = "",
                      const std::string& body = "") const {
    return method + " " + at + " HTTP/1.1\r\nHost: " + host() + "\r\nConnection: close\r\n" + headers + "\r\n" + body;
  }
  std::string question(const std::string& what, const std::string& body) const {
    return request("POST", path() + what,
                   "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n", body);
  }
  void expect_alive() const { EXPECT_EQ(status(question("read", R"({"text":"a road"})")), 200); }

  Opened model_{save_language_model};
  Desk desk_{{{*model_.observer, "m"}}, 64};
  Server server_{desk_};
};

TEST_F(Served, GivesThePageToWhoKnowsTheAddress) {
  const std::string page = heard(request("GET", path()));
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200")) << page.substr(0, 100);
  EXPECT_NE(page.find("connect-src 'self'"), std::string::npos);
  for (const char* header : {"Content-Security-Policy: frame-ancestors 'none'", "X-Content-Type-Options: nosniff",
                             "Cache-Control: no-store", "text/html; charset=utf-8"}) {
    EXPECT_NE(page.find(header), std::string::npos) << header;
  }
  EXPECT_EQ(page.find("Access-Control-"), std::string::npos);
  EXPECT_GE(path().size(), 34u) << "128 random bits";
  Desk desk({{*model_.observer, "m"}}, 64);
  const Server other(desk);
  EXPECT_NE(other.address().substr(other.address().find('/', 7)), path());
}

TEST_F(Served, RefusesWhoIsNotAtHome) {
  const auto with_host = [&](const std::string& name) {
    return status("GET " + path() + " HTTP/1.1\r\nHost: " + name + "\r\nConnection: close\r\n\r\n");
  };
  EXPECT_EQ(with_host(host()), 200);
  EXPECT_EQ(with_host("localhost:" + std::to_string(port())), 200);
  for (const char* name : {"evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"}) {
    EXPECT_EQ(with_host(name), 403) << name;
  }
  EXPECT_EQ(status("GET " + path() + " HTTP/1.1\r\nConnection: close\r\n\r\n"), 400) << "HTTP/1.1 wants a Host";
  EXPECT_EQ(status(request("GET", path(), "Origin: http://evil.example\r\n")), 403);
  EXPECT_EQ(status(request("GET", path(), "Origin: http://" + host() + "\r\n")), 200);
}

TEST_F(Served, KnowsFourPathsAndNoFile) {
  for (const std::string& at : {std::string("/"), std::string("/read"), path() + "passwd", path() + "../etc/passwd",
                                path() + "%2e%2e/etc/passwd", path() + "read/", path().substr(0, path().size() - 1),
                                "/" + std::string(32, '0') + "/", std::string("/etc/passwd")}) {
    EXPECT_EQ(status(request("GET", at)), 404) << at;
  }
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE", "POST"}) {
    EXPECT_EQ(status(request(method, path())), 405) << method;
  }
  EXPECT_EQ(status(request("GET", path() + "read")), 405);
  EXPECT_EQ(status(request("POST", path() + "read", "Content-Length: 2\r\n", "{}")), 415);
  EXPECT_EQ(status(request("POST", path() + "read", "Content-Type: application/json\r\nContent-Length: 999999999\r\n")),
            413);
  EXPECT_EQ(status(question("read", "{}")), 422);
}

// Status, headers and words of every kind of answer beside the file that holds them; the page alone is left out.
TEST_F(Served, SaysTheSameToEverybody) {
  std::string said;
  const auto plain = [&](std::string text) {
    for (const auto& [own, name] : {std::pair{path(), "/TOKEN/"}, {std::to_string(port()), "PORT"}}) {
      for (std::size_t at = 0; (at = text.find(own, at)) != text.npos;) text.replace(at, own.size(), name);
    }
    return text;
  };
  const auto ask = [&](const std::string& bytes) {
    std::istringstream answer(heard(bytes));
    said += "> " + plain(bytes.substr(0, bytes.find("\r\n"))) + "\n";
    bool page = false;
    for (std::string line; std::getline(answer, line);) {
      line.erase(line.find_last_not_of('\r') + 1);
      page = page || line.find("text/html") != line.npos;
      if (page && line.empty()) break;  // what follows is the page
      const bool own = line.starts_with("Date:") || (page && line.starts_with("Content-Length:"));
      if (!own) said += plain(line) + "\n";
    }
  };
  const std::string json = "Content-Type: application/json\r\n";
  const auto post = [&](const std::string& at, const std::string& headers, std::size_t bytes) {
    return request("POST", at, headers + "Content-Length: " + std::to_string(bytes) + "\r\n", std::string(bytes, ' '));
  };
  ask(request("GET", path()));
  ask(request("POST", path()));
  ask(request("GET", "/"));
  ask(request("GET", path() + "passwd"));
  for (const char* what : {"read", "head", "rank"}) {
    ask(request("GET", path() + what));
    ask(post(path() + what, "", 2));
    ask(post(path() + what, json, 2));
    ask(question(what, R"({"text":"a","gates":1})"));
  }
  ask(post(path() + "read", json, Server::kMostBytes));
  ask(request("POST", path() + "read", json + "Content-Length: " + std::to_string(Server::kMostBytes + 1) + "\r\n"));
  for (const std::string origin :
       {"https://127.0.0.1:", "http://localhost:", "http://[::1]:", "http://127.0.0.2:", "null"}) {
    ask(request("GET", path() + "passwd", "Origin: " + origin + std::to_string(port()) + "\r\n"));
  }
  for (const std::string name : {"127.0.0.1:", "localhost:", "[::1]:", "127.0.0.2:", "[::2]:", "local:"}) {
    ask("GET " + path() + "passwd HTTP/1.1\r\nHost: " + name + std::to_string(port()) +
        "\r\nConnection: close\r\n\r\n");
  }
  expect_kept(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/serve/answers.txt", said);
}

TEST_F(Served, HeadersAndBodiesHaveABound) {
  EXPECT_NE(status(request("GET", path(), "X-Long: " + std::string(1 << 20, 'x') + "\r\n")), 200);
  std::string chunks;
  for (int n = 0; n < 40; ++n) chunks += "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  EXPECT_NE(status(request("POST", path() + "read", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
                           chunks + "0\r\n\r\n")),
            200);
  expect_alive();
}

// Requests in which bytes were changed, left out, doubled or cut off, and some that never were any.
TEST_F(Served, SurvivesTenThousandMalformedRequests) {
  const std::vector<std::string> seeds = {
      request("GET", path()),
      question("read", R"({"text":"a","gates":[[0,0,0]]})"),
      question("head", R"({"text":"a","head":[0,0]})"),
      request("POST", path() + "read", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
              "5\r\n{\"tex\r\n0\r\n\r\n"),
      "GET http://a/ HTTP/9.9\r\n\r\n",
      std::string("\0\0\0\0", 4)};
  std::minstd_rand random(1);
  const auto below = [&](std::size_t most) { return most == 0 ? 0 : random() % most; };
  std::size_t answers = 0;
  for (int n = 0; n < 10'000; ++n) {
    std::string bytes = seeds[below(seeds.size())];
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) {
      const std::size_t at = below(bytes.size()), count = below(std::min<std::size_t>(bytes.size() - at, 20));
      switch (below(5)) {
        case 0: bytes.replace(at, 1, 1, static_cast<char>(below(256))); break;
        case 1: bytes.erase(at, count); break;
        case 2: bytes.insert(at, bytes.substr(at, count)); break;
        case 3: bytes.resize(at); break;
        default: bytes.insert(at, count, "\r\n :%{[\""[below(8)]);
      }
    }
    const Client client(port(), 0.02);  // what is not whole is not answered
    ASSERT_TRUE(client.connected()) << n;
    client.say(bytes);
    if (n % 64 == 0) answers += client.hear().starts_with("HTTP/1.1 ");  // the others just leave
  }
  EXPECT_GT(answers, 10u) << "of 157 that are listened to";
  expect_alive();
}

TEST_F(Served, SlowClientsKeepNobodyWaiting) {
  std::vector<std::unique_ptr<Client>> slow;
  for (int n = 0; n < 64; ++n) {
    slow.push_back(std::make_unique<Client>(port()));
    slow.back()->say(n % 2 == 0 ? "GET / HT" : question("read", R"({"text":"a"})").substr(0, 120));
  }
  const Clock::time_point begin = Clock::now();
  expect_alive();
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 5);
}

TEST_F(Served, ACrowdIsAnsweredOrTold) {
  std::atomic<int> answered = 0, busy = 0, other = 0;
  std::vector<std::thread> crowd;
  for (int n = 0; n < 32; ++n) {
    crowd.emplace_back([&] {
      for (int turn = 0; turn < 4; ++turn) {
        const int code = status(question(turn % 2 == 0 ? "read" : "rank", R"({"text":"the animal crossed the road"})"));
        ++(code == 200 ? answered : code == 503 ? busy : other);
      }
    });
  }
  for (std::thread& one : crowd) one.join();
  EXPECT_GT(answered, 0);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(answered + busy, 128);
  expect_alive();
}

// While the first question waits for its turn to compute, 32 others may wait, and whoever comes then is told. The last
// ones come one by one, by when the first has surely been taken up.
TEST_F(Served, NoMoreWaitThanItSays) {
  std::unique_lock turn(model_.context.executor().turn());
  std::vector<std::unique_ptr<Client>> crowd;
  const auto told = [&] {
    return std::count_if(crowd.begin(), crowd.end(), [](const auto& one) { return one->answered(); });
  };
  for (std::int64_t n = 1; n <= 45; ++n) {
    crowd.push_back(std::make_unique<Client>(port()));
    crowd.back()->say(question("read", R"({"text":"a road"})"));
    if (n < 40) continue;
    const Clock::time_point late = Clock::now() + std::chrono::seconds(20);
    while (told() < n - 33 && Clock::now() < late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_GE(told(), n - 33) << n;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  turn.unlock();
  const auto answers = std::count_if(crowd.begin(), crowd.end(),
                                     [](const auto& one) { return one->hear().starts_with("HTTP/1.1 200"); });
  EXPECT_GE(answers, 32);
}

TEST_F(Served, ClientsMayGoAwayInTheMiddle) {
  for (int n = 0; n < 50; ++n) {
    const Client client(port());
    const std::string whole = question("read", R"({"text":"the animal"})");
    client.say(n % 2 == 0 ? whole : whole.substr(0, whole.size() - 5));
  }
  expect_alive();
}

TEST_F(Served, APortInUseIsSaid) {
  try {
    const Server second(desk_, {.port = port()});
    FAIL() << "it is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("--port"), std::string::npos) << error.what();
  }
  EXPECT_EQ(said([&] { Server(desk_, {.host = "nowhere"}); }),
            "input [serve] host: expected an address such as 127.0.0.1, found 'nowhere'");
}

// In brackets, as browsers write it; with the token that was asked for, and with the port.
TEST_F(Served, HasAnAddressOfIPv6) {
  const ServerOptions options{.host = "::1", .token = "mine"};
  std::string address;
  {
    const Server other(desk_, options);
    address = other.address();
  }
  EXPECT_TRUE(address.starts_with("http://[::1]:")) << address;
  EXPECT_TRUE(address.ends_with("/mine/")) << address;
  EXPECT_FALSE(address.ends_with(":0/mine/")) << "the port that the system chose";
  EXPECT_EQ(Server(desk_, {.host = options.host, .port = port_of(address), .token = options.token}).address(), address);
}

TEST_F(Served, EndsWhileQuestionsWait) {
  std::vector<std::unique_ptr<Client>> waiting;
  {
    Opened model(save_language_model);
    Desk desk({{*model.observer, "m"}}, 64);
    Server second(desk);
    const std::string& address = second.address();
    const std::uint16_t at = port_of(address);
    for (int n = 0; n < 20; ++n) {
      waiting.push_back(std::make_unique<Client>(at));
      waiting.back()->say("POST " + address.substr(address.find('/', 7)) +
                          "read HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(at) +
                          "\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n" + R"({"text":"a"})");
    }
  }
  for (const auto& client : waiting) client->hear();  // ends: the connection is closed, answered or not
}

}  // namespace
}  // namespace polyhead::serve
