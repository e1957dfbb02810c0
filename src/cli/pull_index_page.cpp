// What an index and a package say: pages, versions, requirements, checksums. Pure; fetching is in
// pull_index.cpp.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/pull_index.h"
#include "gguf/cursor.h"  // shown
#include "http/download_sha256.h"
#include "http/download_url.h"

namespace pacer::cli {

namespace {

using nlohmann::json;

constexpr size_t kFilesMax = 20'000;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Calls `use` with each line, without its end.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    use(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The five entities that addresses in attributes are written with.
std::string decode_entities(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
  std::string out;
  while (!text.empty()) {
    const auto* found = std::find_if(std::begin(kEntities), std::end(kEntities),
                                     [&](const auto& e) { return text.starts_with(e.first); });
    const bool is_entity = found != std::end(kEntities);
    out += is_entity ? found->second : text.front();
    text.remove_prefix(is_entity ? found->first.size() : 1);
  }
  return out;
}

// Attributes of a tag, as far as an index writes them: name="value", name='value', or a bare name.
struct LinkTag {
  std::string href;
  bool yanked = false;
};
LinkTag parse_link_tag(std::string_view tag) {
  LinkTag link;
  while (true) {
    const size_t begin = tag.find_first_not_of(" \t\r\n/");
    if (begin == std::string_view::npos) return link;
    tag.remove_prefix(begin);
    const size_t end = std::min(tag.find_first_of("= \t\r\n"), tag.size());
    const std::string name = lower(tag.substr(0, end));
    tag.remove_prefix(end);
    std::string_view value;
    if (tag.starts_with('=')) {
      tag.remove_prefix(1);
      const bool quoted = tag.starts_with('"') || tag.starts_with('\'');
      const char quote = quoted ? tag.front() : ' ';
      if (quoted) tag.remove_prefix(1);
      const size_t close = std::min(tag.find(quote), tag.size());
      value = tag.substr(0, close);
      tag.remove_prefix(std::min(close + 1, tag.size()));
    } else if (end == 0) {
      tag.remove_prefix(1);  // a stray character: go on behind it
    }
    if (name == "href") link.href = decode_entities(value);
    if (name == "data-yanked") link.yanked = true;
  }
}

// A version, so far as the newest is to be found: release numbers, then whether something follows.
struct Version {
  std::vector<uint64_t> release;
  bool is_final = true;  // no a, b, rc, dev
  std::string rest;

