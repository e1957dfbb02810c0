// pacer serve: the online API.
//
// Threads: the I/O threads of http::Server (HTTP, JSON, templates, tokenising), one engine thread
// (EngineThread), and the workers of its pool. This thread only starts them, waits for a signal,
// and drains.
//
// The order of a start is what an orchestrator wants: the addresses are taken first (one that is in
// use is said at once), then the model is loaded while /health says alive and /ready says loading,
// then the router is exchanged for the one that serves.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "api/context.h"
#include "api/error_format.h"
#include "api/routes.h"
#include "base/human.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/engine_thread.h"
#include "cli/loading.h"
#include "cli/program.h"
#include "cli/pull_progress.h"
#include "cli/serve_flags.h"
#include "http/server.h"
#include "sys/cpu_features.h"

namespace pacer::cli {

namespace {

// SIGTERM and SIGINT, counted: the first drains, the second ends now.
std::atomic<int> g_signals{0};
static_assert(std::atomic<int>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void count_signal(int) {
  g_signals.fetch_add(1);
}

void catch_signals() {
  std::signal(SIGTERM, count_signal);
  std::signal(SIGINT, count_signal);
  std::signal(SIGPIPE, SIG_IGN);  // a log whose reader left must not take the server with it
}

// Polling keeps the handler to one atomic; nobody notices 20 ms at shutdown.
template <class Done>
void wait_until(Done&& done) {
  while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// Everything that runs, in the order in which it may be taken down: servers first.
struct Serving {
  std::unique_ptr<api::ApiContext> api;
  std::unique_ptr<LoadedModel> loaded;  // its engine may still end requests that know the context
  std::unique_ptr<EngineThread> thread;
  std::unique_ptr<http::Server> admin;
  std::unique_ptr<http::Server> server;

  void set_routers(const ServeOptions& options);
};

api::Door public_door(const ServeOptions& options) {
  return options.admin ? api::Door::kPublicWithoutMetrics : api::Door::kPublic;
}

void log_limits(const ModelOptions& options, const LoadedModel& loaded) {
  const uint64_t bytes = uint64_t{loaded.kv_blocks} * loaded.model->kv_shape().block_bytes();
  log::info(
      "KV cache: {} for {} tokens; up to {} tokens a request, {} requests at once, {} waiting",
      human_bytes(bytes), loaded.kv_blocks * kv::kBlockTokens, loaded.engine->length_max(),
      options.max_num_seqs, options.max_queue);
}

std::string url(const http::ServerOptions& options, const http::Server& server,
                const std::string& host) {
  const bool ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return fmt::format("http{}://{}{}{}:{}", options.tls_key_file.empty() ? "" : "s", ipv6 ? "[" : "",
                     host, ipv6 ? "]" : "", server.port());
}

// As a person on this machine would write it.
std::string base_url(const http::ServerOptions& options, const http::Server& server) {
  if (!options.tcp) return "http://localhost";  // behind curl --unix-socket
  const bool any = options.host == "0.0.0.0" || options.host == "::";
  return url(options, server, any ? "127.0.0.1" : options.host);
}

// What is really listened on: "http://0.0.0.0:8000 and unix socket /run/pacer.sock"
std::string addresses(const http::ServerOptions& options, const http::Server& server) {
  const std::string socket = "unix socket " + options.unix_socket;
  if (!options.tcp) return socket;
  return url(options, server, options.host) + (options.unix_socket.empty() ? "" : " and " + socket);
}

void print_welcome(const ServeOptions& options, const Serving& serving) {
  const std::string where = addresses(options.server, *serving.server);
  const std::string here = base_url(options.server, *serving.server);
  log::info("serving {} on {}", serving.loaded->name, where);
  fmt::print(
      "\nPacer serves {} at {}\n\nTry it:\n\n"
      "  curl -N {}{}/v1/chat/completions -H 'Content-Type: application/json' \\\n{}"
      "    -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hello, who are "
      "you?\"}}],\"stream\":true}}'\n\n"
      "Ctrl-C stops it.\n",
      serving.loaded->name, options.server.tcp ? here : where,
      options.server.tcp ? "" : "--unix-socket " + options.server.unix_socket + " ", here,
      options.keys.empty() ? "" : "    -H \"Authorization: Bearer $API_KEY\" \\\n");
  std::fflush(stdout);
}

// The address being in use is the one failure here that a flag mends.
Result<std::unique_ptr<http::Server>> listen(const http::ServerOptions& options,
                                             http::Router router, const char* flag) {
  auto server = http::Server::start(options, std::move(router), api::format_http_error);
  const bool mendable = !server && server.error().code == Code::kExhausted;
  if (!mendable) return server;
  return error(Code::kExhausted, "{}; {} takes another", server.error().message, flag);
}

Status start_listening(const ServeOptions& options, Serving& serving) {
  ASSIGN_OR_RETURN(serving.server,
                   listen(options.server,
                          api::make_loading_router(options.keys, public_door(options)), "--port"));
  if (options.admin) {
    ASSIGN_OR_RETURN(
        serving.admin,
        listen(*options.admin, api::make_loading_router({}, api::Door::kAdmin), "--admin-port"));
    log::info("health and metrics on {}", addresses(*options.admin, *serving.admin));
  }
  log::info("listening on {}; the model is loaded first",
            addresses(options.server, *serving.server));
  if (options.keys.empty() && options.server.tcp && options.server.host != "127.0.0.1" &&
      options.server.host != "localhost" && options.server.host != "::1") {
    log::warn("whoever reaches {} may use this server; --api-key-file asks for keys",
              addresses(options.server, *serving.server));
  }
  return Ok{};
}

void Serving::set_routers(const ServeOptions& options) {
  server->set_router(api::make_router(*api, public_door(options)));
  if (admin) admin->set_router(api::make_router(*api, api::Door::kAdmin));
}

std::unique_ptr<api::ApiContext> make_context(LoadedModel& loaded, const ServeOptions& options) {
  const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
  return std::unique_ptr<api::ApiContext>(new api::ApiContext{
      .engine = *loaded.engine,
      .tokenizer = *loaded.tokenizer,
      .chat_template = *loaded.chat_template,
      .metrics = *loaded.metrics,
      .clock = loaded.clock,
      .model_name = loaded.name,
      .version = kVersion,
      .keys = options.keys,
      .started_unix_s = std::chrono::duration_cast<std::chrono::seconds>(unix_time).count(),
      .started = loaded.clock.now(),
      .token_bytes_max = api::longest_token_bytes(*loaded.tokenizer)});
}

// False: a signal came first. Then nothing is left to do but to end the process, since loading
// cannot be interrupted and nobody waits for it.
Result<bool> load(const ServeOptions& options, Serving& serving) {
  Loading loading(options.model);
  wait_until([&] { return loading.done() || g_signals.load() > 0; });
  if (!loading.done()) {
    log::info("stopped while the model was loaded");
    serving.server->stop();
    if (serving.admin) serving.admin->stop();
    end_process(EXIT_SUCCESS);
  }
  auto loaded = loading.take();
  // A download takes signals for itself, and need not have looked at them before it was done.
  if (PullProgress::interrupted()) {
    log::info("stopped while the model was fetched");
    return false;
  }
  if (!loaded) return loaded.error();
  serving.loaded = *std::move(loaded);
  return true;
}

// Requests in flight go on for up to the timeout; then, or on a second signal, they end with an
// error event. Health and metrics are answered until the end.
void drain(Serving& serving, std::chrono::seconds timeout) {
  engine::Engine& engine = *serving.loaded->engine;
  const Clock& clock = serving.loaded->clock;
  http::Server& server = *serving.server;
  serving.api->draining.store(true);
  engine.stop_admitting();
  log::info("draining: {} requests in flight, up to {} s; a second signal ends them now",
            engine.in_flight(), timeout.count());
  const TimePoint end = clock.now() + timeout;
  wait_until([&] { return engine.in_flight() == 0 || clock.now() >= end || g_signals.load() > 1; });
  server.stop_accepting();
  serving.thread->stop();
  if (engine.in_flight() > 0) {
    log::warn("ending {} requests that did not finish", engine.in_flight());
  }
  // Also when nothing seems in flight: a submit() may have been between its count and its push.
  engine.fail_all(error(Code::kUnavailable, "the server shut down before the answer was complete"));
  // Last bytes on their way to clients.
  const TimePoint flushed = clock.now() + std::chrono::seconds(2);
  wait_until([&] {
    return server.open_request_count() == 0 || clock.now() >= flushed || g_signals.load() > 1;
  });
  server.stop();
  if (serving.admin) serving.admin->stop();
  // With the I/O threads gone nothing can be submitted any more.
  engine.fail_all(error(Code::kUnavailable, "the server shut down"));
  serving.api->io.attach(nullptr);
}

Status serve(const ServeOptions& options) {
  catch_signals();
  sys::cpu_features();  // before any other thread exists: the AMX permission is per process
  Serving serving;
  TRY(start_listening(options, serving));
  ASSIGN_OR_RETURN(const bool loaded, load(options, serving));
  if (!loaded) return Ok{};
  serving.api = make_context(*serving.loaded, options);
  serving.thread = std::make_unique<EngineThread>(*serving.loaded->engine);
  serving.api->io.attach(serving.server.get());
  serving.set_routers(options);
  log_limits(options.model, *serving.loaded);
  print_welcome(options, serving);

  wait_until([] { return g_signals.load() > 0; });
  drain(serving, options.shutdown_timeout);
  log::info("stopped");
  return Ok{};
}

Status configure_and_serve(const ServeFlags& flags, CLI::App& command) {
  ASSIGN_OR_RETURN(const OptionLayers layers, flags.config.apply(command));
  if (flags.config.print) return Ok{};
  const bool json = layers.value("log-format") == "json";
  log::init({.level = layers.value("log-level"),
             .format = json ? log::Format::kJson : log::Format::kText,
             .asynchronous = true});
  layers.warn_of_unknown_variables();
  ASSIGN_OR_RETURN(const ServeOptions options, flags.into_options(layers));
  return serve(options);
}

}  // namespace

void add_serve(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command =
      app.add_subcommand("serve", "serve a model over an OpenAI-compatible HTTP API");
  flags->add_to(*command);
  command->callback([flags, command, exit_code] {
    if (const Status status = configure_and_serve(*flags, *command); !status) {
      log::error("{}", status.error().message);
      *exit_code = EXIT_FAILURE;
    }
  });
}

}  // namespace pacer::cli
