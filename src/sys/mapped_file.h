// A file mapped read-only into memory, unmapped when it goes out of scope.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace pacer::sys {

class MappedFile {
 public:
  MappedFile() = default;
  static Result<MappedFile> open(
      const std::string& path);  // not a regular file, empty or unreadable: Error
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

  // Tells the kernel that these pages will not be needed again (weights that were repacked).
  void release() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace pacer::sys
