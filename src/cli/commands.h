// The subcommands of `pacer`: each declares its flags on its own CLI::App, one file each.
#pragma once

#include <CLI/CLI.hpp>

namespace pacer::cli {

// Adds the subcommand to `app`. When it was given, its callback runs it and stores the exit code.
void add_serve(CLI::App& app, int* exit_code);
void add_run(CLI::App& app, int* exit_code);
void add_inspect(CLI::App& app, int* exit_code);
void add_pull(CLI::App& app, int* exit_code);
void add_eval(CLI::App& app, int* exit_code);
void add_tokenize(CLI::App& app, int* exit_code);
void add_template(CLI::App& app, int* exit_code);
void add_options(CLI::App& app, int* exit_code);

}  // namespace pacer::cli
