#include "cli/config_flags.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace pacer::cli {

void ConfigFlags::add_to(CLI::App& command) {
  command
      .add_option("--config", path,
                  "a TOML file with settings, such as max-model-len = 4096; flags and environment "
                  "variables win over it")
      ->type_name("FILE")
      ->configurable(false);
  command
      .add_flag("--print-config", print,
                "print every setting, where it comes from, and nothing else")
      ->configurable(false);
  const std::string variable = option_variable(command, *command.get_option("--max-model-len"));
  command.footer("Every setting may also come from the environment, --max-model-len as\n" +
                 variable +
                 ", or from the file of --config, as max-model-len = 4096.\n"
                 "A flag wins over a variable, and a variable over the file. docs/options.md has "
                 "them all.");
}

Result<OptionLayers> ConfigFlags::apply(CLI::App& command) const {
  OptionLayers layers(command);
  std::string file = path;
  if (file.empty()) {
    // "PACER_SERVE_CONFIG": where the file is, for those who can only set variables.
    const std::string variable = option_variable(command, *command.get_option("--config"));
    if (const char* value = std::getenv(variable.c_str())) file = value;
  }
  TRY(layers.apply(file));
  if (print) {
    fmt::print("{}", layers.describe());
    std::fflush(stdout);
  }
  return layers;
}

bool has_config_flags(const CLI::App& command) {
  return command.get_option_no_throw("--config") != nullptr;
}

}  // namespace pacer::cli
