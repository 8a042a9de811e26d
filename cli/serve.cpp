#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <thread>

#include "cli/device.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "exam/page.h"
#include "serve/server.h"

namespace polyhead::cli {
namespace {

struct ServeOptions {
  std::string model, compare;
  std::string host = "127.0.0.1";
  std::int64_t port = 0, tokens = 2048;
  DeviceChoice on;
};

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1"; }

void run(const ServeOptions& o) {
  if (o.model.empty()) throw Failure(Exit::usage, kNoModel);
  if (o.host == "0.0.0.0" || o.host == "::") {
    throw Failure(Exit::usage, fmt::format("--host: expected the address of one interface, found {}, which is all of "
                                           "them",
                                           o.host));
  }
  if (!is_loopback(o.host)) {
    say(
        fmt::format("Warning: whoever reaches {} and learns the address below can use this model; nothing is "
                    "encrypted.\n",
                    o.host));
  }
  const Signals signals;
  Context context = o.on.context();
  say(fmt::format("Loading {}\n", o.model));
  exam::Observer observer(context, o.model);
  std::vector<serve::ServedModel> models{{observer, o.model}};
  std::optional<exam::Observer> other;
  if (!o.compare.empty()) {
    say(fmt::format("Loading {}\n", o.compare));
    models.push_back({other.emplace(context, o.compare), o.compare});
  }
  serve::Desk desk(std::move(models), o.tokens);
  const serve::Server server(desk, {.host = o.host, .port = static_cast<std::uint16_t>(o.port)});
  say(fmt::format("{}\nOpen this address in a browser; Ctrl-C ends the server.\n",
                  exam::in_a_sentence(observer.model())));
  fmt::print("{}\n", server.address());
  std::fflush(stdout);
  while (Signals::noted() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace

Command serve_command() {
  auto o = std::make_shared<ServeOptions>();
  return {
      .name = "serve",
      .summary = "a live page: type a text, see every head, switch heads off",
      .description =
          "Opens a page on this machine, whose address it prints. Type a text there and see what every head does with "
          "it and what the model makes of it: the next token, the class or the embedding. Switch heads off one by one, "
          "by layer, by column or by role, or turn their gates between 0 and 2, and see what changes. Compare two "
          "texts, or two models of the same shape. The page needs nothing from the network. Unless --host says "
          "otherwise, only this machine can reach it; either way the random part of its address is needed.",
      .examples = {{"polyhead serve run", "a model that polyhead train made"},
                   {"polyhead serve smollm2 --port 8080", "a downloaded model, always at the same port"},
                   {"polyhead serve before --compare after", "two models of the same shape, side by side"}},
      .options =
          {{"MODEL", "",
            "a folder that polyhead train, prune or Hugging Face's libraries made, a .gguf file, or the name of a "
            "fetched model",
            &o->model},
           {"compare", "MODEL", "a second model with as many layers and heads, to be seen beside the first",
            &o->compare},
           {"port", "N", "the port; 0: any that is free", &o->port, {}, 0, 65535},
           {"host", "ADDRESS", "the address to listen on; warns unless it is loopback", &o->host},
           {"tokens", "N", "the longest text that is read, up to the model's context", &o->tokens, {}, 2, 100'000},
           o->on.device_option(),
           o->on.precision_option(),
           o->on.threads_option()},
      .run = [o] { run(*o); }};
}

}  // namespace polyhead::cli
