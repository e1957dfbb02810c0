// The flags of serve and run that say which model runs, and with what.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/loaded_model.h"

namespace pacer::cli {

// --chat-template FILE, for every command that makes chats.
void add_chat_template_flag(CLI::App& command, std::string* path);

// What CLI11 fills; into_options() checks what only we can check.
struct ModelFlags {
  ModelOptions options;
  std::string kv_cache_memory;
  std::string max_memory;

  void add_to(CLI::App& command);
  Result<ModelOptions> into_options() const;
};

}  // namespace pacer::cli
