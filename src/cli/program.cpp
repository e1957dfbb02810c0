#include "cli/program.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/log.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/config_flags.h"
#include "cli/option_layers.h"

namespace pacer::cli {

namespace {

constexpr auto kFlushPatience = std::chrono::milliseconds(500);

bool has_own_layers(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    if (has_config_flags(*command)) return true;
  }
  return false;
}

// PACER_LOG_LEVEL for the commands that read no other variable; the others read it themselves.
void start_log(CLI::App& app, const ProgramFlags& flags) {
  if (!has_own_layers(app)) {
    const Status status = OptionLayers(app).apply("");
    if (!status) throw CLI::ValidationError(status.error().message);
  }
  log::init({.level = flags.log_level,
             .format = flags.log_format == "json" ? log::Format::kJson : log::Format::kText});
}

}  // namespace

void declare_program(CLI::App& app, ProgramFlags* flags, int* exit_code) {
  app.set_version_flag("--version", std::string("pacer ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--log-level", flags->log_level, "debug, info, warn, error or off")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  app.add_option("--log-format", flags->log_format, "text, or json: one object a line")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT")
      ->capture_default_str();
  app.parse_complete_callback([&app, flags] { start_log(app, *flags); });
  add_serve(app, exit_code);
  add_run(app, exit_code);
  add_inspect(app, exit_code);
  add_pull(app, exit_code);
  add_eval(app, exit_code);
  add_tokenize(app, exit_code);
  add_template(app, exit_code);
  add_options(app, exit_code);
}

int run_program(int argc, char** argv) {
  CLI::App app{"Serve language models from ordinary CPUs, within the latency that people feel."};
  ProgramFlags flags;
  int exit_code = EXIT_SUCCESS;
  declare_program(app, &flags, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    // No memory, no more threads: the machine refuses.
    log::error("cannot go on: {}", error.what());
    exit_code = EXIT_FAILURE;
  }
  // The thread of a log that nobody reads could not be joined.
  if (!log::flush(kFlushPatience)) end_process(exit_code);
  return exit_code;
}

void end_process(int exit_code) {
  std::fflush(stdout);
  log::flush(kFlushPatience);
  std::_Exit(exit_code);
}

}  // namespace pacer::cli
