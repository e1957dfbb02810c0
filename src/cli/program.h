// The program as a whole: its subcommands, and how it ends.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace pacer::cli {

// What every command has.
struct ProgramFlags {
  std::string log_level = "info";
  std::string log_format = "text";
};

// All flags of all commands. Both arguments outlive the parsing.
void declare_program(CLI::App& app, ProgramFlags* flags, int* exit_code);

int run_program(int argc, char** argv);

// When the log is written, or cannot be because nobody reads stderr: ends the process here and now,
// without waiting for other threads.
[[noreturn]] void end_process(int exit_code);

}  // namespace pacer::cli
