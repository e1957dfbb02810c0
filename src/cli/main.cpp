// pacer: one program for serving, running and inspecting language models on CPUs.
#include <cstdlib>
#include <exception>

#include "base/log.h"
#include "base/version.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Serve language models from ordinary CPUs, within the latency that people feel."};
  app.set_version_flag("--version", std::string("pacer ") + pacer::kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  std::string log_level = "info";
  app.add_option("--log-level", log_level, "debug, info, warn, error or off")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  app.parse_complete_callback([&] { pacer::log::init({.level = log_level}); });

  int exit_code = EXIT_SUCCESS;
  pacer::cli::add_serve(app, &exit_code);
  pacer::cli::add_run(app, &exit_code);
  pacer::cli::add_inspect(app, &exit_code);
  pacer::cli::add_pull(app, &exit_code);
  pacer::cli::add_eval(app, &exit_code);
  pacer::cli::add_tokenize(app, &exit_code);
  pacer::cli::add_template(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    // No memory, no more threads: the machine refuses.
    pacer::log::error("cannot go on: {}", error.what());
    return EXIT_FAILURE;
  }
  return exit_code;
}
