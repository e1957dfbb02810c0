// Token ids as clients write them, checked against the vocabulary.
#pragma once

#include <string>
#include <vector>

#include "api/json_body.h"
#include "base/result.h"
#include "base/token.h"

namespace pacer::api {

// The ids of a JSON array. The error names the element: "stop_token_ids[2]".
Result<std::vector<TokenId>> read_token_ids(const Json& array, const std::string& name,
                                            uint32_t vocabulary_size);

}  // namespace pacer::api
