#include "cli/option_layers.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "cli/input_file.h"

extern char** environ;  // POSIX; read before there are other threads

namespace pacer::cli {

namespace {

constexpr uint64_t kFileBytesMax = 1 << 20;

enum class Kind : uint8_t { kSwitch, kWhole, kNumber, kSize, kText };

// "UINT:INT in [0 - 65535]" is the type and what its checks say.
std::string type_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

bool is_list(const CLI::Option& option) {
  return option.get_expected_max() > 1;
}

bool is_secret(const CLI::Option& option) {
  return type_of(option) == kSecret;
}

// What was meant to be there and is not must not leave a door open.
bool must_not_be_empty(const CLI::Option& option) {
  return is_secret(option) || type_of(option) == kSecretFile;
}

Kind kind_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return Kind::kSwitch;
  const std::string type = type_of(option);
  if (type == "INT" || type == "UINT") return Kind::kWhole;
  if (type == "FLOAT") return Kind::kNumber;
  return type == "SIZE" ? Kind::kSize : Kind::kText;
}

const char* wanted(const CLI::Option& option) {
  switch (kind_of(option)) {
    case Kind::kSwitch:
      return "true or false";
    case Kind::kWhole:
      return "a whole number";
    case Kind::kNumber:
      return "a number";
    case Kind::kSize:
      return "a size, a string such as \"2GiB\" or a number of bytes";
    case Kind::kText:
      break;
  }
  return is_list(option) ? "a string or a list of strings" : "a string";
}

// The one value as a flag would have it; nothing where its type is another.
std::optional<std::string> scalar(const toml::node& node, Kind kind) {
  if (const auto* value = node.as_boolean()) {
    if (kind == Kind::kSwitch) return value->get() ? "true" : "false";
  }
  if (const auto* value = node.as_integer()) {
    if (kind == Kind::kWhole || kind == Kind::kNumber || kind == Kind::kSize) {
      return std::to_string(value->get());
    }
  }
  if (const auto* value = node.as_floating_point()) {
    if (kind == Kind::kNumber) return fmt::format("{}", value->get());
  }
  if (const auto* value = node.as_string()) {
    if (kind == Kind::kText || kind == Kind::kSize) return value->get();
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> values_of(const toml::node& node,
                                                  const CLI::Option& option) {
  std::vector<std::string> values;
  const toml::array* list = node.as_array();
  if (list == nullptr || !is_list(option)) {
    auto value = scalar(node, kind_of(option));
    if (!value) return std::nullopt;
    values.push_back(*std::move(value));
    return values;
  }
  for (const toml::node& item : *list) {
    auto value = scalar(item, kind_of(option));
    if (!value) return std::nullopt;
    values.push_back(*std::move(value));
  }
  return values;
}

// "a, b" as the two values that it means.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    parts.emplace_back(part);
    if (comma == text.size()) return parts;
    text.remove_prefix(comma + 1);
  }
}

// So that nobody reads it in /proc/PID/environ, where a variable stays whatever unsetenv() does.
void wipe(char* value) {
  std::memset(value, '*', std::strlen(value));
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string variable_prefix(const CLI::App& command) {
  std::string prefix = "PACER_";
  if (command.get_parent() != nullptr) prefix += command.get_name() + "_";
  for (char& c : prefix) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return prefix;
}

}  // namespace

std::string option_key(const CLI::Option& option) {
  return option.get_lnames().front();
}

std::string option_variable(const CLI::App& command, const CLI::Option& option) {
  std::string name = variable_prefix(command);
  for (const char c : option_key(option)) {
    name += static_cast<char>(c == '-' ? '_' : c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

std::vector<CLI::Option*> settings_of(CLI::App& command) {
  std::vector<CLI::Option*> settings;
  for (CLI::Option* option : command.get_options()) {
    if (option->get_configurable() && !option->get_lnames().empty()) settings.push_back(option);
  }
  return settings;
}

OptionLayers::OptionLayers(CLI::App& command) : prefix_(variable_prefix(command)) {
  for (CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (CLI::Option* option : settings_of(*app)) {
      Setting setting{.option = option, .variable = option_variable(*app, *option)};
      if (option->count() > 0) {
        setting.origin = Origin::kFlag;
        setting.place = "--" + option_key(*option);
      }
      order_.push_back(option_key(*option));
      settings_.emplace(option_key(*option), std::move(setting));
    }
  }
}

Status OptionLayers::apply(const std::string& config_path) {
  for (const auto& [key, setting] : settings_) {
    if (setting.origin != Origin::kFlag || !must_not_be_empty(*setting.option)) continue;
    for (const std::string& value : setting.option->results()) {
      if (value.empty()) return error(Code::kInvalidArgument, "--{} is empty", key);
    }
  }
  TRY(apply_variables());
  return config_path.empty() ? Status(Ok{}) : apply_file(config_path);
}

Status OptionLayers::apply_variables() {
  for (const std::string& key : order_) {
    Setting& setting = settings_.find(key)->second;
    char* value = std::getenv(setting.variable.c_str());
    if (value == nullptr) continue;
    const bool secret = is_secret(*setting.option);
    const std::string text = value;
    if (secret) wipe(value);
    const std::string place = "environment variable " + setting.variable;
    if (text.empty()) {
      if (must_not_be_empty(*setting.option))
        return error(Code::kInvalidArgument, "{} is empty", place);
      continue;
    }
    if (setting.origin == Origin::kFlag) continue;
    if (kind_of(*setting.option) == Kind::kSwitch && text != "true" && text != "false" &&
        text != "1" && text != "0") {
      return error(Code::kInvalidArgument, "{}: '{}' is not true or false", place, text);
    }
    TRY(set(setting, Origin::kVariable, place,
            is_list(*setting.option) ? split(text) : std::vector{text}));
  }
  return Ok{};
}

// A warning and no refusal: Kubernetes sets PACER_SERVE_SERVICE_HOST where a service is called so.
void OptionLayers::warn_of_unknown_variables() const {
  if (prefix_ == "PACER_") return;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(prefix_) || name == prefix_ + "CONFIG") continue;
    const bool known = std::any_of(settings_.begin(), settings_.end(), [&](const auto& setting) {
      return setting.second.variable == name;
    });
    if (!known) log::warn("the environment variable {} is no setting of this command", name);
  }
}

Status OptionLayers::apply_file(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_input(path, kFileBytesMax));
  toml::table file;
  try {
    file = toml::parse(text, path);
  } catch (const toml::parse_error& failure) {
    return error(Code::kInvalidArgument, "{}: line {}: {}", path, failure.source().begin.line,
                 failure.description());
  }
  for (const auto& [key, node] : file) {
    const std::string place =
        fmt::format("{}: line {}", path, std::max(key.source().begin.line, 1u));
    const auto found = settings_.find(key.str());
    if (found == settings_.end()) {
      std::string dashed(key.str());
      std::replace(dashed.begin(), dashed.end(), '_', '-');
      return error(Code::kInvalidArgument, "{}: there is no setting '{}'{}", place, key.str(),
                   settings_.contains(dashed) ? fmt::format("; '{}' is one", dashed) : "");
    }
    Setting& setting = found->second;
    auto values = values_of(node, *setting.option);
    if (!values) {
      return error(Code::kInvalidArgument, "{}: '{}' must be {}", place, key.str(),
                   wanted(*setting.option));
    }
    const bool empty = values->empty() || (values->size() == 1 && values->front().empty());
    if (empty && must_not_be_empty(*setting.option)) {
      return error(Code::kInvalidArgument, "{}: '{}' is empty", place, key.str());
    }
    if (setting.origin != Origin::kDefault || values->empty()) continue;
    TRY(set(setting, Origin::kFile, place, *std::move(values)));
  }
  return Ok{};
}

// By the way that a flag goes too: the same checks, the same conversion, the same variable.
Status OptionLayers::set(Setting& setting, Origin origin, std::string place,
                         std::vector<std::string> values) {
  CLI::Option& option = *setting.option;
  const std::string shown =
      is_secret(option) ? "what it says" : "'" + fmt::format("{}", fmt::join(values, ",")) + "'";
  try {
    for (std::string& value : values) option.add_result(std::move(value));
    option.run_callback();
  } catch (const CLI::Error&) {
    const std::string type = option.get_type_name();
    const size_t colon = type.find(':');
    return error(Code::kInvalidArgument, "{}: {} is no value for '{}', which is {}", place, shown,
                 option_key(option),
                 colon == std::string::npos ? wanted(option) : type.substr(colon + 1));
  }
  setting.origin = origin;
  setting.place = std::move(place);
  return Ok{};
}

OptionLayers::Origin OptionLayers::origin(std::string_view key) const {
  const auto found = settings_.find(key);
  CHECK(found != settings_.end(), "there is no setting '{}'", key);
  return found->second.origin;
}

std::string OptionLayers::value(std::string_view key) const {
  const Setting& setting = settings_.find(key)->second;
  return setting.origin == Origin::kDefault ? setting.option->get_default_str()
                                            : setting.option->results().back();
}

std::string OptionLayers::value_text(const Setting& setting) const {
  const CLI::Option& option = *setting.option;
  const std::vector<std::string> values =
      setting.origin == Origin::kDefault ? std::vector{option.get_default_str()} : option.results();
  const Kind kind = kind_of(option);
  const bool plain = kind == Kind::kSwitch || kind == Kind::kWhole || kind == Kind::kNumber;
  std::vector<std::string> shown;
  for (const std::string& value : values) {
    shown.push_back(!plain                                  ? quoted(value)
                    : value == "1" && kind == Kind::kSwitch ? "true"
                                                            : value);
  }
  return is_list(option) ? fmt::format("[{}]", fmt::join(shown, ", ")) : shown.front();
}

std::string OptionLayers::describe() const {
  std::string out;
  for (const std::string& key : order_) {
    const Setting& setting = settings_.find(key)->second;
    const bool given = setting.origin != Origin::kDefault;
    if (!given && setting.option->get_default_str().empty()) {
      out += fmt::format("# {} is not set\n", key);
      continue;
    }
    const std::string line =
        is_secret(*setting.option)
            ? fmt::format("# {}: {} given, not shown", key, setting.option->results().size())
            : fmt::format("{} = {}", key, value_text(setting));
    out += fmt::format("{:<40} # {}\n", line, given ? setting.place : "default");
  }
  return out;
}

}  // namespace pacer::cli
