// What libcurl is told, and what its callbacks do with headers and bytes as they come.
#include "http/download_attempt.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/human.h"
#include "base/version.h"
#include "http/download_url.h"

namespace pacer::http {

namespace {

constexpr long kRedirectsMax = 10;
constexpr long kStallBytesPerSecond = 1024;
constexpr size_t kFieldBytesMax = 1024;

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

}  // namespace pacer::http
