// JSON written by hand, for what is written once per token: strings, log-probabilities, id lists.
//
// A DOM per token would cost more than the token's own bookkeeping. Requests are read with a real
// parser (json_body); answers are concatenated here, and every text goes through
// append_json_string(), so whatever bytes come in, valid UTF-8 JSON comes out.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/token.h"
#include "http/message.h"

namespace pacer::api {

// With quotes. Ill-formed UTF-8 becomes U+FFFD (maximal subparts). Line separators that some
// clients split on (U+0085, U+2028, U+2029) are escaped, so that an SSE line stays one line.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

// JSON has no infinity: -inf and NaN are written as -9999, which is how OpenAI says "almost never".
void append_json_logprob(std::string& out, float logprob);

// [1,2,3]
void append_json_ids(std::string& out, std::span<const TokenId> ids);

// A token's bytes as readable text: what is well-formed UTF-8 as it is, any other byte as \xf0.
std::string token_text(std::string_view bytes);

// At most max_bytes of text, cut between characters, with "..." where something was cut.
std::string shortened(std::string_view text, size_t max_bytes);

// 200 or another status with application/json.
http::Response json_response(int status, std::string body);

}  // namespace pacer::api
