#include "http/download.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/human.h"
#include "base/version.h"
#include "http/download_url.h"

namespace pacer::http {

namespace {

constexpr long kRedirectsMax = 10;
constexpr long kStallBytesPerSecond = 1024;
constexpr uint64_t kProgressBytes = 1 << 20;  // so much came: retries are counted anew
constexpr uint32_t kConnectRetries = 2;       // nobody there: most often for good
constexpr size_t kFieldBytesMax = 1024;
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

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "bytes 100-199/4000" or "bytes */4000".
struct ContentRange {
  std::optional<uint64_t> first, total;
};
ContentRange parse_content_range(std::string_view text) {
  ContentRange range;
  if (!text.starts_with("bytes ")) return range;
  text.remove_prefix(6);
  range.first = parse_number(text.substr(0, text.find('-')));
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) range.total = parse_number(text.substr(slash + 1));
  return range;
}

}  // namespace

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

void Downloader::Attempt::set_options() {
  curl_easy_reset(curl_);  // keeps connections
  curl_easy_setopt(curl_, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(curl_, CURLOPT_USERAGENT, (std::string("pacer/") + kVersion).c_str());
  curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl_, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl_, CURLOPT_MAXREDIRS, kRedirectsMax);
  curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
  // What began encrypted stays so.
  curl_easy_setopt(curl_, CURLOPT_REDIR_PROTOCOLS_STR,
                   url_origin(request_.url).starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT, long{options_.connect_timeout.count()});
  curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
  curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, long{options_.stall_timeout.count()});
  // The names that other tools of such machines go by; Debian's own default needs none.
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* file = std::getenv(name);
    if (file == nullptr || *file == '\0') continue;
    curl_easy_setopt(curl_, CURLOPT_CAINFO, file);
    break;
  }
  curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl_, CURLOPT_XFERINFODATA, this);
  if (!request_.accept.empty()) add_header("Accept: " + request_.accept);
  // libcurl drops this header when a redirect leads to another host or port (since 7.83).
  if (!request_.token.empty()) add_header("Authorization: Bearer " + request_.token);
}

Status Downloader::Attempt::into_memory(uint64_t bytes_max) {
  set_options();
  bytes_max_ = bytes_max;
  return perform();
}

Status Downloader::Attempt::into_file(PartFile& part, const ExpectedFile& expected) {
  set_options();
  part_ = &part;
  expected_ = &expected;
  asked_range_ = part.size() > 0;
  if (asked_range_) {
    curl_easy_setopt(curl_, CURLOPT_RANGE, fmt::format("{}-", part.size()).c_str());
    if (!part.validator().empty()) add_header("If-Range: " + part.validator());
  }
  TRY(perform());
  if (misplaced_) code = CURLE_RECV_ERROR;  // the part is empty now: worth another try
  if (code != CURLE_OK || !response.ok()) return Ok{};
  if (!body_begun_) TRY(begin_file());  // an empty file has no body that could have
  // A length that only we know: the connection may have ended early without libcurl noticing.
  const std::optional<uint64_t> whole = expected.bytes ? expected.bytes : response.total_bytes;
  if (whole && part.size() < *whole) code = CURLE_PARTIAL_FILE;
  return Ok{};
}

Status Downloader::Attempt::perform() {
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers_);
  code = curl_easy_perform(curl_);
  if (failure_) return *failure_;
  char* url = nullptr;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &response.status);
  curl_easy_getinfo(curl_, CURLINFO_EFFECTIVE_URL, &url);
  response.url = url != nullptr ? url : request_.url;
  const ContentRange range = parse_content_range(content_range_);
  curl_off_t length = -1;
  curl_easy_getinfo(curl_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (range.total) {
    response.total_bytes = range.total;
  } else if (length >= 0 && response.status == 200) {
    response.total_bytes = static_cast<uint64_t>(length);
  }
  // A weak ETag is of the meaning, not of the bytes: no ground to go on from the middle.
  const bool strong = !etag_.empty() && !etag_.starts_with("W/");
  response.validator = strong ? etag_ : last_modified_;
  return Ok{};
}

