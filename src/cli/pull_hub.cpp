#include "cli/pull_hub.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/human.h"
#include "gguf/cursor.h"  // shown
#include "gguf/shards.h"
#include "http/download_sha256.h"
#include "http/download_url.h"

namespace pacer::cli {

namespace {

using nlohmann::json;

constexpr uint64_t kTreeBytesMax = 16 << 20;
constexpr size_t kListedMax = 40;
constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr std::string_view kDefaultQuantisation = "Q4_K_M";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// A model of a repository: one file, or shards.
struct Candidate {
  std::string name;  // the file's, or that of all shards: without -0000N-of-0000M
  std::vector<HubFile> files;
  uint64_t count = 1;  // of shards that there must be
};

struct ShardName {
  std::string whole;  // "a/b.gguf" of "a/b-00002-of-00003.gguf"
  uint64_t number = 0, count = 0;
};
std::optional<ShardName> parse_shard_name(const std::string& path) {
  constexpr std::string_view kPattern = "-00001-of-00001.gguf";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const std::string ending = path.substr(path.size() - kPattern.size());
  const auto number = std::strtoull(ending.c_str() + 1, nullptr, 10);
  const auto count = std::strtoull(ending.c_str() + 10, nullptr, 10);
  if (number == 0 || number > count || !gguf::shard_path(path, number - 1, count, 0)) {
    return std::nullopt;
  }
  return ShardName{path.substr(0, path.size() - kPattern.size()) + ".gguf", number, count};
}

std::vector<Candidate> find_candidates(const std::vector<HubFile>& files) {
  std::map<std::string, Candidate> by_name;
  for (const HubFile& file : files) {
    const auto shard = parse_shard_name(file.path);
    // Another number of shards is another model, even under the same name.
    const std::string key = shard ? fmt::format("{}\n{}", shard->whole, shard->count) : file.path;
    Candidate& candidate = by_name[key];
    candidate.name = shard ? shard->whole : file.path;
    candidate.count = shard ? shard->count : 1;
    candidate.files.push_back(file);
  }
  std::vector<Candidate> candidates;
  for (auto& [key, candidate] : by_name) {
    std::sort(candidate.files.begin(), candidate.files.end(),
              [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// Whether the name has the quantisation as a word: "Q4_K" is not in "x-Q4_K_M.gguf", nor "Q4_XS" in
// "x-IQ4_XS.gguf".
bool has_quantisation(const Candidate& candidate, std::string_view quantisation) {
  const std::string name = lower(base_name(candidate.name));
  const std::string wanted = lower(quantisation);
  const auto is_alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  // "K" and "0" are parts of names of quantisations, not quantisations.
  if (wanted.size() < 3 || wanted.find_first_of("0123456789") == std::string::npos) return false;
  for (size_t at = name.find(wanted); at != std::string::npos; at = name.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    const bool starts = at == 0 || !is_alnum(name[at - 1]);
    const bool ends = end == name.size() || (!is_alnum(name[end]) && name[end] != '_');
    if (starts && ends) return true;
  }
  return false;
}

bool is_named(const Candidate& candidate, std::string_view wanted) {
  const auto matches = [&](std::string_view path) {
    return path == wanted || base_name(path) == wanted || path == std::string(wanted) + ".gguf" ||
           base_name(path) == std::string(wanted) + ".gguf";
  };
  return matches(candidate.name) ||
         std::any_of(candidate.files.begin(), candidate.files.end(),
                     [&](const HubFile& file) { return matches(file.path); });
}

// Files that belong to a model without being one: vision projectors, importance matrices.
bool is_companion(const Candidate& candidate) {
  const std::string name = lower(base_name(candidate.name));
  return name.find("mmproj") != std::string::npos || name.find("imatrix") != std::string::npos;
}

std::string list(const std::vector<Candidate>& candidates) {
  std::string text;
  for (size_t i = 0; i < std::min(candidates.size(), kListedMax); ++i) {
    uint64_t bytes = 0;
    for (const HubFile& file : candidates[i].files) bytes += file.bytes;
    text +=
        fmt::format("\n  {}  ({}{})", gguf::shown(candidates[i].name), human_bytes(bytes),
                    candidates[i].count > 1 ? fmt::format(", {} shards", candidates[i].count) : "");
  }
  if (candidates.size() > kListedMax) {
    text += fmt::format("\n  and {} more", candidates.size() - kListedMax);
  }
  return text;
}

Result<std::vector<HubFile>> all_shards(const Candidate& chosen) {
  if (chosen.files.size() == chosen.count) return chosen.files;
  return error(Code::kNotFound, "of the {} shards of '{}' only {} are there", chosen.count,
               gguf::shown(chosen.name), chosen.files.size());
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<std::string> hub_token() {
  const std::string token = environment("HF_TOKEN");
  const bool right =
      std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  // Not shown: it is a secret.
  if (!right) return error(Code::kInvalidArgument, "HF_TOKEN has characters that no token has");
  return token;
}

Error hub_error(const http::DownloadResponse& response, const HubSource& source,
                const std::string& endpoint, bool token_sent) {
  const std::string repo = source.org + "/" + source.repo;
  if (response.status == 401 || response.status == 403) {
    if (token_sent) {
      return error(
          Code::kUnavailable,
          "hf:{}: {} answered {}: HF_TOKEN gives no access to it; was its licence accepted "
          "at {}/{}?",
          repo, http::shown_url(endpoint), response.status, http::shown_url(endpoint), repo);
    }
    return error(Code::kUnavailable,
                 "hf:{}: {} answered {}: there is no such repository, or it is private or gated; "
                 "then accept its licence at {}/{} and set HF_TOKEN",
                 repo, http::shown_url(endpoint), response.status, http::shown_url(endpoint), repo);
  }
  return http::status_error(response, "hf:" + repo);
}

}  // namespace

Result<std::vector<HubFile>> parse_hub_tree(std::string_view text) {
  const json tree = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!tree.is_array()) return error(Code::kBadFile, "the list of files is no JSON array");
  std::vector<HubFile> files;
  for (const json& entry : tree) {
    if (!entry.is_object()) return error(Code::kBadFile, "the list of files has an odd entry");
    const auto path = entry.find("path");
    if (path == entry.end() || !path->is_string()) continue;
    HubFile file{path->get<std::string>(), 0, ""};
    if (!lower(file.path).ends_with(".gguf") || entry.value("type", json()) != "file") continue;
    const auto lfs = entry.find("lfs");
    const json& sized = lfs != entry.end() && lfs->is_object() ? *lfs : entry;
    const auto size = sized.find("size");
    if (size == sized.end() || !size->is_number_unsigned()) {
      return error(Code::kBadFile, "the list of files gives no size of '{}'",
                   gguf::shown(file.path));
    }
    file.bytes = size->get<uint64_t>();
    const auto oid = sized.find("oid");
    if (&sized != &entry && oid != sized.end() && oid->is_string()) {
      file.sha256 = http::parse_sha256(oid->get<std::string>()).value_or("");
    }
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<HubFile>> choose_hub_files(const std::vector<HubFile>& files,
                                              std::string_view wanted) {
  const std::vector<Candidate> all = find_candidates(files);
  if (all.empty()) return error(Code::kNotFound, "there is no .gguf file");
  std::vector<Candidate> models, named, chosen;
  for (const Candidate& candidate : all) {
    if (!is_companion(candidate)) models.push_back(candidate);
    if (is_named(candidate, wanted)) named.push_back(candidate);
  }
  const std::string_view quantisation = wanted.empty() ? kDefaultQuantisation : wanted;
  for (const Candidate& candidate : models) {
    if (has_quantisation(candidate, quantisation)) chosen.push_back(candidate);
  }
  if (!wanted.empty() && !named.empty()) chosen = named;
  if (wanted.empty() && chosen.empty() && models.size() == 1) chosen = models;
  if (chosen.size() == 1) return all_shards(chosen.front());
  if (chosen.size() > 1) {
    return error(Code::kInvalidArgument, "'{}' may be any of these; name one as :FILE{}",
                 gguf::shown(quantisation), list(chosen));
  }
  if (wanted.empty()) {
    return error(Code::kInvalidArgument, "none of these is {}; name one as :FILE{}",
                 kDefaultQuantisation, list(all));
  }
  return error(Code::kNotFound, "there is no '{}'; there are{}", gguf::shown(wanted), list(all));
}

Result<std::vector<std::string>> pull_from_hub(PullContext& context, const HubSource& source) {
  std::string endpoint = environment("HF_ENDPOINT");
  if (endpoint.empty()) endpoint = kDefaultEndpoint;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  TRY(http::resolve_url(endpoint, ""));
  ASSIGN_OR_RETURN(const std::string token, hub_token());
  const std::string repo = source.org + "/" + source.repo;

  http::DownloadRequest request{
      .url = fmt::format("{}/api/models/{}/tree/main?recursive=1", endpoint, repo),
      .accept = "application/json",
      .token = token};
  ASSIGN_OR_RETURN(const auto tree, context.web.get(request, kTreeBytesMax));
  if (!tree.ok()) return hub_error(tree, source, endpoint, !token.empty());
  const auto of_repo = [&](const Error& e) { return error(e.code, "hf:{}: {}", repo, e.message); };
  const auto files = parse_hub_tree(tree.body);
  if (!files) return of_repo(files.error());
  const auto chosen = choose_hub_files(*files, source.file);
  if (!chosen) return of_repo(chosen.error());

  std::vector<std::string> names;
  for (const HubFile& file : *chosen) {
    TRY(check_relative_name(file.path, "a file of hf:" + repo));
    names.push_back(repo + "/" + file.path);
    request.url = fmt::format("{}/{}/resolve/main/{}", endpoint, repo,
                              http::percent_encode(file.path, /*keep_slashes=*/true));
    request.accept.clear();
    ASSIGN_OR_RETURN(const auto response,
                     fetch_model_file(context, request, names.back(), {file.bytes, file.sha256}));
    if (!response.ok()) return hub_error(response, source, endpoint, !token.empty());
  }
  return names;
}

}  // namespace pacer::cli
