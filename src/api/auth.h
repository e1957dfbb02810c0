// API keys: who may ask this server to work.
//
// A key is known here by its SHA-256 digest and its position (the first is 1), and by nothing else:
// the position is what logs and metrics may say. Filled by cli/ at start, read by gates (before a
// request's body is taken in) and by the request log, on any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/message.h"
#include "http/router.h"

namespace pacer::api {

class ApiKeys {
 public:
  ApiKeys() = default;  // none: everybody may

  // Refuses a key that no header could carry, or that is there twice; the message has its position
  // and not the key.
  static Result<ApiKeys> from(std::span<const std::string> keys);

  bool empty() const { return digests_ == nullptr || digests_->empty(); }

  // Of the key in "Authorization: Bearer KEY". Nothing: there is none, or it is not known. Takes
  // the same time whichever key it is.
  std::optional<uint32_t> position(const http::Headers& headers) const;

  // Refuses with 401 whoever has no key that is known. Null where there are no keys.
  http::Gate gate() const;

 private:
  using Digest = std::array<uint8_t, 32>;
  std::shared_ptr<const std::vector<Digest>> digests_;  // gates share it
};

}  // namespace pacer::api