  bool operator<(const Version& other) const {
    return std::tie(is_final, release, rest) < std::tie(other.is_final, other.release, other.rest);
  }
};
Version parse_version(std::string_view text) {
  Version version;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    uint64_t number = 0;
    const auto [next, failed] = std::from_chars(at, end, number);
    if (failed != std::errc{}) break;
    version.release.push_back(number);
    at = next;
    if (end - at < 2 || *at != '.' || at[1] < '0' || at[1] > '9') break;
    ++at;
  }
  while (!version.release.empty() && version.release.back() == 0) version.release.pop_back();
  version.rest = lower({at, static_cast<size_t>(end - at)});
  version.is_final = version.rest.empty() || version.rest.starts_with(".post") ||
                     version.rest.starts_with('+') || version.rest.starts_with('-');
  return version;
}

// Version and kind of a package file; nothing for what we do not unpack.
struct PackageName {
  std::string version;
  bool is_wheel = false;
};
std::optional<PackageName> parse_package_name(std::string_view name, std::string_view project) {
  constexpr std::string_view kWheel = "-none-any.whl";
  const bool is_wheel = name.ends_with(kWheel);
  if (is_wheel) {  // NAME-VERSION(-BUILD)-PYTHON-none-any.whl; NAME has no '-'
    const size_t first = name.find('-');
    const size_t second = name.find('-', first + 1);
    if (normalized_project(name.substr(0, first)) != project) return std::nullopt;
    return PackageName{std::string(name.substr(first + 1, second - first - 1)), true};
  }
  for (const std::string_view suffix : {".tar.gz", ".zip"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string_view stem = name.substr(0, name.size() - suffix.size());
    const size_t dash = stem.rfind('-');
    if (dash == std::string_view::npos) return std::nullopt;
    if (normalized_project(stem.substr(0, dash)) != project) return std::nullopt;
    return PackageName{std::string(stem.substr(dash + 1)), false};
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<IndexFile>> parse_index_json(std::string_view body, const std::string& url) {
  const json page = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto list = page.is_object() ? page.find("files") : page.end();
  if (!page.is_object() || list == page.end() || !list->is_array()) {
    return error(Code::kBadFile, "{} is no page of a package index", http::shown_url(url));
  }
  std::vector<IndexFile> files;
  for (const json& entry : *list) {
    const auto text = [&](const json& object, const char* key) -> std::string {
      const auto found = object.is_object() ? object.find(key) : object.end();
      return object.is_object() && found != object.end() && found->is_string()
                 ? found->get<std::string>()
                 : std::string();
    };
    IndexFile file{.name = text(entry, "filename"), .url = "", .sha256 = "", .bytes = {}};
    if (file.name.empty()) continue;
    ASSIGN_OR_RETURN(file.url, http::resolve_url(url, text(entry, "url")));
    if (const auto hashes = entry.find("hashes"); hashes != entry.end()) {
      file.sha256 = lower(text(*hashes, "sha256"));
    }
    const auto size = entry.find("size");
    if (size != entry.end() && size->is_number_unsigned()) file.bytes = size->get<uint64_t>();
    const auto yanked = entry.find("yanked");  // true, or the reason
    file.yanked = yanked != entry.end() && (yanked->is_string() || *yanked == true);
    files.push_back(std::move(file));
    if (files.size() > kFilesMax) break;
  }
  return files;
}

Result<std::vector<IndexFile>> parse_index_html(std::string_view body, const std::string& url) {
  std::vector<IndexFile> files;
  size_t tags = 0;
  for (size_t at = 0; (at = body.find('<', at)) != std::string_view::npos;) {
    ++at;
    const std::string_view rest = body.substr(at);
    if (rest.size() < 2 || (rest[0] != 'a' && rest[0] != 'A') ||
        std::string_view(" \t\r\n").find(rest[1]) == std::string_view::npos) {
      continue;
    }
    const size_t close = rest.find('>');
    if (close == std::string_view::npos || ++tags > kFilesMax) break;
    const LinkTag link = parse_link_tag(rest.substr(1, close - 1));
    at += close;
    if (link.href.empty()) continue;
    IndexFile file;
    file.yanked = link.yanked;
    const size_t hash = link.href.find("#sha256=");
    if (hash != std::string::npos) file.sha256 = lower(link.href.substr(hash + 8, 64));
    auto address = http::resolve_url(url, link.href);
    if (!address) continue;  // "mailto:" and the like: pages have more links than packages
    file.url = *std::move(address);
    file.name = http::url_file_name(file.url);
    files.push_back(std::move(file));
  }
  return files;
}

Result<IndexFile> choose_index_file(const std::vector<IndexFile>& files, std::string_view project,
                                    std::string_view version) {
  const std::string normalized = normalized_project(project);
  const IndexFile* best = nullptr;
  std::pair<Version, bool> best_rank;
  std::string versions;
  for (const IndexFile& file : files) {
    const auto name = parse_package_name(file.name, normalized);
    if (!name) continue;
    const Version parsed = parse_version(name->version);
    if (version.empty() ? file.yanked
                        : parsed.release != parse_version(version).release ||
                              parsed.rest != parse_version(version).rest) {
      if (versions.size() < 400) versions += (versions.empty() ? "" : ", ") + name->version;
      continue;
    }
    std::pair<Version, bool> rank{parsed, name->is_wheel};
    if (best != nullptr && !(best_rank < rank)) continue;
    best = &file;
    best_rank = std::move(rank);
  }
  if (best == nullptr) {
    return error(Code::kNotFound, "pypi:{}: no package that fits{}{}", project,
                 version.empty() ? "" : fmt::format(" version {}", version),
                 versions.empty() ? "" : fmt::format(" (there is {})", gguf::shown(versions)));
  }
  TRY(check_relative_name(best->name, "a file of pypi:" + std::string(project)));
  if (!best->sha256.empty() && !http::parse_sha256(best->sha256)) {
    return error(Code::kBadFile, "pypi:{}: the index gives '{}' as SHA-256 of {}", project,
                 gguf::shown(best->sha256), best->name);
  }
  return *best;
}

std::vector<IndexSource> parse_requirements(std::string_view metadata) {
  std::vector<IndexSource> requirements;
  bool in_headers = true;
  for_each_line(metadata, [&](std::string_view line) {
    constexpr std::string_view kField = "requires-dist:";
    in_headers = in_headers && !line.empty();  // the description follows an empty line
    if (!in_headers || !lower(line.substr(0, kField.size())).starts_with(kField)) return;
    std::string_view text = trimmed(line.substr(kField.size()));
    if (text.find(';') != std::string_view::npos) return;  // only under a condition
    const size_t end = std::min(text.find_first_of(" (<>=!~["), text.size());
    IndexSource requirement{std::string(text.substr(0, end)), ""};
    if (const size_t pin = text.find("=="); pin != std::string_view::npos) {
      const std::string_view version = trimmed(text.substr(pin + 2));
      requirement.version =
          version.substr(0, std::min(version.find_first_of(" ,)"), version.size()));
    }
    if (!requirement.project.empty()) requirements.push_back(std::move(requirement));
  });
  return requirements;
}

namespace {

// Calls `use(sum, name)` for each line "SUM  NAME" or "SUM *NAME", the name without its folder.
template <class Use>
void for_each_checksum(std::string_view sums, Use&& use) {
  for_each_line(sums, [&](std::string_view line) {
    const std::string_view sum = line.substr(0, std::min(line.find(' '), line.size()));
    std::string_view file = trimmed(line.substr(sum.size()));
    if (file.starts_with('*')) file.remove_prefix(1);
    file = file.substr(file.rfind('/') + 1);
    if (const auto parsed = http::parse_sha256(sum)) use(*parsed, file);
  });
}

}  // namespace

std::string find_checksum(std::string_view sums, std::string_view name) {
  std::string found;
  for_each_checksum(sums, [&](const std::string& sum, std::string_view file) {
    if (file == name) found = sum;
  });
  return found;
}

std::string find_model_name(std::string_view sums) {
  std::string found;
  size_t count = 0;
  for_each_checksum(sums, [&](const std::string&, std::string_view file) {
    if (!file.ends_with(".gguf")) return;
    found = file;
    ++count;
  });
  return count == 1 ? found : "";
}

std::optional<PartName> parse_part_name(std::string_view name) {
  constexpr std::string_view kMark = ".gguf.part";
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  const std::string_view digits = name.substr(mark + kMark.size());
  PartName part{std::string(name.substr(0, mark + 5)), 0};
  const auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), part.number);
  if (failed != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return part;
}

}  // namespace pacer::cli
