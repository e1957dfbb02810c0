// --config and --print-config, for commands whose settings come in layers (option_layers.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "cli/option_layers.h"

namespace pacer::cli {

struct ConfigFlags {
  std::string path;
  bool print = false;

  // After the command's own options.
  void add_to(CLI::App& command);
  // The layers, applied. With --print-config it has printed them, and there is nothing more to do.
  Result<OptionLayers> apply(CLI::App& command) const;
};

// Whether the command has them.
bool has_config_flags(const CLI::App& command);

}  // namespace pacer::cli
