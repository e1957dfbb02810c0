// The models folder: which files came from where, whether they are still what came, and putting new
// ones in their place.
//
//   models/NAME.gguf           a model
//   models/NAME.gguf.sha256    its checksum as `sha256sum -c` reads it; newer than the model:
//                              nobody touched it since, so it need not be read again
//   models/NAME.gguf.part      one on its way (http/download_part.h)
//   models/.pull/lock          held while a pull writes here
//   models/.pull/SOURCE        checksums and names of the files that a source meant, so that the
//                              next start with the same -m needs no network
//   models/.pull/*.whl ...     packages on their way to be unpacked
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/pull_progress.h"
#include "http/download_part.h"

namespace pacer::cli {

class ModelStore {
 public:
  // ${PACER_MODELS:-${PACER_HOME:-~/.cache/pacer}/models}
  static std::string default_folder();
  explicit ModelStore(std::string folder) : folder_(std::move(folder)) {}

  std::string path_of(const std::string& name) const { return (folder_ / name).string(); }
  // For packages: a path in .pull/.
  std::string work_path(const std::string& name) const {
    return (folder_ / ".pull" / name).string();
  }

  // Creates the folders and takes the lock.
  Result<http::FileLock> lock(PullProgress& progress) const;

  // The files that `source` meant when it was last pulled, when all are here and right.
  std::optional<std::vector<std::string>> find(const std::string& source) const;
  Status remember(const std::string& source, const std::vector<std::string>& names) const;

  // The checksum that is remembered of a file, or nothing when it was not put here by us.
  std::optional<std::string> checksum_of(const std::string& name) const;
  // Here, and what it was when it came. Reads the file only when something touched it.
  bool is_right(const std::string& name) const;
  // Whether a file with this checksum is here, whoever put it here; then it is remembered.
  bool adopt(const std::string& name, const std::string& sha256) const;

  // An Error when there is a file of that name that no pull put there.
  Status check_ours(const std::string& name) const;
  // The part of `name`, ready to be written.
  Result<http::PartFile> open_part(const std::string& name, const std::string& source) const;
  // A finished part becomes `name`, if it is a GGUF file. The same file already there is fine.
  Status place(http::PartFile& part, const std::string& name) const;

  // An Error when the disk has fewer bytes than this left.
  Status check_room(uint64_t bytes, const std::string& what) const;

 private:
  Status write_checksum(const std::string& name, const std::string& sha256) const;
  std::filesystem::path manifest_path(const std::string& source) const;

  std::filesystem::path folder_;
};

}  // namespace pacer::cli
