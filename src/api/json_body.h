// A request's body, parsed once: bytes to a JSON object, or one sentence that says where it breaks.
//
// Bounded in depth and in values before anything recursive sees it (bounded in size by http).
// Ill-formed UTF-8 and unpaired surrogates are refused here, so that every string further on is
// valid UTF-8. Of a key that comes twice, the last one counts. Keys keep their order: a chat
// template prints the schema of a tool in the order in which it was written.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace pacer::api {

using Json = nlohmann::ordered_json;

constexpr size_t kJsonDepthMax = 64;
// Values in one body: room for 64 prompts of token ids, and a bound on what a few megabytes of
// "1,1,1" become in memory.
constexpr size_t kJsonValuesMax = 1'000'000;
// Members of one object: a member is looked for one after the other.
constexpr size_t kJsonMembersMax = 16'384;

// The error names the field at which the parser stood ("messages[0].content").
Result<Json> parse_json_object(std::string_view body);

}  // namespace pacer::api
