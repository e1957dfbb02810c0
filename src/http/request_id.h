// X-Request-Id: one name for a request in the client's log and in ours.
#pragma once

#include <string>
#include <string_view>

namespace pacer::http {

constexpr size_t kRequestIdBytesMax = 128;

// 1 to 128 visible ASCII characters: fit to be sent back, and to stand in a log.
bool is_request_id(std::string_view text);

// 128 bits from the machine's source of randomness, as 32 hex digits.
std::string random_request_id();

}  // namespace pacer::http
