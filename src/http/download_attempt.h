// One request of a Downloader and its answer. Internal to download.cpp.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/download.h"

namespace pacer::http {

// One request and its answer, with the callbacks that libcurl calls meanwhile.
class Downloader::Attempt {
 public:
  Attempt(CURL* curl, const DownloadOptions& options, const DownloadRequest& request)
      : curl_(curl), options_(options), request_(request) {}
  ~Attempt() { curl_slist_free_all(headers_); }

  DownloadResponse response;
  CURLcode code = CURLE_OK;

  Status into_memory(uint64_t bytes_max);
  Status into_file(PartFile& part, const ExpectedFile& expected);

 private:
  Status perform();
  void set_options();
  void add_header(const std::string& header) {
    headers_ = curl_slist_append(headers_, header.c_str());
  }
  void read_header(std::string_view line);
  Status take_body(std::span<const std::byte> bytes);
  Status begin_file();
  static size_t on_header(char* data, size_t size, size_t count, void* self);
  static size_t on_body(char* data, size_t size, size_t count, void* self);
  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t);

  CURL* curl_;
  const DownloadOptions& options_;
  const DownloadRequest& request_;
  curl_slist* headers_ = nullptr;
  std::optional<Error> failure_;  // ours, noticed in a callback

  PartFile* part_ = nullptr;
  const ExpectedFile* expected_ = nullptr;
  uint64_t bytes_max_ = 0;
  bool body_begun_ = false;
  bool asked_range_ = false;
  bool misplaced_ = false;  // the answer is another range than the one that was asked for
  uint32_t answers_ = 0;    // with redirects there are several
  std::string etag_, last_modified_, content_range_;
};

}  // namespace pacer::http
