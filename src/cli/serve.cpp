// pacer serve: the online API.
//
// Threads: the I/O threads of http::Server (HTTP, JSON, templates, tokenising), one engine thread
// (EngineThread), and the workers of its pool. This thread only starts them, waits for a signal,
// and drains.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "api/context.h"
#include "api/error_format.h"
#include "api/routes.h"
#include "base/human.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/engine_thread.h"
#include "cli/model_flags.h"
#include "http/server.h"

namespace pacer::cli {

namespace {

struct ServeFlags {
  ModelFlags model;
  http::ServerOptions server;
  uint32_t shutdown_timeout_s = 30;
};

// SIGTERM and SIGINT, counted: the first drains, the second ends now.
std::atomic<int> g_signals{0};
static_assert(std::atomic<int>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void count_signal(int) {
  g_signals.fetch_add(1);
}

// Polling keeps the handler to one atomic; nobody notices 20 ms at shutdown.
template <class Done>
void wait_until(Done&& done) {
  while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void log_limits(const ModelOptions& options, const LoadedModel& loaded) {
  const uint64_t bytes = uint64_t{loaded.kv_blocks} * loaded.model->kv_shape().block_bytes();
  log::info(
      "KV cache: {} for {} tokens; up to {} tokens a request, {} requests at once, {} waiting",
      human_bytes(bytes), loaded.kv_blocks * kv::kBlockTokens, loaded.engine->length_max(),
      options.max_num_seqs, options.max_queue);
}

// As a person on this machine would write it.
std::string base_url(const std::string& host, uint16_t port) {
  if (host == "0.0.0.0" || host == "::") return fmt::format("http://127.0.0.1:{}", port);
  const bool ipv6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
}

void print_welcome(const std::string& url, const LoadedModel& loaded) {
  log::info("serving {} on {}", loaded.name, url);
  fmt::print(
      "\nPacer serves {} at {}\n\nTry it:\n\n"
      "  curl -N {}/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hello, who are "
      "you?\"}}],\"stream\":true}}'\n\n"
      "Ctrl-C stops it.\n",
      loaded.name, url, url);
  std::fflush(stdout);
}

// The address being in use is the one failure here that a flag mends.
Result<std::unique_ptr<http::Server>> start_server(const http::ServerOptions& options,
                                                   api::ApiContext& api) {
  auto server = http::Server::start(options, api::make_router(api), api::format_http_error);
  if (server || server.error().code != Code::kIo) return server;
  return error(Code::kIo, "{}; --port takes another", server.error().message);
}

// Requests in flight go on for up to the timeout; then, or on a second signal, they end with an
// error event.
void drain(api::ApiContext& api, LoadedModel& loaded, http::Server& server, EngineThread& thread,
           uint32_t timeout_s) {
  api.draining.store(true);
  loaded.engine->stop_admitting();
  log::info("draining: {} requests in flight, up to {} s; a second signal ends them now",
            loaded.engine->in_flight(), timeout_s);
  const TimePoint end = loaded.clock.now() + std::chrono::seconds(timeout_s);
  wait_until([&] {
    return loaded.engine->in_flight() == 0 || loaded.clock.now() >= end || g_signals.load() > 1;
  });
  server.stop_accepting();
  thread.stop();
  if (loaded.engine->in_flight() > 0) {
    log::warn("ending {} requests that did not finish", loaded.engine->in_flight());
  }
  // Also when nothing seems in flight: a submit() may have been between its count and its push.
  loaded.engine->fail_all(
      error(Code::kUnavailable, "the server shut down before the answer was complete"));
  // Last bytes on their way to clients.
  const TimePoint flushed = loaded.clock.now() + std::chrono::seconds(2);
  wait_until([&] { return server.open_request_count() == 0 || loaded.clock.now() >= flushed; });
  server.stop();
  // With the I/O threads gone nothing can be submitted any more.
  loaded.engine->fail_all(error(Code::kUnavailable, "the server shut down"));
}

Status serve(const ServeFlags& flags) {
  ASSIGN_OR_RETURN(const ModelOptions options, flags.model.into_options());
  std::signal(SIGTERM, count_signal);
  std::signal(SIGINT, count_signal);
  std::signal(SIGPIPE, SIG_IGN);  // a log whose reader left must not take the server with it
  ASSIGN_OR_RETURN(const auto loaded, load_model(options));

  const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
  api::ApiContext api{
      .engine = *loaded->engine,
      .tokenizer = *loaded->tokenizer,
      .chat_template = *loaded->chat_template,
      .metrics = *loaded->metrics,
      .clock = loaded->clock,
      .model_name = loaded->name,
      .version = kVersion,
      .started_unix_s = std::chrono::duration_cast<std::chrono::seconds>(unix_time).count(),
      .started = loaded->clock.now(),
      .token_bytes_max = api::longest_token_bytes(*loaded->tokenizer)};
  EngineThread thread(*loaded->engine);
  ASSIGN_OR_RETURN(const auto server, start_server(flags.server, api));
  api.io.attach(server.get());
  log_limits(options, *loaded);
  print_welcome(base_url(flags.server.host, server->port()), *loaded);

  wait_until([] { return g_signals.load() > 0; });
  drain(api, *loaded, *server, thread, flags.shutdown_timeout_s);
  api.io.attach(nullptr);
  log::info("stopped");
  return Ok{};
}

}  // namespace

void add_serve(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command =
      app.add_subcommand("serve", "serve a model over an OpenAI-compatible HTTP API");
  flags->model.add_to(*command);
  ModelOptions& options = flags->model.options;
  command->add_option("--host", flags->server.host, "address or name to listen on")
      ->capture_default_str();
  command->add_option("--port", flags->server.port, "port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--served-model-name", options.served_name,
                      "what clients call the model (default: the file's name without .gguf)");
  command->add_option("--policy", options.policy, "who runs next: fcfs")->capture_default_str();
  command->add_option("--max-num-seqs", options.max_num_seqs, "requests that run at once")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  command
      ->add_option("--max-queue", options.max_queue,
                   "requests that may wait beyond those; more are answered 429")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  command
      ->add_option(
          "--max-num-batched-tokens", options.step_tokens_max,
          "tokens that one step may run: larger is more throughput, smaller is smoother streams")
      ->check(CLI::Range(1u, 1u << 16))
      ->capture_default_str();
  command
      ->add_option("--shutdown-timeout", flags->shutdown_timeout_s,
                   "seconds that requests in flight get after SIGTERM")
      ->capture_default_str();
  command->callback([flags, exit_code] {
    if (const Status status = serve(*flags); !status) {
      log::error("{}", status.error().message);
      *exit_code = EXIT_FAILURE;
    }
  });
}

}  // namespace pacer::cli
