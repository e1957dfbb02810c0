// The settings of `pacer serve`, and what they mean together.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/auth.h"
#include "base/result.h"
#include "cli/config_flags.h"
#include "cli/model_flags.h"
#include "http/server.h"

namespace pacer::cli {

struct ServeOptions {
  ModelOptions model;
  http::ServerOptions server;
  std::optional<http::ServerOptions> admin;  // health, readiness and metrics on a port of their own
  api::ApiKeys keys;
  std::chrono::seconds shutdown_timeout{};
};

// What CLI11 and the other layers fill; into_options() checks what only we can check.
struct ServeFlags {
  ModelFlags model;
  ConfigFlags config;
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::string unix_socket;
  std::string tls_certificate_file;
  std::string tls_key_file;
  std::vector<std::string> allowed_origins;
  std::string admin_host = "127.0.0.1";
  std::optional<uint16_t> admin_port;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string max_body_memory;
  uint32_t shutdown_timeout_s = 30;

  void add_to(CLI::App& command);
  Result<ServeOptions> into_options(const OptionLayers& layers) const;
};

}  // namespace pacer::cli
