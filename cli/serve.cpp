#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <thread>

#include "cli/child.h"
#include "cli/device.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "exam/page.h"
#include "io/fetched.h"
#include "polyhead/error.h"
#include "serve/server.h"

namespace polyhead::cli {
namespace {

struct ServeOptions {
  std::string model, compare;
  std::string host = "127.0.0.1";
  std::int64_t port = 0, tokens = 2048;
  bool open = false;
  DeviceChoice on;
};

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1"; }

// Whoever names the port wants an address that stays. Where nothing can be kept it is another one every time.
std::string token_for(const ServeOptions& o) {
  if (o.port == 0) return {};
  try {
    return serve::kept_token(io::cache_folder() / "serve-key");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    say(fmt::format("The address will be another one next time: its key cannot be kept ({})\n", error.what()));
    return {};
  }
}

void open_in_browser(const std::string& address) {
  constexpr int kNoSuchProgram = 127;
  const int code = run_child({"xdg-open", address}, true);
  if (code == 0 || Signals::noted() != 0) return;
  say(code == kNoSuchProgram ? "No browser was opened: there is no program xdg-open. Open the address yourself.\n"
                             : "No browser was opened: xdg-open does not know one. Open the address yourself.\n");
}

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
  const std::string token = token_for(o);
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
  const serve::Server server(desk, {.host = o.host, .port = static_cast<std::uint16_t>(o.port), .token = token});
  say(fmt::format("{}\nOpen this address in a browser; Ctrl-C ends the server.\n",
                  exam::in_a_sentence(observer.model())));
  fmt::print("{}\n", server.address());
  std::fflush(stdout);
  std::jthread browser;
  if (o.open) browser = std::jthread([&] { open_in_browser(server.address()); });
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
          "by layer, by column or by role, or turn their gates between 0 and 2, and see what changes in the others. "
          "Let "
          "a language model go on, token by token. Compare two texts, two models of the same shape, or a model and "
          "what prune has left of it. Save what you see as a page, a drawing or an animation. The page needs nothing "
          "from the network. Unless --host says otherwise, only this machine can reach it; either way the random part "
          "of its address is needed.",
      .examples = {{"polyhead serve run", "a model that polyhead train made"},
                   {"polyhead serve smollm2 --port 8080", "a downloaded model, always at the same address"},
                   {"polyhead serve smollm2 --open", "and open it in your browser"},
                   {"polyhead serve before --compare after", "two models of the same shape, side by side"}},
      .options =
          {{"MODEL", "",
            "a folder that polyhead train, prune or Hugging Face's libraries made, a .gguf file, or the name of a "
            "fetched model",
            &o->model},
           {"compare", "MODEL",
            "a second model, to be seen beside the first: with as many layers and heads, or one of the two is what "
            "prune left of the other",
            &o->compare},
           {"port",
            "N",
            "the port, at which the address is always the same; 0: any that is free",
            &o->port,
            {},
            0,
            65535},
           {"open", "", "open the address in your browser", &o->open},
           {"host", "ADDRESS", "the address to listen on; warns unless it is loopback", &o->host},
           {"tokens", "N", "the longest text that is read, up to the model's context", &o->tokens, {}, 2, 100'000},
           o->on.device_option(),
           o->on.precision_option(),
           o->on.threads_option()},
      .run = [o] { run(*o); }};
}

}  // namespace polyhead::cli
