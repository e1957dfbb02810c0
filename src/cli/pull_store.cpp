#include "cli/pull_store.h"

#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/human.h"
#include "cli/pull_source.h"
#include "gguf/cursor.h"  // shown
#include "http/download_sha256.h"
#include "http/download_url.h"

namespace pacer::cli {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Status create_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return error(Code::kIo, "cannot create '{}': {}", folder.string(), failed.message());
  }
  return Ok{};
}

// Whole or not at all, as other processes see it.
Status write_small_file(const fs::path& path, const std::string& text) {
  const fs::path draft = path.string() + ".new";
  std::ofstream out(draft, std::ios::trunc);
  out << text;
  out.close();
  std::error_code failed;
  if (out) fs::rename(draft, path, failed);
  if (!out || failed) return error(Code::kIo, "cannot write '{}'", path.string());
  return Ok{};
}

}  // namespace

std::string ModelStore::default_folder() {
  if (const std::string models = environment("PACER_MODELS"); !models.empty()) return models;
  if (const std::string home = environment("PACER_HOME"); !home.empty()) return home + "/models";
  return environment("HOME") + "/.cache/pacer/models";
}

Result<http::FileLock> ModelStore::lock(PullProgress& progress) const {
  TRY(create_folder(folder_ / ".pull"));
  return http::FileLock::acquire(
      work_path("lock"),
      [&] { progress.say("another pull is writing into this folder; waiting for it"); },
      [&] { return progress.update(0, std::nullopt); });
}

fs::path ModelStore::manifest_path(const std::string& source) const {
  std::string readable;
  // Of an address without its query, where secrets are.
  for (const char c : http::shown_url(source).substr(0, 80)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '=';
    readable += plain ? c : '-';
  }
  // Two sources that read alike differ in their digest.
  return folder_ / ".pull" / (readable + "." + http::sha256_of(source).substr(0, 16));
}

std::optional<std::vector<std::string>> ModelStore::find(const std::string& source) const {
  std::ifstream in(manifest_path(source));
  std::vector<std::string> names;
  // "SHA256  NAME": another source may have put another file under the same name since.
  constexpr size_t kNameAt = 66;
  for (std::string line; std::getline(in, line);) {
    const auto sum = http::parse_sha256(std::string_view(line).substr(0, kNameAt - 2));
    if (!sum || line.size() <= kNameAt) return std::nullopt;
    const std::string name = line.substr(kNameAt);
    if (!check_relative_name(name, "a remembered file") || checksum_of(name) != sum ||
        !is_right(name)) {
      return std::nullopt;
    }
    names.push_back(name);
  }
  if (names.empty()) return std::nullopt;
  return names;
}

Status ModelStore::remember(const std::string& source,
                            const std::vector<std::string>& names) const {
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}  {}\n", checksum_of(name).value_or(""), name);
  }
  return write_small_file(manifest_path(source), text);
}

std::optional<std::string> ModelStore::checksum_of(const std::string& name) const {
  std::ifstream in(path_of(name) + ".sha256");
  std::string sum;
  in >> sum;
  return http::parse_sha256(sum);
}

Status ModelStore::write_checksum(const std::string& name, const std::string& sha256) const {
  const fs::path path = path_of(name);
  return write_small_file(path.string() + ".sha256",
                          fmt::format("{}  {}\n", sha256, path.filename().string()));
}

bool ModelStore::is_right(const std::string& name) const {
  const auto sum = checksum_of(name);
  std::error_code failed;
  const auto model_time = fs::last_write_time(path_of(name), failed);
  if (!sum || failed) return false;
  const auto sum_time = fs::last_write_time(path_of(name) + ".sha256", failed);
  if (!failed && model_time <= sum_time) return true;
  return adopt(name, *sum);
}

bool ModelStore::adopt(const std::string& name, const std::string& sha256) const {
  const auto got = http::sha256_of_file(path_of(name));
  // Failing to remember costs only that it is read again next time.
  return got && *got == sha256 && (write_checksum(name, sha256).ok() || true);
}

Status ModelStore::check_ours(const std::string& name) const {
  if (!fs::exists(path_of(name)) || checksum_of(name)) return Ok{};
  return error(Code::kIo,
               "'{}' is there already, is another file than the one to come, and was not put there "
               "by a pull; move it away first",
               path_of(name));
}

Result<http::PartFile> ModelStore::open_part(const std::string& name,
                                             const std::string& source) const {
  const fs::path path = path_of(name);
  TRY(create_folder(path.parent_path()));
  return http::PartFile::open(path.string(), source);
}

Status ModelStore::place(http::PartFile& part, const std::string& name) const {
  const std::string sha256 = part.sha256();
  std::ifstream in(part.part_path(), std::ios::binary);
  std::string magic(4, '\0');
  in.read(magic.data(), std::ssize(magic));
  if (magic != "GGUF") {
    part.discard();
    return error(Code::kBadFile, "what came as '{}' is not a GGUF file: it begins with '{}'", name,
                 gguf::shown(magic));
  }
  if (fs::exists(part.path()) && !checksum_of(name)) {
    if (!adopt(name, sha256)) return check_ours(name);
    part.discard();
    return Ok{};
  }
  TRY(part.finish());
  return write_checksum(name, sha256);
}

Status ModelStore::check_room(uint64_t bytes, const std::string& what) const {
  std::error_code failed;
  const fs::space_info space = fs::space(folder_, failed);
  if (failed || space.available >= bytes) return Ok{};
  return error(Code::kExhausted, "{} needs {} more in '{}', which has {} left", what,
               human_bytes(bytes), folder_.string(), human_bytes(space.available));
}

}  // namespace pacer::cli
