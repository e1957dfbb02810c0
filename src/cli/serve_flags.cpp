#include "cli/serve_flags.h"

#include <algorithm>
#include <utility>

#include "base/human.h"
#include "cli/api_key_file.h"
#include "cli/byte_size.h"
#include "sys/memory.h"

namespace pacer::cli {

namespace {

void add_model_flags(CLI::App& command, ModelFlags& model) {
  ModelOptions& options = model.options;
  command
      .add_option("--served-model-name", options.served_name,
                  "what clients call the model (default: the file's name without .gguf)")
      ->type_name("NAME");
  command.add_option("--policy", options.policy, "who runs next: fcfs")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--max-num-seqs", options.max_num_seqs, "requests that run at once")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  command
      .add_option("--max-queue", options.max_queue,
                  "requests that may wait beyond those; more are answered 429")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  command
      .add_option(
          "--max-num-batched-tokens", options.step_tokens_max,
          "tokens that one step may run: larger is more throughput, smaller is smoother streams")
      ->check(CLI::Range(1u, 1u << 16))
      ->capture_default_str();
}

// A quarter of a gibibyte, less where the machine is small; always room for one body.
Result<size_t> body_memory(const std::string& asked, size_t max_body_bytes) {
  constexpr uint64_t kDefault = uint64_t{256} << 20;
  if (asked.empty()) {
    return std::max<uint64_t>(std::min(kDefault, sys::memory_limits().available_bytes / 16),
                              max_body_bytes);
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, parse_byte_size(asked));
  if (bytes < max_body_bytes) {
    return error(Code::kInvalidArgument, "--max-body-memory {} is less than one body of {}", asked,
                 human_bytes(max_body_bytes));
  }
  return bytes;
}

Result<api::ApiKeys> read_keys(std::vector<std::string> keys, const std::string& file) {
  if (!file.empty()) {
    ASSIGN_OR_RETURN(const auto more, read_api_key_file(file));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return api::ApiKeys::from(keys);
}

// What cannot be meant together.
Status check_listeners(const ServeFlags& flags, bool tcp, const OptionLayers& layers) {
  if (flags.tls_certificate_file.empty() != flags.tls_key_file.empty()) {
    return error(Code::kInvalidArgument,
                 "TLS needs both --ssl-certfile and --ssl-keyfile; only {} is given",
                 flags.tls_key_file.empty() ? "--ssl-certfile" : "--ssl-keyfile");
  }
  if (!flags.tls_key_file.empty() && !tcp) {
    return error(Code::kInvalidArgument,
                 "--ssl-certfile is for --host and --port, and only --unix-socket listens");
  }
  if (layers.is_given("admin-host") && !flags.admin_port) {
    return error(Code::kInvalidArgument, "--admin-host needs --admin-port");
  }
  if (tcp && flags.admin_port && *flags.admin_port != 0 && *flags.admin_port == flags.port) {
    return error(Code::kInvalidArgument, "--admin-port and --port are both {}", flags.port);
  }
  return Ok{};
}

}  // namespace

void ServeFlags::add_to(CLI::App& command) {
  model.add_to(command);
  add_model_flags(command, model);
  command.add_option("--host", host, "address or name to listen on")
      ->type_name("HOST")
      ->capture_default_str();
  command.add_option("--port", port, "port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      .add_option("--unix-socket,--uds", unix_socket,
                  "listen on this path; beside it on TCP only where --host or --port is given too")
      ->type_name("PATH");
  command
      .add_option("--ssl-certfile,--ssl-cert-file", tls_certificate_file,
                  "certificate (PEM, the chain after it): host and port then speak TLS")
      ->type_name("FILE");
  command.add_option("--ssl-keyfile,--ssl-key-file", tls_key_file, "its private key (PEM)")
      ->type_name("FILE");
  command
      .add_option("--allowed-origins", allowed_origins,
                  "web pages that may read answers (CORS), as https://app.example, or *; may be "
                  "given several times")
      ->type_name("ORIGIN")
      ->allow_extra_args(false);
  command
      .add_option("--api-key", api_keys,
                  "a key that clients must send, as 'Authorization: Bearer KEY'; may be given "
                  "several times. Other users see it in the list of processes: --api-key-file "
                  "does not show it")
      ->type_name(kSecret)
      ->allow_extra_args(false);
  command
      .add_option("--api-key-file", api_key_file,
                  "a file with such keys, one a line; lines that begin with # are skipped")
      ->type_name(kSecretFile);
  command
      .add_option("--admin-port", admin_port,
                  "serve /health, /ready, /metrics and /version here too, without keys, and "
                  "/metrics only here; 0: any free port")
      ->check(CLI::Range(0, 65535));
  command.add_option("--admin-host", admin_host, "address or name of --admin-port")
      ->type_name("HOST")
      ->capture_default_str();
  command
      .add_option("--max-body-memory", max_body_memory,
                  "what the bodies of all requests together may take; one more is answered 503 "
                  "(default: 256MiB, at most a sixteenth of the free memory)")
      ->type_name("SIZE");
  command
      .add_option("--shutdown-timeout", shutdown_timeout_s,
                  "seconds that requests in flight get after SIGTERM")
      ->check(CLI::Range(0u, 86400u))
      ->capture_default_str();
  config.add_to(command);
}

Result<ServeOptions> ServeFlags::into_options(const OptionLayers& layers) const {
  ServeOptions options;
  // A socket alone is what whoever names one means; who wants both names both.
  const bool tcp = unix_socket.empty() || layers.is_given("host") || layers.is_given("port");
  TRY(check_listeners(*this, tcp, layers));
  ASSIGN_OR_RETURN(options.keys, read_keys(api_keys, api_key_file));

  options.server.host = host;
  options.server.port = port;
  options.server.tcp = tcp;
  options.server.unix_socket = unix_socket;
  options.server.tls_certificate_file = tls_certificate_file;
  options.server.tls_key_file = tls_key_file;
  options.server.allowed_origins = allowed_origins;
  ASSIGN_OR_RETURN(options.server.max_body_bytes_total,
                   body_memory(max_body_memory, options.server.max_body_bytes));
  if (admin_port) {
    options.admin.emplace();
    options.admin->host = admin_host;
    options.admin->port = *admin_port;
    options.admin->io_threads = 1;
    // Nothing that it serves has a body.
    options.admin->max_body_bytes = options.admin->max_body_bytes_total = 64u << 10;
    options.admin->max_connections = 64;
  }
  ASSIGN_OR_RETURN(options.model, model.into_options());
  options.model.bodies_bytes = options.server.max_body_bytes_total;
  options.shutdown_timeout = std::chrono::seconds(shutdown_timeout_s);
  return options;
}

}  // namespace pacer::cli
