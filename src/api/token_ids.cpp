#include "api/token_ids.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "api/json_fields.h"

namespace pacer::api {

Result<std::vector<TokenId>> read_token_ids(const Json& array, const std::string& name,
                                            uint32_t vocabulary_size) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::optional<int64_t> id = as_integer(array[i]);
    if (!id || *id < 0 || *id >= int64_t{vocabulary_size}) {
      std::string element = fmt::format("{}[{}]", name, i);
      Error failure = error(Code::kInvalidArgument, "'{}' must be a token id in [0, {}], not {}",
                            element, vocabulary_size - 1, describe(array[i]));
      failure.param = std::move(element);
      return failure;
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

}  // namespace pacer::api
