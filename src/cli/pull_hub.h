// hf:ORG/REPO[:FILE]: which files of a repository are the model, and fetching them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/pull_context.h"
#include "cli/pull_source.h"

namespace pacer::cli {

struct HubFile {
  std::string path;  // in the repository, '/' between its folders
  uint64_t bytes = 0;
  std::string sha256;  // empty: the hub did not say

  bool operator==(const HubFile&) const = default;
};

// The .gguf files in the answer of /api/models/ORG/REPO/tree/REVISION?recursive=1.
Result<std::vector<HubFile>> parse_hub_tree(std::string_view json);

// One model of `files`: a whole file, or all shards of one in their order. `wanted` is a path, a
// file's name or a quantisation; empty: Q4_K_M, else the only one there is. The Error lists what
// there is.
Result<std::vector<HubFile>> choose_hub_files(const std::vector<HubFile>& files,
                                              std::string_view wanted);

// The names below the models folder of what was fetched: ORG/REPO/PATH.
Result<std::vector<std::string>> pull_from_hub(PullContext& context, const HubSource& source);

}  // namespace pacer::cli
