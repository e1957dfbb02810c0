// One source for every setting: a flag, an environment variable, a line of a file, or the default,
// in this order.
//
// An option is declared once, on its CLI::App, with its sentence. From that come `--help`, its key
// in the file (the flag without its dashes: `max-queue = 64`), its variable
// (PACER_SERVE_MAX_QUEUE),
// `--print-config` and docs/options.md. A command calls apply() when its flags have been parsed;
// whatever was not given there is then filled in from the other layers, through the same checks.
//
// A list is a flag that is given several times, a variable with commas, an array in the file. A
// type name of kSecret marks what is never shown.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pacer::cli {

inline constexpr char kSecret[] = "SECRET";
// A file with secrets. Like a secret itself it is refused where it is named and empty.
inline constexpr char kSecretFile[] = "SECRETFILE";

// What an option is called in the file, "max-queue", and in the environment.
std::string option_key(const CLI::Option& option);
std::string option_variable(const CLI::App& command, const CLI::Option& option);

// Options that have a key: not --help and the like, which say what to do and not how, and not
// positional arguments.
std::vector<CLI::Option*> settings_of(CLI::App& command);

class OptionLayers {
 public:
  enum class Origin : uint8_t { kDefault, kFile, kVariable, kFlag };

  // The options of the command and of the program above it.
  explicit OptionLayers(CLI::App& command);

  // config_path: empty for none. The first thing that is wrong is the Error, in one sentence with
  // its place and its name.
  Status apply(const std::string& config_path);

  Origin origin(std::string_view key) const;
  // Of a setting that has one value.
  std::string value(std::string_view key) const;
  bool is_given(std::string_view key) const { return origin(key) != Origin::kDefault; }

  // Once the log is as its own settings say.
  void warn_of_unknown_variables() const;

  // Every setting as a line that the file could have, with where it came from.
  std::string describe() const;

 private:
  struct Setting {
    CLI::Option* option;
    std::string variable;
    Origin origin = Origin::kDefault;
    std::string place{};  // "pacer.toml: line 3", "environment variable PACER_SERVE_PORT"
  };

  Status apply_file(const std::string& path);
  Status apply_variables();
  Status set(Setting& setting, Origin origin, std::string place, std::vector<std::string> values);
  std::string value_text(const Setting& setting) const;

  std::string prefix_;  // of variables: "PACER_SERVE_"
  std::vector<std::string> order_;
  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace pacer::cli
