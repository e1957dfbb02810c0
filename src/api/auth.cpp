#include "api/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/error_format.h"
#include "base/check.h"

namespace pacer::api {

namespace {

constexpr size_t kKeyBytesMax = 512;  // far below what a header may have

std::array<uint8_t, 32> sha256(std::string_view text) {
  std::array<uint8_t, 32> digest{};
  unsigned int size = 0;
  const int done =
      EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  CHECK(done == 1 && size == digest.size(), "SHA-256 gave {} bytes", size);
  return digest;
}

bool is_visible_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// KEY of "Bearer KEY", the scheme in any case (RFC 9110, 11.1). Two such fields are nobody's habit
// but that of who hopes that two programs read them differently.
std::optional<std::string_view> bearer_of(const http::Headers& headers) {
  if (headers.count("Authorization") != 1) return std::nullopt;
  std::string_view value = *headers.find("Authorization");
  constexpr std::string_view kScheme = "Bearer";
  if (value.size() <= kScheme.size() || value[kScheme.size()] != ' ' ||
      !http::equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  value.remove_prefix(kScheme.size());
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  value = value.substr(0, value.find_last_not_of(" \t") + 1);
  if (value.empty()) return std::nullopt;
  return value;
}

}  // namespace

Result<ApiKeys> ApiKeys::from(std::span<const std::string> keys) {
  std::vector<Digest> digests;
  for (const std::string& key : keys) {
    const size_t position = digests.size() + 1;
    if (key.empty() || key.size() > kKeyBytesMax || !is_visible_ascii(key)) {
      return error(Code::kInvalidArgument,
                   "API key {} is {}: a key is 1 to {} visible ASCII characters without spaces",
                   position,
                   key.empty() ? "empty" : fmt::format("{} bytes long or has others", key.size()),
                   kKeyBytesMax);
    }
    const Digest digest = sha256(key);
    const auto twin = std::find(digests.begin(), digests.end(), digest);
    if (twin != digests.end()) {
      return error(Code::kInvalidArgument, "API keys {} and {} are the same",
                   twin - digests.begin() + 1, position);
    }
    digests.push_back(digest);
  }
  ApiKeys result;
  result.digests_ = std::make_shared<const std::vector<Digest>>(std::move(digests));
  return result;
}

std::optional<uint32_t> ApiKeys::position(const http::Headers& headers) const {
  if (empty()) return std::nullopt;
  const std::optional<std::string_view> key = bearer_of(headers);
  if (!key) return std::nullopt;
  const Digest digest = sha256(*key);
  uint32_t found = 0;
  for (uint32_t i = 0; i < digests_->size(); ++i) {
    // All of them, also after the right one: time must not say where it is.
    if (CRYPTO_memcmp(digest.data(), (*digests_)[i].data(), digest.size()) == 0) found = i + 1;
  }
  if (found == 0) return std::nullopt;
  return found;
}

http::Gate ApiKeys::gate() const {
  if (empty()) return nullptr;
  return [keys = *this](const http::RequestHead& head) -> std::optional<http::Response> {
    if (keys.position(head.headers)) return std::nullopt;
    const bool tried = head.headers.find("Authorization") != nullptr;
    return format_http_error(401, tried ? "the API key is not one that this server knows"
                                        : "this server wants an API key, as "
                                          "'Authorization: Bearer KEY'");
  };
}

}  // namespace pacer::api
