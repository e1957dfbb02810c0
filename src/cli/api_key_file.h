// --api-key-file: API keys, one a line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace pacer::cli {

// Lines that begin with # and blank ones are skipped, space around a key is not part of it. A file
// without a key is refused: whoever named it meant to close a door. Warns of a file that every user
// of the machine can read.
Result<std::vector<std::string>> read_api_key_file(const std::string& path);

}  // namespace pacer::cli
