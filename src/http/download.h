// Fetches what is on the web: a page into memory, or a file to disk, going on where it stopped.
//
// Over libcurl, which knows proxies, redirects and TLS. What is decided here: what may be tried
// again and when, when a server is too slow, what counts as the same file, and that a credential
// goes to the host it was given for and never further. Blocking; one Downloader per thread.
//
// Used by `pacer pull`; not a part of the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/download_part.h"

namespace pacer::http {

struct DownloadOptions {
  std::chrono::seconds connect_timeout{20};
  std::chrono::seconds stall_timeout{30};  // this long below 1 KB/s: the connection is given up
  uint32_t retries = 5;                    // in a row without a mebibyte of progress between them
  std::chrono::milliseconds backoff{500};  // before the first retry; doubles
  std::chrono::seconds retry_after_max{120};  // a server that asks for more is an Error
  // Called a few times a second, also while waiting: bytes that are there, and of how many. False:
  // stop.
  std::function<bool(uint64_t done, std::optional<uint64_t> total)> on_progress;
  std::function<void(const std::string& sentence)> on_retry;
};

struct DownloadRequest {
  std::string url;
  std::string accept;  // the Accept header; empty: anything
  std::string token;   // sent as "Authorization: Bearer ..." to the host of `url` only
};

// What a server said last, whatever its status. Fields that were not there are empty.
struct DownloadResponse {
  long status = 0;
  std::string url;  // after redirects
  std::string body;
  std::string content_type;
  std::string validator;    // ETag, else Last-Modified: names this version of the file
  std::string error_code;   // X-Error-Code: GatedRepo, RepoNotFound, EntryNotFound, ...
  std::string linked_etag;  // X-Linked-Etag of the first answer: the SHA-256 behind a redirect
  std::optional<uint64_t> total_bytes;  // of the whole file

  bool ok() const { return status >= 200 && status < 300; }
};

// What is known of a file before it comes.
struct ExpectedFile {
  std::optional<uint64_t> bytes;
  std::string sha256;  // empty: not known, unless the first answer names it (X-Linked-Etag)
};

class Downloader {
 public:
  explicit Downloader(DownloadOptions options = {});
  ~Downloader();
  Downloader(const Downloader&) = delete;
  Downloader& operator=(const Downloader&) = delete;

  // An Error when no answer comes, or one of more than `bytes_max`. A 4xx is an answer.
  Result<DownloadResponse> get(const DownloadRequest& request, uint64_t bytes_max);
  // The whole file into `part`, checked against `expected`; not yet renamed. A response that is not
  // ok() left the part as it was.
  Result<DownloadResponse> get_file(const DownloadRequest& request, PartFile& part,
                                    const ExpectedFile& expected);

 private:
  class Attempt;
  Result<DownloadResponse> retry(const DownloadRequest& request,
                                 const std::function<Status(Attempt&)>& run, const PartFile* part);
  Result<DownloadResponse> fetch_rest(const DownloadRequest& request, PartFile& part,
                                      const ExpectedFile& expected);
  Status wait(std::chrono::milliseconds time, const PartFile* part);

  DownloadOptions options_;
  std::unique_ptr<void, void (*)(void*)> curl_;  // one handle: connections are used again
};

// "https://host/x answered 404 Not Found".
Error status_error(const DownloadResponse& response, const std::string& what);

}  // namespace pacer::http
