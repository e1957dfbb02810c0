// libcurl's own reading of addresses, so that what is checked here is what it will fetch.
#include "http/download_url.h"

#include <curl/curl.h>

#include <memory>

#include "base/check.h"

namespace pacer::http {

namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

Url parse(const std::string& text) {
  Url url(curl_url());
  CHECK(url, "no memory for an address");
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return nullptr;
  return url;
}

std::string part(CURLU* url, CURLUPart what, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, what, &text, flags) != CURLUE_OK) return "";
  std::string result(text);
  curl_free(text);
  return result;
}

bool is_web(CURLU* url) {
  const std::string scheme = part(url, CURLUPART_SCHEME);
  return scheme == "http" || scheme == "https";
}

}  // namespace

Result<std::string> resolve_url(const std::string& base, const std::string& link) {
  const Url url = parse(base);
  if (!url || !is_web(url.get())) {
    return error(Code::kInvalidArgument, "'{}' is no http or https address", shown_url(base));
  }
  if (!link.empty() && curl_url_set(url.get(), CURLUPART_URL, link.c_str(), 0) != CURLUE_OK) {
    return error(Code::kBadFile, "{} links to '{}', which is no address", shown_url(base),
                 shown_url(link));
  }
  if (!is_web(url.get())) {
    return error(Code::kBadFile, "{} links to '{}'; only http and https are followed",
                 shown_url(base), shown_url(link));
  }
  curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);
  return part(url.get(), CURLUPART_URL);
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/');
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string url_file_name(const std::string& url) {
  const Url parsed = parse(url);
  if (!parsed) return "";
  const std::string path = part(parsed.get(), CURLUPART_PATH);
  const std::string last = path.substr(path.rfind('/') + 1);
  int size = 0;
  char* decoded = curl_easy_unescape(nullptr, last.c_str(), static_cast<int>(last.size()), &size);
  CHECK(decoded != nullptr, "no memory to decode an address");
  std::string name(decoded, static_cast<size_t>(size));
  curl_free(decoded);
  return name;
}

std::string shown_url(const std::string& url) {
  const Url parsed = parse(url);
  if (!parsed) {
    // Not an address, so nobody knows where its secrets are: not before an @, not after a ?.
    const size_t at = url.rfind('@');
    const std::string rest = at == std::string::npos ? url : url.substr(at + 1);
    return rest.substr(0, rest.find_first_of("?#"));
  }
  for (const CURLUPart secret : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS,
                                 CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    curl_url_set(parsed.get(), secret, nullptr, 0);
  }
  return part(parsed.get(), CURLUPART_URL);
}

std::string url_origin(const std::string& url) {
  const Url parsed = parse(url);
  if (!parsed) return "";
  std::string host = part(parsed.get(), CURLUPART_HOST);
  for (char& c : host) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return fmt::format("{}://{}:{}", part(parsed.get(), CURLUPART_SCHEME), host,
                     part(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

}  // namespace pacer::http