void Downloader::Attempt::read_header(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // the answer after a redirect, or after "100 Continue"
    ++answers_;
    etag_.clear();
    last_modified_.clear();
    content_range_.clear();
    response.content_type.clear();
    response.error_code.clear();
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  const std::string value(trimmed(line.substr(colon + 1)).substr(0, kFieldBytesMax));
  if (name == "etag") etag_ = value;
  if (name == "last-modified") last_modified_ = value;
  if (name == "content-range") content_range_ = value;
  if (name == "content-type") response.content_type = value;
  if (name == "x-error-code") response.error_code = value;
  // Only of the host that was asked: where it sends us has no say in what the file must be.
  if (name == "x-linked-etag" && answers_ == 1) {
    response.linked_etag = value.size() > 2 ? value.substr(1, value.size() - 2) : "";  // no quotes
  }
}

// The first bytes of a file's answer: do they go on from what is there, or start over?
Status Downloader::Attempt::begin_file() {
  body_begun_ = true;
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  const std::string& validator =
      !etag_.empty() && !etag_.starts_with("W/") ? etag_ : last_modified_;
  const ContentRange range = parse_content_range(content_range_);
  const bool goes_on = status == 206 && asked_range_;
  if (!goes_on) return part_->restart(validator);
  misplaced_ = range.first != part_->size();
  if (misplaced_) TRY(part_->restart(""));
  return Ok{};
}

Status Downloader::Attempt::take_body(std::span<const std::byte> bytes) {
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  if (part_ == nullptr) {
    if (bytes.size() > bytes_max_ - response.body.size()) {
      return error(Code::kTooLarge, "{} answers with more than {}", shown_url(request_.url),
                   human_bytes(bytes_max_));
    }
    response.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Ok{};
  }
  if (status != 200 && status != 206) return Ok{};  // the page of an error is not the file
  if (!body_begun_) TRY(begin_file());
  if (misplaced_) return Ok{};
  if (expected_->bytes &&
      bytes.size() > *expected_->bytes - std::min(*expected_->bytes, part_->size())) {
    return error(Code::kBadFile, "{} sends more than the {} bytes that it should have",
                 shown_url(request_.url), *expected_->bytes);
  }
  return part_->append(bytes);
}

size_t Downloader::Attempt::on_header(char* data, size_t size, size_t count, void* self) {
  static_cast<Attempt*>(self)->read_header({data, size * count});
  return size * count;
}

size_t Downloader::Attempt::on_body(char* data, size_t size, size_t count, void* self) {
  auto& attempt = *static_cast<Attempt*>(self);
  const Status taken = attempt.take_body(std::as_bytes(std::span(data, size * count)));
  if (!taken) attempt.failure_ = taken.error();
  return taken && !attempt.misplaced_ ? size * count : 0;  // 0 ends the transfer
}

int Downloader::Attempt::on_progress(void* self, curl_off_t total, curl_off_t, curl_off_t,
                                     curl_off_t) {
  auto& attempt = *static_cast<Attempt*>(self);
  if (!attempt.options_.on_progress) return 0;
  std::optional<uint64_t> whole;
  uint64_t done = 0;
  if (attempt.part_ != nullptr) {
    done = attempt.part_->size();
    whole = attempt.expected_->bytes;
    const ContentRange range = parse_content_range(attempt.content_range_);
    if (!whole && range.total) whole = range.total;
    if (!whole && attempt.body_begun_ && total > 0) whole = static_cast<uint64_t>(total);
  }
  if (attempt.options_.on_progress(done, whole)) return 0;
  attempt.failure_ = error(Code::kUnavailable, "stopped");
  return 1;
}

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
    if (answered && retry_after > 0) pause = std::chrono::seconds(retry_after);
    if (pause > options_.retry_after_max) {
      return error(Code::kUnavailable, "{} answered {} and asks to wait {} s; try again later",
                   shown_url(request.url), attempt.response.status, pause.count() / 1000);
    }
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
    if (wanted.empty() && is_sha256(response.linked_etag)) wanted = response.linked_etag;
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
