// Downloader: what is tried again, and when a file is whole and right.
#include "http/download.h"

#include <curl/curl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "http/download_attempt.h"
#include "http/download_url.h"

namespace pacer::http {

namespace {

constexpr uint64_t kProgressBytes = 1 << 20;  // so much came: retries are counted anew
constexpr uint32_t kConnectRetries = 2;       // nobody there: most often for good
constexpr auto kWaitSlice = std::chrono::milliseconds(100);

void init_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(code == CURLE_OK, "curl_global_init: {}", curl_easy_strerror(code));
}

bool is_worth_a_retry(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

bool nobody_there(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_COULDNT_CONNECT;
}

bool is_worth_a_retry(long status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

}  // namespace

Downloader::Downloader(DownloadOptions options)
    : options_(std::move(options)), curl_(nullptr, curl_easy_cleanup) {
  init_curl();
  curl_.reset(curl_easy_init());
  CHECK(curl_, "no memory for a download");
}

Downloader::~Downloader() = default;

Status Downloader::wait(std::chrono::milliseconds time, const PartFile* part) {
  while (time.count() > 0) {
    if (options_.on_progress && !options_.on_progress(part ? part->size() : 0, std::nullopt)) {
      return error(Code::kUnavailable, "stopped");
    }
    const auto slice = std::min<std::chrono::milliseconds>(time, kWaitSlice);
    std::this_thread::sleep_for(slice);
    time -= slice;
  }
  return Ok{};
}

// Runs attempts until one brings an answer that is worth keeping. `part` tells progress from none.
Result<DownloadResponse> Downloader::retry(const DownloadRequest& request,
                                           const std::function<Status(Attempt&)>& run,
                                           const PartFile* part) {
  CURL* curl = curl_.get();
  for (uint32_t failures = 0;;) {
    Attempt attempt(curl, options_, request);
    const uint64_t before = part != nullptr ? part->size() : 0;
    TRY(run(attempt));
    const bool answered = attempt.code == CURLE_OK;
    if (answered && !is_worth_a_retry(attempt.response.status)) return std::move(attempt.response);

    std::string reason = answered ? fmt::format("status {}", attempt.response.status)
                                  : curl_easy_strerror(attempt.code);
    if (attempt.code == CURLE_UNSUPPORTED_PROTOCOL) {
      reason = "it redirects to an address that is not allowed (from https only to https)";
    }
    if (part != nullptr && part->size() > before + kProgressBytes) failures = 0;
    const uint32_t retries =
        nobody_there(attempt.code) ? std::min(kConnectRetries, options_.retries) : options_.retries;
    if ((!answered && !is_worth_a_retry(attempt.code)) || failures >= retries) {
      if (answered) return std::move(attempt.response);
      return error(Code::kUnavailable, "cannot fetch {}: {}", shown_url(request.url), reason);
    }
    std::chrono::milliseconds pause = options_.backoff * (1u << std::min(failures, 6u));
    curl_off_t retry_after = 0;
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
    // Compared as it came: a server may say any number.
    if (answered && retry_after > std::chrono::seconds(options_.retry_after_max).count()) {
      return error(Code::kUnavailable, "{} answered {} and asks to wait {} s; try again later",
                   shown_url(request.url), attempt.response.status, retry_after);
    }
    if (answered && retry_after > 0) pause = std::chrono::seconds(retry_after);
    ++failures;
    if (options_.on_retry) {
      options_.on_retry(fmt::format("{}: {}; trying again in {:.1f} s", shown_url(request.url),
                                    reason, static_cast<double>(pause.count()) / 1000));
    }
    TRY(wait(pause, part));
  }
}

Result<DownloadResponse> Downloader::get(const DownloadRequest& request, uint64_t bytes_max) {
  return retry(
      request, [&](Attempt& a) { return a.into_memory(bytes_max); }, nullptr);
}

// What is missing of the file. Status 200: all of it is there now, right or not.
Result<DownloadResponse> Downloader::fetch_rest(const DownloadRequest& request, PartFile& part,
                                                const ExpectedFile& expected) {
  if (expected.bytes && part.size() == *expected.bytes) {
    DownloadResponse nothing_to_do;
    nothing_to_do.status = 200;
    return nothing_to_do;
  }
  const auto run = [&](Attempt& a) { return a.into_file(part, expected); };
  ASSIGN_OR_RETURN(DownloadResponse response, retry(request, run, &part));
  // Nothing behind what is there: it is whole, or no part of this file.
  if (response.status == 416 && part.size() > 0) {
    if (response.total_bytes != part.size()) {
      TRY(part.restart(""));
      return retry(request, run, &part);
    }
    response.status = 200;
  }
  return response;
}

Result<DownloadResponse> Downloader::get_file(const DownloadRequest& request, PartFile& part,
                                              const ExpectedFile& expected) {
  // Without a validator or a checksum nobody can tell whether two halves belong together.
  const bool unknown = part.validator().empty() && expected.sha256.empty();
  const bool too_long = expected.bytes && part.size() > *expected.bytes;
  if (part.size() > 0 && (unknown || too_long)) TRY(part.restart(""));

  for (bool went_on = part.size() > 0;; went_on = false) {
    ASSIGN_OR_RETURN(DownloadResponse response, fetch_rest(request, part, expected));
    if (!response.ok()) return response;
    std::string wanted = expected.sha256;
    if (wanted.empty()) wanted = parse_sha256(response.linked_etag).value_or("");
    if (wanted.empty() || part.sha256() == wanted) return response;
    if (!went_on) {
      const std::string got = part.sha256();
      part.discard();
      return error(Code::kBadFile, "{} has SHA-256 {}; it must be {}", shown_url(request.url), got,
                   wanted);
    }
    if (options_.on_retry) {
      options_.on_retry(fmt::format("{}: what an earlier try left is damaged; starting over",
                                    shown_url(request.url)));
    }
    TRY(part.restart(""));
  }
}

Error status_error(const DownloadResponse& response, const std::string& what) {
  const Code code = response.status == 404 ? Code::kNotFound : Code::kUnavailable;
  return error(code, "{}: {} answered {}{}", what, shown_url(response.url), response.status,
               response.error_code.empty() ? "" : " (" + response.error_code + ")");
}

}  // namespace pacer::http
