#include "cli/pull_model.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <variant>

#include "base/human.h"
#include "cli/pull_context.h"
#include "cli/pull_hub.h"
#include "cli/pull_index.h"
#include "cli/pull_source.h"
#include "gguf/shards.h"
#include "http/download_url.h"

namespace pacer::cli {

namespace {

// The shards that belong to https://HOST/NAME-00001-of-0000N.gguf; itself when it is none.
std::vector<std::string> shard_names(const std::string& file) {
  constexpr size_t kCountAt = 10;  // of the end "00003.gguf"
  std::vector<std::string> names;
  if (file.size() > kCountAt) {
    const auto count = std::strtoull(file.c_str() + file.size() - kCountAt, nullptr, 10);
    for (uint64_t i = 0; i < count && count <= gguf::kShardsMax; ++i) {
      if (const auto name = gguf::shard_path(file, 0, count, i)) names.push_back(*name);
    }
  }
  if (names.empty()) names.push_back(file);
  return names;
}

Result<std::vector<std::string>> pull_from_web(PullContext& context, const WebSource& source) {
  const std::vector<std::string> names = shard_names(http::url_file_name(source.url));
  for (const std::string& name : names) {
    std::string url = source.url;
    if (names.size() > 1) {
      // Only the file's name differs; what follows it (a query) is of all.
      const std::string encoded = http::percent_encode(names[0]);
      const size_t at = std::min(url.rfind(encoded), url.rfind(names[0]));
      if (at == std::string::npos) {
        return error(Code::kUnsupported, "{}: the names of the other shards cannot be told from it",
                     http::shown_url(url));
      }
      url.replace(
          at, url.compare(at, names[0].size(), names[0]) == 0 ? names[0].size() : encoded.size(),
          http::percent_encode(name));
    }
    TRY(http::resolve_url(url, ""));
    ASSIGN_OR_RETURN(const auto response,
                     fetch_model_file(context, {.url = url, .accept = "", .token = ""}, name, {}));
    if (!response.ok()) return http::status_error(response, name);
  }
  return names;
}

http::DownloadOptions download_options(const PullOptions& options, PullProgress& progress) {
  http::DownloadOptions download;
  download.retries = options.retries;
  download.stall_timeout = std::chrono::seconds(options.stall_timeout_s);
  download.on_progress = [&progress](uint64_t done, std::optional<uint64_t> total) {
    return progress.update(done, total);
  };
  download.on_retry = [&progress](const std::string& sentence) { progress.say(sentence); };
  return download;
}

}  // namespace

Result<http::DownloadResponse> fetch_model_file(PullContext& context,
                                                const http::DownloadRequest& request,
                                                const std::string& name,
                                                const http::ExpectedFile& expected) {
  if (!expected.sha256.empty() && (context.store.checksum_of(name) == expected.sha256
                                       ? context.store.is_right(name)
                                       : context.store.adopt(name, expected.sha256))) {
    http::DownloadResponse there;
    there.status = 200;
    return there;
  }
  // Before gigabytes come. Without a checksum it may still be the same file: place() tells.
  if (!expected.sha256.empty()) TRY(context.store.check_ours(name));
  ASSIGN_OR_RETURN(
      http::PartFile part,
      context.store.open_part(
          name, expected.sha256.empty() ? http::shown_url(request.url) : expected.sha256));
  if (part.size() > 0) {
    context.progress.say(fmt::format("{}: going on after {}", name, human_bytes(part.size())));
  }
  if (expected.bytes) {
    TRY(context.store.check_room(*expected.bytes - std::min(part.size(), *expected.bytes), name));
  }
  context.progress.begin("fetching " + name, expected.bytes);
  ASSIGN_OR_RETURN(http::DownloadResponse response, context.web.get_file(request, part, expected));
  if (!response.ok()) {
    if (part.size() == 0) part.discard();
    return response;
  }
  context.progress.update(part.size(), part.size());
  context.progress.end();
  TRY(context.store.place(part, name));
  return response;
}

Result<PulledModel> pull_model(std::string_view name, const PullOptions& options) {
  ASSIGN_OR_RETURN(const Source source, parse_source(name));
  const std::string key(name);
  ModelStore store(ModelStore::default_folder());
  if (const auto names = store.find(key)) return PulledModel{store.path_of(names->front()), true};

  const InterruptGuard guard;
  PullProgress progress;
  ASSIGN_OR_RETURN(const http::FileLock lock, store.lock(progress));
  // Whoever had the lock before may have fetched the same.
  if (const auto names = store.find(key)) return PulledModel{store.path_of(names->front()), true};

  http::Downloader web(download_options(options, progress));
  PullContext context{store, web, progress};
  struct Fetch {
    PullContext& context;
    Result<std::vector<std::string>> operator()(const HubSource& s) {
      return pull_from_hub(context, s);
    }
    Result<std::vector<std::string>> operator()(const IndexSource& s) {
      return pull_from_index(context, s);
    }
    Result<std::vector<std::string>> operator()(const WebSource& s) {
      return pull_from_web(context, s);
    }
  };
  const auto names = std::visit(Fetch{context}, source);
  progress.end();
  if (!names && PullProgress::interrupted()) {
    return error(Code::kUnavailable, "stopped; the same command goes on from where it was");
  }
  if (!names) return names.error();
  TRY(store.remember(key, *names));
  return PulledModel{store.path_of(names->front()), false};
}

}  // namespace pacer::cli
