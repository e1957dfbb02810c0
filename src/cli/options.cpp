// pacer options: every option of every command as Markdown. docs/options.md is what it prints, and
// a test fails when it is not.
#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/config_flags.h"
#include "cli/option_layers.h"

namespace pacer::cli {

namespace {

constexpr char kOpening[] =
    R"(# Options

Written by `pacer options`; change the declarations in `src/cli/` instead of this file.

`pacer serve` and `pacer run` take each setting from the first of these that has it:

1. the flag, `--max-model-len 4096`;
2. the environment variable, `PACER_SERVE_MAX_MODEL_LEN=4096` (of `run`: `PACER_RUN_...`; an empty
   one is as none, but an empty secret is refused);
3. the TOML file of `--config` or `PACER_SERVE_CONFIG`, `max-model-len = 4096`: the flag without its
   dashes. A key that does not exist, or a value of another type, stops the start with its line;
4. the default.

A list is a flag given several times, a variable with commas, or an array in the file:
`api-key = ["a", "b"]`. A switch is `true` or `false`. `--print-config` prints what holds and where
it comes from; secrets are not shown. Of the other commands only `PACER_LOG_LEVEL` and
`PACER_LOG_FORMAT` are read.
)";

// In a cell of a table.
std::string cell(std::string text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string names_of(const CLI::Option& option) {
  std::string names;
  const auto add = [&](const std::string& name) {
    names += (names.empty() ? "`" : ", `") + name + "`";
  };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) add("--" + name);
  if (names.empty()) add(option.get_name());
  return names;
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] -= 'a' - 'A';
  return text;
}

// "UINT:INT in [0 - 65535]" as "0 to 65535", where a check says more than the type.
std::string values_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  if (colon == std::string::npos) return type == "UINT" || type == "INT" ? "number" : type;
  std::string check = type.substr(colon + 1);
  if (const size_t open = check.find('['); open != std::string::npos) {
    check = check.substr(open + 1, check.find(']') - open - 1);
    if (const size_t dash = check.find(" - "); dash != std::string::npos) {
      check.replace(dash, 3, " to ");
    }
  } else if (check.starts_with('{')) {
    check = check.substr(1, check.find('}') - 1);
    for (size_t at = 0; (at = check.find(',', at)) != std::string::npos; at += 2) {
      check.replace(at, 1, ", ");
    }
  }
  return check;
}

std::string table_of(const CLI::App& command, bool with_variables) {
  std::string out = with_variables ? "\n| option | value | default | variable | what |\n"
                                     "|---|---|---|---|---|\n"
                                   : "\n| option | value | default | what |\n|---|---|---|---|\n";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_name() == "--help" || option->get_name() == "--version") continue;
    const std::string fallback = option->get_default_str();
    out += fmt::format("| {} | {} | {} | ", cell(names_of(*option)), cell(values_of(*option)),
                       fallback.empty() ? "" : "`" + cell(fallback) + "`");
    if (with_variables) {
      const bool set = option->get_configurable() || option->get_name() == "--config";
      out += set ? "`" + option_variable(command, *option) + "` | " : " | ";
    }
    out += cell(option->get_description()) + " |\n";
  }
  return out;
}

}  // namespace

std::string options_markdown(CLI::App& app) {
  std::string out = kOpening;
  out += "\n## Every command\n" + table_of(app, true);
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_options().size() <= 1) continue;  // --help
    out += fmt::format("\n## pacer {}\n\n{}.\n", command->get_name(),
                       sentence(command->get_description()));
    out += table_of(*command, has_config_flags(*command));
  }
  return out;
}

void add_options(CLI::App& app, int*) {
  app.add_subcommand("options", "print every option as Markdown")->callback([&app] {
    fmt::print("{}", options_markdown(app));
    std::fflush(stdout);
  });
}

}  // namespace pacer::cli
