#include "cli/api_key_file.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/log.h"
#include "cli/input_file.h"

namespace pacer::cli {

namespace {

constexpr uint64_t kFileBytesMax = 1 << 20;

void warn_if_readable_by_all(const std::string& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (failed || (status.permissions() & std::filesystem::perms::others_read) ==
                    std::filesystem::perms::none) {
    return;
  }
  log::warn("every user of this machine can read the API keys in {}; chmod 600 ends that", path);
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
  return line.substr(0, line.find_last_not_of(kSpace) + 1);
}

}  // namespace

Result<std::vector<std::string>> read_api_key_file(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_input(path, kFileBytesMax));
  std::vector<std::string> keys;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view key = trimmed(line);
    if (!key.empty() && !key.starts_with('#')) keys.emplace_back(key);
  }
  if (keys.empty()) {
    return error(Code::kInvalidArgument, "{}: there is no API key in it", path);
  }
  warn_if_readable_by_all(path);
  return keys;
}

}  // namespace pacer::cli
