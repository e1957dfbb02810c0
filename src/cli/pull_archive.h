// What is in a wheel or source package: its members, and the bytes of one, streamed.
//
// Over libarchive. Names of members are data, never paths: nothing is written to where they point.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace pacer::cli {

struct ArchiveMember {
  std::string name;  // as the archive has it
  uint64_t bytes = 0;

  std::string base_name() const { return name.substr(name.rfind('/') + 1); }
};

struct ArchiveContents {
  std::vector<ArchiveMember> members;        // regular files, in the archive's order
  std::map<std::string, std::string> texts;  // by member name: those that were asked for
};

// Lists `path`, and keeps the contents of members for which `keep` holds (each at most 1 MiB, 16 in
// all).
Result<ArchiveContents> read_archive(const std::string& path,
                                     const std::function<bool(const ArchiveMember&)>& keep);

// Hands the bytes of the member to `take`, block by block.
Status read_member(const std::string& path, const std::string& name,
                   const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace pacer::cli
