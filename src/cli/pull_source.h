// Where a model may come from, as people write it: hf:ORG/REPO[:FILE], pypi:PROJECT[==VERSION],
// https://HOST/FILE.gguf. And which names from outside may become names of files here.
//
// Pure: the fetching is in pull_hub, pull_index and pull_model.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace pacer::cli {

// A repository of the Hugging Face hub. `file`: a file's name or a quantisation such as Q4_K_M;
// empty: we choose.
struct HubSource {
  std::string org, repo, file;
};
// A project of a Python package index; `version` empty: the newest.
struct IndexSource {
  std::string project, version;
};
struct WebSource {
  std::string url;
};
using Source = std::variant<HubSource, IndexSource, WebSource>;

// Whether `name` means something to fetch; else it is a path.
bool is_source(std::string_view name);
Result<Source> parse_source(std::string_view name);

// PEP 503: lower case, and one '-' for every run of '-', '_' and '.'.
std::string normalized_project(std::string_view name);

// A path below the models folder, '/' between its segments: none empty, hidden, '..', or with
// characters that shells and terminals take amiss. `whose` begins the sentence.
Status check_relative_name(std::string_view name, std::string_view whose);

}  // namespace pacer::cli
